#include "lsh.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "threads.h"

namespace sparsenet {
namespace {

// Rows hashed by one task: enough to pay for the call, few enough to share out a batch of queries.
constexpr int64_t kRowsPerTask = 32;
// Other bins asked by an empty one. Only a vector with one or two non-zero values comes near.
constexpr uint32_t kBorrowAttempts = 64;

// Murmur3's finaliser: a bijection of 32 bits that passes for random.
uint32_t mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  x = (x ^ (x >> 13)) * 0xc2b2ae35U;
  return x ^ (x >> 16);
}

template <typename Function>
void for_row_blocks(int64_t n, int threads, const Function& function) {
  parallel_for((n + kRowsPerTask - 1) / kRowsPerTask, threads, [&](int64_t task) {
    function(task * kRowsPerTask, std::min(n, (task + 1) * kRowsPerTask));
  });
}

// The position that stands for a bin, -1 if all its values are zero. Written so that it compiles without branches:
// at random data they would be mispredicted half of the time.
template <bool largest>
int32_t winner(const float* values, const int32_t* coordinates, int64_t window) {
  float best = -std::numeric_limits<float>::infinity();
  int32_t position = -1;
  for (int64_t i = largest ? 0 : window - 1; largest ? i < window : i >= 0; largest ? ++i : --i) {
    const float value = values[coordinates[i]];
    const bool better = value != 0.0F && (!largest || value > best);
    best = better ? value : best;
    position = better ? static_cast<int32_t>(i) : position;
  }
  return position;
}

// Densification (Shrivastava 2017): an empty bin takes over a pseudo-random other one, the same for every vector.
// The donor is part of the symbol, so that a borrowed position rarely passes for one of the bin's own.
uint32_t symbol(const std::vector<int32_t>& winners, uint32_t bin, int64_t window) {
  const uint32_t n_bins = static_cast<uint32_t>(winners.size());
  uint32_t donor = bin;
  for (uint32_t attempt = 0; winners[donor] < 0 && attempt < kBorrowAttempts; ++attempt)
    donor = mix(bin * kBorrowAttempts + attempt) % n_bins;
  if (winners[donor] < 0) return 0;
  return (static_cast<uint32_t>(winners[donor]) + donor) & static_cast<uint32_t>(window - 1);
}

template <bool largest>
void bin_codes_of(const float* values, int64_t n, int64_t width, const Bins& bins, uint16_t* codes, int threads) {
  const int64_t n_bins = bins.n_tables * bins.per_table;
  for_row_blocks(n, threads, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> winners(n_bins);
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t bin = 0; bin < n_bins; ++bin)
        winners[bin] = winner<largest>(values + row * width, bins.coordinates + bin * bins.window, bins.window);
      for (int64_t table = 0; table < bins.n_tables; ++table) {
        uint32_t code = 0;
        for (int64_t i = 0; i < bins.per_table; ++i)
          code = code * static_cast<uint32_t>(bins.window) +
                 symbol(winners, static_cast<uint32_t>(table * bins.per_table + i), bins.window);
        codes[table * n + row] = static_cast<uint16_t>(code);
      }
    }
  });
}

// Counts hits in a dense array of zeros and remembers which entries it touched.
class Counter {
 public:
  Counter(const Tables& tables, int64_t probe_limit, int32_t* counts)
      : tables_(tables), probe_limit_(probe_limit), counts_(counts) {}

  void add(int32_t label, int32_t weight) {
    if (counts_[label] == 0) touched_.push_back(label);
    counts_[label] += weight;
  }

  // Every label of a bucket gets `weight` hits. Of a bucket above the limit, only a run of labels is looked at; it
  // starts at a place of its own in every bucket, otherwise small ids would always be preferred.
  void probe(int64_t table, uint32_t code, int32_t weight) {
    const int32_t* offsets = tables_.offsets + table * (tables_.n_buckets + 1) + code;
    const int32_t* bucket = tables_.labels + table * tables_.n_labels + offsets[0];
    const int64_t size = offsets[1] - offsets[0];
    if (size <= probe_limit_) {
      for (int64_t i = 0; i < size; ++i) add(bucket[i], weight);
      return;
    }
    const int64_t start = mix(static_cast<uint32_t>(table) << 16 | code) % size;
    const int64_t until_end = std::min(probe_limit_, size - start);
    for (int64_t i = 0; i < until_end; ++i) add(bucket[start + i], weight);
    for (int64_t i = 0; i < probe_limit_ - until_end; ++i) add(bucket[i], weight);
  }

  void absorb(Counter& other) {
    for (const int32_t label : other.touched_) add(label, other.counts_[label]);
    other.clear();
  }

