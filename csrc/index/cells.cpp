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

constexpr int64_t kBlock = 1024;  // rows scored before the best are selected
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
    const float unit = is_usable ? std::ldexp(1.0f, std::ilogb(largest / peak)) : 0.0f;
    factor_ = is_usable ? 1.0f / unit : 0.0f;
    for (int64_t c = 0; c < width; ++c)
      values_[static_cast<size_t>(c)] = is_usable ? static_cast<int16_t>(std::nearbyint(query[c] * unit)) : int16_t{0};
  }
  const int16_t* values() const { return values_.data(); }
  float factor() const { return factor_; }

 private:
  std::vector<int16_t> values_;
  float factor_ = 0;
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

struct Workspace {
  ShortQuery query;
  Marks marks;
  TopK best;
  std::vector<int32_t> positions, ids;
  std::vector<float> scores, buffer;
  std::vector<ScoredLabel> probes;
};

// Scores a block of rows in 8 bits, and adds `base` and the offsets; null offsets mean zeros. Collects the positions of
// scores at or above the threshold of the `k` best, and returns their number.
int64_t scan(const ByteRows& rows, const float* offsets, float base, int64_t first, int64_t count, int64_t width,
             int64_t k, Workspace& work) {
  float* scores = work.scores.data();
  kernels().byte_scores(work.query.values(), work.query.factor(), rows.codes + first * width, rows.scales + first,
                        width, count, scores);
  if (offsets != nullptr)
    for (int64_t j = 0; j < count; ++j) scores[j] += offsets[first + j];
  if (base != 0)
    for (int64_t j = 0; j < count; ++j) scores[j] += base;
  // Labels come in any order, so one whose score equals the threshold may still win by its smaller id.
  float threshold = std::nextafter(work.best.threshold(), kLowest);
  if (!work.best.full() && BlockMaxima::has_bound(count, k))
    threshold = std::max(threshold, BlockMaxima(scores, count, k, work.buffer).bound());
  return kernels().above(scores, count, threshold, work.positions.data());
}

void choose_probes(const Cells& cells, int64_t n_probes, Workspace& work) {
  work.best.reset(n_probes);
  for (int64_t first = 0; first < cells.n_cells; first += kBlock) {
    const int64_t count = std::min(kBlock, cells.n_cells - first);
    const int64_t found = scan(cells.centroids, nullptr, 0, first, count, cells.width, n_probes, work);
    for (int64_t f = 0; f < found; ++f) {
      const int32_t at = work.positions[static_cast<size_t>(f)];
      work.best.add({work.scores[static_cast<size_t>(at)], static_cast<int32_t>(first + at)});
    }
  }
  work.best.cut();
  work.probes = work.best.entries();
  std::sort(work.probes.begin(), work.probes.end(), better);
}

// Prefetches the beginning of a cell; its scan prefetches the rest.
void prefetch_cell(const Cells& cells, int64_t cell) {
  constexpr int64_t kBytes = 4096, kFloat = static_cast<int64_t>(sizeof(float));
  const int64_t first = cells.starts[cell], count = cells.starts[cell + 1] - first;
  const auto* codes = reinterpret_cast<const float*>(cells.entries.codes + first * cells.width);
  prefetch(codes, std::min(kBytes, count * cells.width) / kFloat);
  prefetch(cells.entries.scales + first, count);
  if (cells.offsets != nullptr) prefetch(cells.offsets + first, count);
}

void scan_cell(const Cells& cells, const ScoredLabel& probe, int64_t k, Workspace& work) {
  const int64_t cell = probe.label;
  const float base = cells.lengths == nullptr ? 0.0f : cells.lengths[cell] * probe.score;
  for (int64_t first = cells.starts[cell]; first < cells.starts[cell + 1]; first += kBlock) {
    const int64_t count = std::min(kBlock, cells.starts[cell + 1] - first);
    const int64_t found = scan(cells.entries, cells.offsets, base, first, count, cells.width, k, work);
    for (int64_t f = 0; f < found; ++f) {
      const int32_t at = work.positions[static_cast<size_t>(f)];
      const int32_t label = cells.labels == nullptr ? static_cast<int32_t>(first + at) : cells.labels[first + at];
      const ScoredLabel candidate = {work.scores[static_cast<size_t>(at)], label};
      if (candidate.score >= work.best.threshold() && work.marks.add(label)) work.best.add(candidate);
    }
  }
}

