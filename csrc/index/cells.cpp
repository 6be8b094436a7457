#include "cells.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../core/prefetch.h"
#include "../core/threads.h"
#include "../core/top_k.h"
#include "../kernels/kernel_table.h"
#include "block_maxima.h"

namespace sparsenet {
namespace {

constexpr int64_t kBlock = 1024;                                     // rows scored before the best are selected
constexpr int64_t kCodes = 16, kBlockRows = 32, kBytesOfGroup = 16;  // see GroupCodes
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// A query in up to 16 bits, so that only the rows lose precision.
class ShortQuery {
 public:
  // The unit is a power of two, so that whole numbers stay exact, and no sum over `width` bytes leaves 32 bits. A query
  // with NaN or infinity becomes zero.
  void round(const float* query, int64_t width) {
    values_.resize(static_cast<size_t>(width));
    const int64_t most = std::numeric_limits<int32_t>::max() / (127 * std::max<int64_t>(width, 1));
    const auto largest = static_cast<float>(std::min<int64_t>(most, std::numeric_limits<int16_t>::max()));
    float peak = 0, check = 0;
    for (int64_t c = 0; c < width; ++c) {
      peak = std::max(peak, std::fabs(query[c]));
      check += query[c] * 0.0f;  // NaN if a value is NaN or infinite
    }
    const bool is_usable = check == 0.0f && peak > largest * std::numeric_limits<float>::min();
    const float unit = is_usable ? std::ldexp(1.0f, std::ilogb(largest / peak)) : 1.0f;
    factor_ = 1.0f / unit;
    one_ = static_cast<int64_t>(std::min(unit, kLargestOne));
    for (int64_t c = 0; c < width; ++c)
      values_[static_cast<size_t>(c)] = is_usable ? static_cast<int16_t>(std::nearbyint(query[c] * unit)) : int16_t{0};
  }
  const int16_t* values() const { return values_.data(); }
  float factor() const { return factor_; }
  int64_t one() const { return one_; }  // what multiplies a bias; cut where the bias alone decides

 private:
  static constexpr float kLargestOne = 1099511627776.0f;
  std::vector<int16_t> values_;
  float factor_ = 1;
  int64_t one_ = 1;
};

// One bit a label, all zero between queries.
class Marks {
 public:
  void prepare(int64_t n_labels) {
    if (static_cast<int64_t>(bits_.size()) * 64 < n_labels) bits_.resize(static_cast<size_t>((n_labels + 63) / 64));
  }
  // Returns whether the label was new.
  bool add(int32_t label) {
    uint64_t& word = bits_[static_cast<size_t>(label) / 64];
    const uint64_t bit = uint64_t{1} << (label % 64);
    if (word & bit) return false;
    marked_.push_back(label);
    word |= bit;
    return true;
  }
  int64_t count() const { return static_cast<int64_t>(marked_.size()); }
  void clear() {
    for (const int32_t label : marked_) bits_[static_cast<size_t>(label) / 64] = 0;
    marked_.clear();
  }

 private:
  std::vector<uint64_t> bits_;
  std::vector<int32_t> marked_;
};

// The products of a query with the centroids of all groups, in 6 bits.
class Tables {
 public:
  // Each group's products count from its smallest, which changes all scores alike. They are shifted until no group
  // leaves 6 bits and no sum 16.
  void build(const ShortQuery& query, int64_t width, const GroupCodes& codes) {
    const int64_t n = codes.n_groups * kCodes;
    products_.assign(static_cast<size_t>(n), 0);
    bytes_.resize(static_cast<size_t>(n));
    for (int64_t t = 0; t < n; ++t)
      for (int64_t at = 0, c = t / kCodes; at < codes.per_group && c <= width; ++at, c += codes.n_groups)
        products_[static_cast<size_t>(t)] +=
            (c < width ? query.values()[c] : query.one()) * codes.centroids[t * codes.per_group + at];
    int64_t range = 0;
    for (auto group = products_.begin(); group < products_.end(); group += kCodes) {
      const auto [low, high] = std::minmax_element(group, group + kCodes);
      const int64_t least = *low;
      range = std::max(range, *high - least);
      for (auto product = group; product < group + kCodes; ++product) *product -= least;
    }
    const int64_t largest = std::min<int64_t>(63, 65535 / std::max<int64_t>(codes.n_groups, 1));
    int shift = 0;
    while (rounded(range, shift) > largest) ++shift;
    for (size_t t = 0; t < bytes_.size(); ++t) bytes_[t] = static_cast<uint8_t>(rounded(products_[t], shift));
    unit_ = std::ldexp(query.factor() * codes.unit, shift);
  }
  const uint8_t* bytes() const { return bytes_.data(); }
  float unit() const { return unit_; }