  // Moves the `limit` most frequent labels out, ties to the smaller label, and leaves only zeros.
  int64_t take(int64_t limit, int32_t* ids, int32_t* hits) {
    const int32_t least = cut(limit);
    keys_.clear();
    for (const int32_t label : touched_)
      if (counts_[label] >= least)
        keys_.push_back(static_cast<uint64_t>(~static_cast<uint32_t>(counts_[label])) << 32 |
                        static_cast<uint32_t>(label));
    clear();
    const int64_t found = std::min<int64_t>(limit, static_cast<int64_t>(keys_.size()));
    std::nth_element(keys_.begin(), keys_.begin() + found, keys_.end());
    std::sort(keys_.begin(), keys_.begin() + found);
    for (int64_t i = 0; i < found; ++i) {
      ids[i] = static_cast<int32_t>(keys_[i] & 0xffffffffU);
      hits[i] = static_cast<int32_t>(~static_cast<uint32_t>(keys_[i] >> 32));
    }
    return found;
  }

 private:
  void clear() {
    for (const int32_t label : touched_) counts_[label] = 0;
    touched_.clear();
  }

  // The largest count that at least `limit` labels reach, or 1. Most labels have one or two hits: only those that
  // may be returned should be sorted.
  int32_t cut(int64_t limit) {
    int32_t most = 0;
    for (const int32_t label : touched_) most = std::max(most, counts_[label]);
    histogram_.assign(most + 1, 0);
    for (const int32_t label : touched_) ++histogram_[counts_[label]];
    int64_t reached = 0;
    for (; most > 1; --most) {
      reached += histogram_[most];
      if (reached >= limit) break;
    }
    return most;
  }

  const Tables& tables_;
  int64_t probe_limit_;
  int32_t* counts_;
  std::vector<int32_t> touched_;
  std::vector<uint64_t> keys_;
  std::vector<int64_t> histogram_;
};

Counter counter_of(const Tables& tables, const Query& query, int64_t slot) {
  return Counter(tables, query.probe_limit, query.counts + slot * tables.n_labels);
}

}  // namespace

void pack_signs(const float* scores, int64_t n, int64_t n_tables, int64_t n_bits, uint16_t* codes, int threads) {
  for_row_blocks(n, threads, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* score = scores + row * n_tables * n_bits;
      for (int64_t table = 0; table < n_tables; ++table) {
        uint32_t code = 0;
        for (int64_t bit = 0; bit < n_bits; ++bit) code = code << 1 | (*score++ >= 0.0F ? 1U : 0U);
        codes[table * n + row] = static_cast<uint16_t>(code);
      }
    }
  });
}

void bin_codes(const float* values, int64_t n, int64_t width, const Bins& bins, bool largest, uint16_t* codes,
               int threads) {
  (largest ? bin_codes_of<true> : bin_codes_of<false>)(values, n, width, bins, codes, threads);
}

void build_tables(const uint16_t* codes, int64_t n_tables, int64_t n_labels, int64_t n_buckets, int32_t* offsets,
                  int32_t* labels, int threads) {
  parallel_for(n_tables, threads, [&](int64_t table) {
    const uint16_t* code = codes + table * n_labels;
    int32_t* start = offsets + table * (n_buckets + 1);
    std::fill(start, start + n_buckets + 1, 0);
    for (int64_t label = 0; label < n_labels; ++label) ++start[code[label] + 1];
    for (int64_t bucket = 0; bucket < n_buckets; ++bucket) start[bucket + 1] += start[bucket];
    std::vector<int32_t> next(start, start + n_buckets);
    int32_t* sorted = labels + table * n_labels;
    for (int64_t label = 0; label < n_labels; ++label) sorted[next[code[label]]++] = static_cast<int32_t>(label);
  });
}

int64_t query_shared(const Tables& tables, const Query& query, int32_t* ids, int32_t* hits, int threads) {
  std::vector<Counter> counters;
  for (int64_t slot = 0; slot < query.n_slots; ++slot) counters.push_back(counter_of(tables, query, slot));
  parallel_for(query.n_slots, threads, [&](int64_t slot) {
    for (int64_t table = slot; table < tables.n_tables; table += query.n_slots) {
      // Points of a batch often share a bucket: it is then walked once.
      std::vector<uint16_t> codes(query.codes + table * query.n, query.codes + (table + 1) * query.n);
      std::sort(codes.begin(), codes.end());
      for (auto first = codes.begin(); first != codes.end();) {
        const auto last = std::upper_bound(first, codes.end(), *first);
        counters[slot].probe(table, *first, static_cast<int32_t>(last - first));
        first = last;
      }
    }
  });
  for (int64_t slot = 1; slot < query.n_slots; ++slot) counters[0].absorb(counters[slot]);
  return counters[0].take(query.limit, ids, hits);
}

void query_each(const Tables& tables, const Query& query, int32_t* ids, int32_t* hits, int64_t* found, int threads) {
  parallel_for(query.n_slots, threads, [&](int64_t slot) {
    Counter counter = counter_of(tables, query, slot);
    for (int64_t point = slot; point < query.n; point += query.n_slots) {
      for (int64_t table = 0; table < tables.n_tables; ++table)
        counter.probe(table, query.codes[table * query.n + point], 1);
      found[point] = counter.take(query.limit, ids + point * query.limit, hits + point * query.limit);
    }
  });
}

}  // namespace sparsenet
