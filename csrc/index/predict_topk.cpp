#include "predict_topk.h"

#include <algorithm>
#include <vector>

#include "../core/machine.h"
#include "../core/prefetch.h"
#include "../core/scratch.h"
#include "../core/threads.h"
#include "../core/top_k.h"
#include "../engine/matmul.h"

namespace sparsenet {
namespace {

constexpr int64_t kPoints = 128;            // per task
constexpr int64_t kRangeLabels = 16 << 10;  // minimum per task, if labels are split over tasks
constexpr int64_t kTasksPerThread = 8;      // minimum, so that no thread waits long for the last task
constexpr int64_t kFewPoints = 4;           // packing the operands of a tile does not pay up to here

// Returns the number of labels in a tile of scores. The tile takes half of the second-level cache, and its operands the
// other half.
int64_t tile_labels(int64_t points) {
  constexpr int64_t kMultiple = 64, kMaxLabels = 4 << 10;
  const int64_t fitting = second_level_cache() / 2 / (points * static_cast<int64_t>(sizeof(float)));
  return std::clamp<int64_t>(fitting / kMultiple, 1, kMaxLabels / kMultiple) * kMultiple;
}

// One task: points [first, first + n) against labels [label_first, label_end).
struct Task {
  const TopkIn& in;
  int64_t first, n, label_first, label_end;
};

void dense_scores(const Task& task, int64_t label, int64_t labels, float* tile) {
  const TopkIn& in = task.in;
  const float* hidden = in.hidden + task.first * in.width;
  if (in.width == 0) {
    std::fill(tile, tile + task.n * labels, 0.0f);
  } else if (task.n <= kFewPoints) {
    for (int64_t i = 0; i < task.n; ++i)
      kernels().dot_rows(hidden + i * in.width, in.weight, in.width, nullptr, label, labels, tile + i * labels);
  } else {
    matmul({hidden, in.width, nullptr}, {in.weight + label * in.width, in.width, nullptr},
           {task.n, labels, in.width, false, true, false}, nullptr, tile, 1);
  }
  for (int64_t i = 0; i < task.n; ++i)
    for (int64_t l = 0; l < labels; ++l) tile[i * labels + l] += in.bias[label + l];
}

// The current position in the list of labels of a feature, for one entry of a point. Labels ascend, so tiles in label
// order read each list once.
struct Cursor {
  int64_t at, stop;
};

std::vector<Cursor> make_cursors(const Task& task) {
  const Csr &points = task.in.points, &wide = task.in.wide;
  const int64_t base = points.indptr[task.first], end = points.indptr[task.first + task.n];
  std::vector<Cursor> cursors(static_cast<size_t>(end - base));
  for (int64_t j = base; j < end; ++j) {
    const int64_t begin = wide.indptr[points.indices[j]], stop = wide.indptr[points.indices[j] + 1];
    const int32_t* found =
        std::lower_bound(wide.indices + begin, wide.indices + stop, static_cast<int32_t>(task.label_first));
    cursors[j - base] = {found - wide.indices, stop};
  }
  return cursors;
}

// Adds x times the weights of a feature for labels below `limit`. Not inlined, so that its variables stay in registers.
[[gnu::noinline]] void add_labels(const Csr& wide, Cursor& cursor, int64_t limit, float x, float* scores) {
  const int32_t* labels = wide.indices;
  const float* weights = wide.data;
  int64_t at = cursor.at;
  for (; at < cursor.stop && labels[at] < limit; ++at) scores[labels[at]] += x * weights[at];
  cursor.at = at;
}

// Adds the wide scores of one tile. A tile reads only a few labels of each list, and by the next tile the list has left
// the caches, so lists are prefetched.
void wide_scores(const Task& task, int64_t label, int64_t labels, std::vector<Cursor>& cursors, float* tile) {
  constexpr size_t kAhead = 16;
  const Csr &points = task.in.points, &wide = task.in.wide;
  const int64_t base = points.indptr[task.first];
  for (int64_t i = 0; i < task.n; ++i) {
    float* scores = tile + i * labels - label;
    for (int64_t j = points.indptr[task.first + i]; j < points.indptr[task.first + i + 1]; ++j) {
      const size_t own = static_cast<size_t>(j - base);
      const int64_t later = cursors[std::min(own + kAhead, cursors.size() - 1)].at;
      for (int64_t ahead = 0; ahead < 32; ahead += 16) {
        prefetch(wide.indices + later + ahead);
        prefetch(wide.data + later + ahead);
      }
      add_labels(wide, cursors[own], label + labels, points.data[j], scores);
    }
  }
}

void collect(const float* scores, int64_t labels, int64_t label, int32_t* positions, TopK& best) {
  int64_t l = 0;
  for (; l < labels && !best.full(); ++l) best.add({nan_to_lowest(scores[l]), static_cast<int32_t>(label + l)});
  if (best.full()) best.cut();
  // Labels ascend, so a score equal to the threshold loses the tie. NaN never exceeds the threshold.
  const int64_t found = kernels().above(scores + l, labels - l, best.threshold(), positions);
  for (int64_t f = 0; f < found; ++f) {
    const int64_t at = l + positions[f];
    if (scores[at] > best.threshold()) best.add({scores[at], static_cast<int32_t>(label + at)});
  }
}

void run_task(const Task& task, int64_t k, std::vector<TopK>& best) {
  static thread_local Scratch tile_scratch;
  const int64_t max_labels = tile_labels(task.n);
  std::vector<int32_t> positions(static_cast<size_t>(max_labels));
  float* tile = tile_scratch.floats(task.n * max_labels);
  for (int64_t i = 0; i < task.n; ++i) best[i].reset(std::min(k, task.label_end - task.label_first));
  std::vector<Cursor> cursors = make_cursors(task);
  for (int64_t label = task.label_first; label < task.label_end; label += max_labels) {
    const int64_t labels = std::min(max_labels, task.label_end - label);
    dense_scores(task, label, labels, tile);
    wide_scores(task, label, labels, cursors, tile);
    for (int64_t i = 0; i < task.n; ++i) collect(tile + i * labels, labels, label, positions.data(), best[i]);
  }
}

void write_result(std::vector<ScoredLabel>& entries, int64_t k, int32_t* labels, float* scores) {
  std::partial_sort(entries.begin(), entries.begin() + k, entries.end(), better);
  for (int64_t r = 0; r < k; ++r) {
    labels[r] = entries[r].label;
    scores[r] = entries[r].score;
  }
}

}  // namespace

void predict_topk(const TopkIn& in, int64_t k, int32_t* out_labels, float* out_scores, int threads) {
  if (in.n == 0 || k == 0) return;
  const int64_t blocks = (in.n + kPoints - 1) / kPoints;
  // If there are few points, tasks also split the labels into ranges. With many points this does not pay, because each
  // range must find its start in the list of every feature.
  const int64_t wanted = threads > 1 ? (kTasksPerThread * threads + blocks - 1) / blocks : 1;
  const int64_t ranges = std::min(wanted, (in.n_labels + kRangeLabels - 1) / kRangeLabels);
  const int64_t range = (in.n_labels + ranges - 1) / ranges;
  std::vector<std::vector<TopK>> found(static_cast<size_t>(blocks * ranges));
  parallel_for(blocks * ranges, threads, [&](int64_t t) {
    const int64_t first = t / ranges * kPoints, label = t % ranges * range;
    const Task task = {in, first, std::min(kPoints, in.n - first), label, std::min(in.n_labels, label + range)};
    std::vector<TopK>& best = found[static_cast<size_t>(t)];
    best.resize(static_cast<size_t>(task.n));
    run_task(task, k, best);
    if (ranges > 1) return;
    for (int64_t i = 0; i < task.n; ++i)
      write_result(best[i].entries(), k, out_labels + (first + i) * k, out_scores + (first + i) * k);
    best = {};
  });
  if (ranges == 1) return;
  parallel_for(in.n, threads, [&](int64_t i) {
    std::vector<ScoredLabel> merged;
    for (int64_t r = 0; r < ranges; ++r) {
      const auto& entries = found[static_cast<size_t>(i / kPoints * ranges + r)][i % kPoints].entries();
      merged.insert(merged.end(), entries.begin(), entries.end());
    }
    write_result(merged, k, out_labels + i * k, out_scores + i * k);
  });
}

}  // namespace sparsenet
