#include "lsh.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "../core/prefetch.h"
#include "../core/threads.h"

namespace sparsenet {
namespace {

// Rows hashed by one task: enough to pay for the call, few enough to spread a batch of queries over threads.
constexpr int64_t kRowsPerTask = 16;
// Other bins that an empty one tries. Only a vector with one or two non-zero values comes near this limit.
constexpr uint32_t kBorrowAttempts = 64;

// Murmur3's finaliser: a bijection of 32 bits whose output looks random.
uint32_t mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  x = (x ^ (x >> 13)) * 0xc2b2ae35U;
  return x ^ (x >> 16);
}

template <typename Function>
void for_row_blocks(int64_t n, int threads, const Function& function) {
  parallel_for((n + kRowsPerTask - 1) / kRowsPerTask, threads,
               [&](int64_t task) { function(task * kRowsPerTask, std::min(n, (task + 1) * kRowsPerTask)); });
}

constexpr int32_t kAbsent = std::numeric_limits<int32_t>::min();

// One value for each row of a block, so that all rows run the same code without unpredictable branches. A vector type,
// because GCC unrolls a loop over an array instead of vectorising it, which is three times slower.
struct Lanes {
  typedef int32_t Vector __attribute__((vector_size(kRowsPerTask * sizeof(int32_t))));
  Vector value;
};

// Maps a value to an integer of the same order, and zero to kAbsent.
int32_t key_of(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return value == 0.0F ? kAbsent : bits ^ ((bits >> 31) & 0x7fffffff);
}

// Finds the position of the largest key in a bin for each row of a block; -1 if all are absent. `columns` (width,) is
// the transposed block.
Lanes find_winners(const std::vector<Lanes>& columns, const int32_t* coordinates, int64_t window) {
  Lanes::Vector best = Lanes::Vector{} + kAbsent, position = Lanes::Vector{} - 1;
  for (int32_t i = 0; i < window; ++i) {
    const Lanes::Vector column = columns[coordinates[i]].value, better = column > best;
    position = (better & i) | (~better & position);
    best = (better & column) | (~better & best);
  }
  return {position};
}

// Densification (Shrivastava 2017): an empty bin borrows from a pseudo-random other bin, the same for every vector. The
// donor is part of the symbol, so that a borrowed symbol rarely equals the bin's own.
uint32_t symbol(const std::vector<Lanes>& winners, int64_t row, uint32_t bin, int64_t window) {
  uint32_t donor = bin;
  for (uint32_t attempt = 0; winners[donor].value[row] < 0 && attempt < kBorrowAttempts; ++attempt)
    donor = mix(bin * kBorrowAttempts + attempt) % static_cast<uint32_t>(winners.size());
  const int32_t winner = winners[donor].value[row];
  return winner < 0 ? 0 : (static_cast<uint32_t>(winner) + donor) & static_cast<uint32_t>(window - 1);
}

uint16_t code_of(const std::vector<Lanes>& winners, int64_t row, const Bins& bins, int64_t table) {
  uint32_t code = 0;
  for (int64_t bin = table * bins.per_table; bin < (table + 1) * bins.per_table; ++bin)
    code = code * static_cast<uint32_t>(bins.window) + symbol(winners, row, static_cast<uint32_t>(bin), bins.window);
  return static_cast<uint16_t>(code);
}

// A run of labels in a bucket; each label gets `weight` hits.
struct Run {
  const int32_t* labels;
  int64_t size;
  int32_t weight;
};

// Appends at most `limit` labels of a bucket, as one run, or as two if the range wraps around. A larger bucket is read
// from a pseudo-random position on: starting at the first label would favour small ids.
void append_runs(const Tables& tables, int64_t table, uint32_t code, int64_t limit, int32_t weight,
                 std::vector<Run>* runs) {
  const int32_t* offsets = tables.offsets + table * (tables.n_buckets + 1) + code;
  const int32_t* bucket = tables.labels + table * tables.n_labels + offsets[0];
  const int64_t size = offsets[1] - offsets[0];
  const int64_t start = size <= limit ? 0 : mix(static_cast<uint32_t>(table) << 16 | code) % size;
  const int64_t n_read = std::min(limit, size), until_end = std::min(n_read, size - start);
  if (until_end > 0) runs->push_back({bucket + start, until_end, weight});
  if (n_read > until_end) runs->push_back({bucket, n_read - until_end, weight});
}

// Counts hits in a dense array of zeros and records which entries it touched.
class Counter {
 public:
  explicit Counter(int32_t* counts) : counts_(counts) {}

  // Buckets are scattered in memory, so later ones are prefetched.
  void add(const std::vector<Run>& runs) {
    for (size_t i = 0; i < runs.size(); ++i) {
      if (i + kRunsAhead < runs.size()) prefetch(runs[i + kRunsAhead].labels);
      const Run& run = runs[i];
      reserve(run.size);
      for (int64_t j = 0; j < run.size; ++j) add(run.labels[j], run.weight);
    }
  }

  void merge(Counter* other) {
    reserve(other->n_touched_);
    for (int64_t i = 0; i < other->n_touched_; ++i) {
      const int32_t label = other->touched_[i];
      add(label, other->counts_[label]);
      other->counts_[label] = 0;
    }
    other->n_touched_ = 0;
  }