 private:
  static int64_t rounded(int64_t product, int shift) { return (product + ((int64_t{1} << shift) >> 1)) >> shift; }
  std::vector<int64_t> products_;
  std::vector<uint8_t> bytes_;
  float unit_ = 0;
};

struct Workspace {
  ShortQuery query;
  Tables tables;
  Marks marks;
  TopK best;
  std::vector<int32_t> positions, ids;
  std::vector<float> scores, bases, buffer;
  std::vector<ScoredLabel> probes;
};

// Collects the positions of scores at or above the threshold of the `k` best, and returns their number.
int64_t select(const float* scores, int64_t count, int64_t k, Workspace& work) {
  // Labels come in any order, so one whose score equals the threshold may still win by its smaller id.
  float threshold = std::nextafter(work.best.threshold(), kLowest);
  if (!work.best.full() && BlockMaxima::has_bound(count, k))
    threshold = std::max(threshold, BlockMaxima(scores, count, k, work.buffer).bound());
  return kernels().above(scores, count, threshold, work.positions.data());
}

void choose_probes(const Cells& cells, int64_t n_probes, Workspace& work) {
  const ByteRows& rows = cells.centroids;
  float* scores = work.scores.data();
  work.best.reset(n_probes);
  for (int64_t first = 0; first < cells.n_cells; first += kBlock) {
    const int64_t count = std::min(kBlock, cells.n_cells - first);
    kernels().byte_scores(work.query.values(), work.query.factor(), rows.codes + first * cells.width,
                          rows.scales + first, cells.width, count, scores);
    const int64_t found = select(scores, count, n_probes, work);
    for (int64_t f = 0; f < found; ++f) {
      const int32_t at = work.positions[static_cast<size_t>(f)];
      work.best.add({scores[at], static_cast<int32_t>(first + at)});
    }
  }
  work.best.cut();
  work.probes = work.best.entries();
  std::sort(work.probes.begin(), work.probes.end(), better);
}

// Walks over the blocks of the chosen cells ahead of the scan. Cells are too short for the CPU to recognise them as
// streams, so the scan prefetches their blocks, across the ends of cells.
class BlocksAhead {
 public:
  BlocksAhead(const Cells& cells, const std::vector<ScoredLabel>& probes)
      : cells_(cells), probes_(probes), size_(cells.codes.n_groups * kBytesOfGroup) {
    for (int64_t bytes = 0; bytes < kBytesAhead; bytes += std::max(size_, kBytesOfGroup)) next();
  }
  // Returns the next block, or the last one again.
  const uint8_t* next() {
    while (block_ == end_ && probe_ < probes_.size()) enter(probes_[probe_++].label);
    if (block_ < end_) last_ = cells_.codes.blocks + block_++ * size_;
    return last_;
  }