// Collects candidates in `work.best`; returns the number of entries scanned.
int64_t collect(const Cells& cells, const CellQuery& query, Workspace& work) {
  int64_t n_probes = std::min(query.n_probes, cells.n_cells), done = 0, scanned = 0;
  std::vector<ScoredLabel> kept;
  for (;;) {
    choose_probes(cells, n_probes, work);
    work.best.reset(query.n_candidates);
    for (const ScoredLabel& candidate : kept) work.best.add(candidate);
    for (; done < n_probes; ++done) {
      const ScoredLabel& probe = work.probes[static_cast<size_t>(done)];
      if (done + 1 < n_probes) prefetch_cell(cells, work.probes[static_cast<size_t>(done) + 1].label);
      scan_cell(cells, probe, query.n_candidates, work);
      scanned += cells.starts[probe.label + 1] - cells.starts[probe.label];
    }
    work.best.cut();
    if (work.marks.count() >= query.k || n_probes == cells.n_cells) return scanned;
    kept = work.best.entries();
    n_probes = std::min(2 * n_probes, cells.n_cells);
  }
}

// Scores the candidates in `work.best` exactly.
void rescore(const Cells& cells, const ExactRows& rows, const float* query, Workspace& work) {
  std::vector<ScoredLabel>& found = work.best.entries();
  const auto count = static_cast<int64_t>(found.size());
  work.ids.resize(found.size());
  for (size_t i = 0; i < found.size(); ++i) work.ids[i] = found[i].label;
  std::sort(work.ids.begin(), work.ids.end());
  if (static_cast<int64_t>(work.scores.size()) < count) work.scores.resize(found.size());
  if (cells.width == 0) std::fill(work.scores.begin(), work.scores.begin() + count, 0.0f);
  if (cells.width > 0)
    kernels().dot_rows(query, rows.weight, cells.width, work.ids.data(), 0, count, work.scores.data());
  for (size_t i = 0; i < found.size(); ++i)
    found[i] = {nan_to_lowest(work.scores[i] + rows.bias[work.ids[i]]), work.ids[i]};
}

void write_best(int64_t k, Workspace& work, int32_t* labels, float* scores) {
  std::vector<ScoredLabel>& found = work.best.entries();
  const int64_t written = std::min(k, static_cast<int64_t>(found.size()));
  std::partial_sort(found.begin(), found.begin() + written, found.end(), better);
  for (int64_t r = 0; r < k; ++r) {
    labels[r] = r < written ? found[static_cast<size_t>(r)].label : -1;
    scores[r] = r < written ? found[static_cast<size_t>(r)].score : kLowest;
  }
}

// Collects the candidates of each query, lets `finish(query, work)` score them again, and writes the best.
template <typename Finish>
void search(const Cells& cells, const CellQuery& query, int64_t n_labels, Finish finish, int32_t* out_labels,
            float* out_scores, int64_t* out_scanned, int threads) {
  parallel_for(query.n, threads, [&](int64_t i) {
    static thread_local Workspace work;
    work.marks.clear();  // an earlier query may have run out of memory
    work.marks.prepare(n_labels);
    BlockMaxima::prepare(kBlock, work.buffer);
    work.positions.resize(kBlock);
    work.scores.resize(std::max<size_t>(kBlock, work.scores.size()));
    const float* one = query.queries + i * cells.width;
    work.query.round(one, cells.width);
    out_scanned[i] = collect(cells, query, work);
    work.marks.clear();
    finish(one, work);
    write_best(query.k, work, out_labels + i * query.k, out_scores + i * query.k);
  });
}

}  // namespace

void search_cells(const Cells& cells, const ExactRows& rows, const CellQuery& query, int32_t* out_labels,
                  float* out_scores, int64_t* out_scanned, int threads) {
  const auto finish = [&](const float* one, Workspace& work) { rescore(cells, rows, one, work); };
  search(cells, query, rows.n_labels, finish, out_labels, out_scores, out_scanned, threads);
}

void nearest_in_cells(const Cells& cells, const CellQuery& query, int32_t* out_positions, float* out_scores,
                      int64_t* out_scanned, int threads) {
  const auto finish = [](const float*, Workspace&) {};
  search(cells, query, cells.starts[cells.n_cells], finish, out_positions, out_scores, out_scanned, threads);
}

}  // namespace sparsenet