  // Writes the `limit` most frequent labels, ties to the smaller label, and resets all counts to zero.
  int64_t extract(int64_t limit, int32_t* ids, int32_t* hits) {
    found_.resize(n_touched_);
    for (int64_t i = 0; i < n_touched_; ++i) {
      found_[i] = counts_[touched_[i]];
      counts_[touched_[i]] = 0;
    }
    const int32_t least = cut(limit);
    keys_.clear();
    for (int64_t i = 0; i < n_touched_; ++i)
      if (found_[i] >= least)
        keys_.push_back(static_cast<uint64_t>(~static_cast<uint32_t>(found_[i])) << 32 |
                        static_cast<uint32_t>(touched_[i]));
    n_touched_ = 0;
    const int64_t size = std::min<int64_t>(limit, static_cast<int64_t>(keys_.size()));
    std::nth_element(keys_.begin(), keys_.begin() + size, keys_.end());
    std::sort(keys_.begin(), keys_.begin() + size);
    for (int64_t i = 0; i < size; ++i) {
      ids[i] = static_cast<int32_t>(keys_[i] & 0xffffffffU);
      hits[i] = static_cast<int32_t>(~static_cast<uint32_t>(keys_[i] >> 32));
    }
    return size;
  }

 private:
  static constexpr size_t kRunsAhead = 8;

  // No branch on whether the label is new, which is unpredictable; `touched_` always has room for one more.
  void add(int32_t label, int32_t weight) {
    touched_[n_touched_] = label;
    n_touched_ += counts_[label] == 0;
    counts_[label] += weight;
  }

  void reserve(int64_t n_more) {
    const size_t needed = static_cast<size_t>(n_touched_ + n_more + 1);
    if (touched_.size() < needed) touched_.resize(2 * needed);
  }

  // Returns the largest count that at least `limit` labels reach, or 1. Most labels have one or two hits, and this
  // keeps them out of the sort.
  int32_t cut(int64_t limit) {
    int32_t most = 1;
    for (const int32_t count : found_) most = std::max(most, count);
    histogram_.assign(most + 1, 0);
    for (const int32_t count : found_) ++histogram_[count];
    for (int64_t reached = 0; most > 1; --most) {
      reached += histogram_[most];
      if (reached >= limit) break;
    }
    return most;
  }

  int32_t* counts_;
  int64_t n_touched_ = 0;
  std::vector<int32_t> touched_, found_;
  std::vector<uint64_t> keys_;
  std::vector<int64_t> histogram_;
};

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

void bin_codes(const float* values, int64_t n, int64_t width, const Bins& bins, uint16_t* codes, int threads) {
  for_row_blocks(n, threads, [&](int64_t begin, int64_t end) {
    std::vector<Lanes> columns(width), winners(bins.n_tables * bins.per_table);
    for (int64_t row = begin; row < end; ++row)
      for (int64_t c = 0; c < width; ++c) columns[c].value[row - begin] = key_of(values[row * width + c]);
    for (size_t bin = 0; bin < winners.size(); ++bin)
      winners[bin] = find_winners(columns, bins.coordinates + bin * bins.window, bins.window);
    for (int64_t table = 0; table < bins.n_tables; ++table)
      for (int64_t row = begin; row < end; ++row) codes[table * n + row] = code_of(winners, row - begin, bins, table);
  });
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
  counters.reserve(static_cast<size_t>(query.n_slots));
  for (int64_t slot = 0; slot < query.n_slots; ++slot) counters.emplace_back(query.counts + slot * tables.n_labels);
  parallel_for(query.n_slots, threads, [&](int64_t slot) {
    std::vector<Run> runs;
    for (int64_t table = slot; table < tables.n_tables; table += query.n_slots) {
      // Points of a batch often share a bucket, which is then read only once.
      std::vector<uint16_t> codes(query.codes + table * query.n, query.codes + (table + 1) * query.n);
      std::sort(codes.begin(), codes.end());
      for (auto first = codes.begin(); first != codes.end();) {
        const auto last = std::upper_bound(first, codes.end(), *first);
        append_runs(tables, table, *first, query.probe_limit, static_cast<int32_t>(last - first), &runs);
        first = last;
      }
    }
    counters[slot].add(runs);
  });
  for (int64_t slot = 1; slot < query.n_slots; ++slot) counters[0].merge(&counters[slot]);
  return counters[0].extract(query.limit, ids, hits);
}

void query_each(const Tables& tables, const Query& query, int32_t* ids, int32_t* hits, int64_t* found, int threads) {
  parallel_for(query.n_slots, threads, [&](int64_t slot) {
    Counter counter(query.counts + slot * tables.n_labels);
    std::vector<Run> runs;
    for (int64_t point = slot; point < query.n; point += query.n_slots) {
      runs.clear();
      for (int64_t table = 0; table < tables.n_tables; ++table)
        append_runs(tables, table, query.codes[table * query.n + point], query.probe_limit, 1, &runs);
      counter.add(runs);
      found[point] = counter.extract(query.limit, ids + point * query.limit, hits + point * query.limit);
    }
  });
}

}  // namespace sparsenet