 private:
  static constexpr int64_t kBytesAhead = 8192;
  void enter(int64_t cell) {
    const int64_t first = cells_.starts[cell], end = cells_.starts[cell + 1];
    block_ = first / kBlockRows;
    end_ = first < end ? (end + kBlockRows - 1) / kBlockRows : block_;
  }
  const Cells& cells_;
  const std::vector<ScoredLabel>& probes_;
  int64_t size_, block_ = 0, end_ = 0;
  size_t probe_ = 0;
  const uint8_t* last_ = nullptr;
};

// Adds the best entries of a cell by their codes; `base` is added to all of its scores.
template <typename Rows>
void scan_cell(const Cells& cells, const Rows& rows, int64_t cell, float base, int64_t k, BlocksAhead& ahead,
               Workspace& work) {
  const GroupCodes& codes = cells.codes;
  const int64_t size = codes.n_groups * kBytesOfGroup, end = cells.starts[cell + 1];
  for (int64_t first = cells.starts[cell]; first < end;) {
    // A block of rows may begin in the cell before.
    const int64_t block = first / kBlockRows, until = std::min(end, block * kBlockRows + kBlock), count = until - first;
    const int64_t n_blocks = (until + kBlockRows - 1) / kBlockRows - block;
    const uint8_t* later[kBlock / kBlockRows];
    for (int64_t b = 0; b < n_blocks; ++b) later[b] = ahead.next();
    kernels().code_scores(work.tables.bytes(), codes.blocks + block * size, later, codes.n_groups, n_blocks,
                          work.tables.unit(), base, work.scores.data());
    const float* scores = work.scores.data() + (first - block * kBlockRows);
    const int64_t found = select(scores, count, k, work);
    for (int64_t f = 0; f < found; ++f) {
      const int32_t at = work.positions[static_cast<size_t>(f)], label = rows.label(first + at);
      if (scores[at] >= work.best.threshold() && work.marks.add(label)) work.best.add({scores[at], label});
    }
    first = until;
  }
}

// Puts the candidates into `work.ids`, ascending; returns the number of entries in the cells.
template <typename Rows>
int64_t collect(const Cells& cells, const Rows& rows, const CellQuery& query, Workspace& work) {
  int64_t n_probes = std::min(query.n_probes, cells.n_cells);
  for (;;) {
    choose_probes(cells, n_probes, work);
    int64_t n_entries = 0;
    for (const ScoredLabel& probe : work.probes) {
      n_entries += cells.starts[probe.label + 1] - cells.starts[probe.label];
      work.bases[static_cast<size_t>(probe.label)] = rows.base(probe);
    }
    work.ids.clear();
    if (n_entries <= query.n_candidates) {
      for (const ScoredLabel& probe : work.probes)
        for (int64_t at = cells.starts[probe.label]; at < cells.starts[probe.label + 1]; ++at)
          work.ids.push_back(rows.label(at));
    } else {
      work.tables.build(work.query, cells.width, cells.codes);
      work.best.reset(query.n_candidates);
      work.marks.clear();
      BlocksAhead ahead(cells, work.probes);
      for (const ScoredLabel& probe : work.probes)
        scan_cell(cells, rows, probe.label, work.bases[static_cast<size_t>(probe.label)], query.n_candidates, ahead,
                  work);
      work.best.cut();
      for (const ScoredLabel& candidate : work.best.entries()) work.ids.push_back(candidate.label);
    }
    std::sort(work.ids.begin(), work.ids.end());
    work.ids.erase(std::unique(work.ids.begin(), work.ids.end()), work.ids.end());
    if (static_cast<int64_t>(work.ids.size()) >= query.k || n_probes == cells.n_cells) return n_entries;
    n_probes = std::min(2 * n_probes, cells.n_cells);
  }
}

// How entries are labels that are scored by their exact rows.
struct ByLabel {
  const LabelRows& rows;
  int32_t label(int64_t at) const { return rows.labels[at]; }
  static float base(const ScoredLabel&) { return 0; }
  void score(const Cells& cells, const float* query, Workspace& work) const {
    const auto count = static_cast<int64_t>(work.ids.size());
    float* scores = work.scores.data();
    std::fill(scores, scores + count, 0.0f);
    if (cells.width > 0) kernels().dot_rows(query, rows.weight, cells.width, work.ids.data(), 0, count, scores);
    for (int64_t i = 0; i < count; ++i) scores[i] += rows.bias[work.ids[static_cast<size_t>(i)]];
  }
};

// How entries are their own labels, scored in 8 bits.
struct ByEntry {
  const EntryRows& entries;
  static int32_t label(int64_t at) { return static_cast<int32_t>(at); }
  float base(const ScoredLabel& probe) const { return entries.lengths[probe.label] * probe.score; }
  void score(const Cells& cells, const float*, Workspace& work) const {
    const std::vector<int32_t>& ids = work.ids;
    const int64_t width = cells.width, count = static_cast<int64_t>(ids.size());
    constexpr int64_t kAhead = 8;
    for (int64_t i = 0, end = 0; i < count; i = end) {  // entries next to each other, in one cell
      const int64_t cell =
          std::upper_bound(cells.starts, cells.starts + cells.n_cells, int64_t{ids[i]}) - cells.starts - 1;
      for (end = i + 1; end < count && ids[end] == ids[end - 1] + 1 && ids[end] < cells.starts[cell + 1];) ++end;
      if (i + kAhead < count) {
        const auto* next = reinterpret_cast<const float*>(entries.rows.codes + ids[i + kAhead] * width);
        prefetch(next, width / static_cast<int64_t>(sizeof(float)));
      }
      kernels().byte_scores(work.query.values(), work.query.factor(), entries.rows.codes + ids[i] * width,
                            entries.rows.scales + ids[i], width, end - i, work.scores.data() + i);
      for (int64_t j = i; j < end; ++j) work.scores[j] += work.bases[static_cast<size_t>(cell)];
    }
  }
};

void write_best(int64_t k, Workspace& work, int32_t* labels, float* scores) {
  std::vector<ScoredLabel>& found = work.best.entries();
  found.clear();
  for (size_t i = 0; i < work.ids.size(); ++i) found.push_back({nan_to_lowest(work.scores[i]), work.ids[i]});
  const int64_t written = std::min(k, static_cast<int64_t>(found.size()));
  std::partial_sort(found.begin(), found.begin() + written, found.end(), better);
  for (int64_t r = 0; r < k; ++r) {
    labels[r] = r < written ? found[static_cast<size_t>(r)].label : -1;
    scores[r] = r < written ? found[static_cast<size_t>(r)].score : kLowest;
  }
}

template <typename Rows>
void search(const Cells& cells, const Rows& rows, int64_t n_labels, const CellQuery& query, int32_t* out_labels,
            float* out_scores, int64_t* out_scanned, int threads) {
  parallel_for(query.n, threads, [&](int64_t i) {
    static thread_local Workspace work;
    work.marks.clear();  // an earlier query may have run out of memory
    work.marks.prepare(n_labels);
    BlockMaxima::prepare(kBlock, work.buffer);
    work.positions.resize(kBlock);
    work.bases.resize(std::max(work.bases.size(), static_cast<size_t>(cells.n_cells)));
    work.scores.resize(std::max<size_t>(kBlock + kBlockRows, work.scores.size()));
    const float* one = query.queries + i * cells.width;
    work.query.round(one, cells.width);
    out_scanned[i] = collect(cells, rows, query, work);
    work.marks.clear();
    work.scores.resize(std::max(work.ids.size(), work.scores.size()));
    rows.score(cells, one, work);
    write_best(query.k, work, out_labels + i * query.k, out_scores + i * query.k);
  });
}

}  // namespace

void search_cells(const Cells& cells, const LabelRows& rows, const CellQuery& query, int32_t* out_labels,
                  float* out_scores, int64_t* out_scanned, int threads) {
  search(cells, ByLabel{rows}, rows.n_labels, query, out_labels, out_scores, out_scanned, threads);
}

void nearest_in_cells(const Cells& cells, const EntryRows& rows, const CellQuery& query, int32_t* out_positions,
                      float* out_scores, int64_t* out_scanned, int threads) {
  search(cells, ByEntry{rows}, cells.starts[cells.n_cells], query, out_positions, out_scores, out_scanned, threads);
}

}  // namespace sparsenet
