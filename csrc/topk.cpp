// Exact inference over all labels: tiles of scores and a running top-k, never an n x L matrix.
#include <algorithm>
#include <vector>

#include "engine.h"
#include "fetch.h"
#include "machine.h"
#include "running.h"
#include "scratch.h"
#include "threads.h"

namespace sparsenet {
namespace {

constexpr int64_t kPoints = 128;            // of a task
constexpr int64_t kRangeLabels = 16 << 10;  // at least so many of a task, where labels are shared out
constexpr int64_t kTasksPerThread = 8;      // or more, so that none waits long for the last
constexpr int64_t kFewPoints = 4;           // packing a tile's operands does not pay for fewer

// Labels of a tile of so many points' scores, which takes half of the second-level cache; the other half is for what it
// is made of.
int64_t tile_labels(int64_t points) {
  constexpr int64_t kMultiple = 64, kMost = 4 << 10;
  const int64_t most = second_level_cache() / 2 / (points * static_cast<int64_t>(sizeof(float)));
  return std::clamp<int64_t>(most / kMultiple, 1, kMost / kMultiple) * kMultiple;
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

// How far the labels of a feature have been read, for one entry of a point: they ascend, so each is visited once.
struct Reading {
  int64_t at, stop;
};

std::vector<Reading> start_reading(const Task& task) {
  const Csr &points = task.in.points, &wide = task.in.wide;
  const int64_t base = points.indptr[task.first], end = points.indptr[task.first + task.n];
  std::vector<Reading> readings(static_cast<size_t>(end - base));
  for (int64_t j = base; j < end; ++j) {
    const int64_t begin = wide.indptr[points.indices[j]], stop = wide.indptr[points.indices[j] + 1];
    const int32_t* found =
        std::lower_bound(wide.indices + begin, wide.indices + stop, static_cast<int32_t>(task.label_first));
    readings[j - base] = {found - wide.indices, stop};
  }
  return readings;
}

// Adds what a feature of value x says of the labels below `limit`. A function of its own, for the registers.
[[gnu::noinline]] void add_labels(const Csr& wide, Reading& reading, int64_t limit, float x, float* scores) {
  const int32_t* labels = wide.indices;
  const float* weights = wide.data;
  int64_t at = reading.at;
  for (; at < reading.stop && labels[at] < limit; ++at) scores[labels[at]] += x * weights[at];
  reading.at = at;
}

// Adds the wide scores of one tile. By its next tile a reading has left the caches, and few labels of it are in one: it
// would wait for memory as often as it is gone on with.
void wide_scores(const Task& task, int64_t label, int64_t labels, std::vector<Reading>& readings, float* tile) {
  constexpr size_t kAhead = 16;
  const Csr &points = task.in.points, &wide = task.in.wide;
  const int64_t base = points.indptr[task.first];
  for (int64_t i = 0; i < task.n; ++i) {
    float* scores = tile + i * labels - label;
    for (int64_t j = points.indptr[task.first + i]; j < points.indptr[task.first + i + 1]; ++j) {
      const size_t own = static_cast<size_t>(j - base);
      const int64_t later = readings[std::min(own + kAhead, readings.size() - 1)].at;
      for (int64_t ahead = 0; ahead < 32; ahead += 16) {
        fetch(wide.indices + later + ahead);
        fetch(wide.data + later + ahead);
      }
      add_labels(wide, readings[own], label + labels, points.data[j], scores);
    }
  }
}

void collect(const float* scores, int64_t labels, int64_t label, int32_t* positions, Running& best) {
  int64_t l = 0;
  for (; l < labels && !best.full(); ++l) best.add({ordered(scores[l]), static_cast<int32_t>(label + l)});
  if (best.full()) best.cut();
  // Labels come in ascending order, so one that merely equals the threshold cannot enter; nor can what is no number.
  const int64_t found = kernels().above(scores + l, labels - l, best.threshold(), positions);
  for (int64_t f = 0; f < found; ++f) {
    const int64_t at = l + positions[f];
    if (scores[at] > best.threshold()) best.add({scores[at], static_cast<int32_t>(label + at)});
  }
}

void run_task(const Task& task, int64_t k, std::vector<Running>& best) {
  static thread_local Scratch tile_scratch;
  const int64_t most = tile_labels(task.n);
  std::vector<int32_t> positions(static_cast<size_t>(most));
  float* tile = tile_scratch.floats(task.n * most);
  for (int64_t i = 0; i < task.n; ++i) best[i].reset(std::min(k, task.label_end - task.label_first));
  std::vector<Reading> readings = start_reading(task);
  for (int64_t label = task.label_first; label < task.label_end; label += most) {
    const int64_t labels = std::min(most, task.label_end - label);
    dense_scores(task, label, labels, tile);
    wide_scores(task, label, labels, readings, tile);
    for (int64_t i = 0; i < task.n; ++i) collect(tile + i * labels, labels, label, positions.data(), best[i]);
  }
}

void write_result(std::vector<Best>& entries, int64_t k, int32_t* labels, float* scores) {
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
  // Few points are spread over the threads by ranges of labels as well; many have work enough without. Each range has
  // to find where it begins in the lists of all features.
  const int64_t wanted = threads > 1 ? (kTasksPerThread * threads + blocks - 1) / blocks : 1;
  const int64_t ranges = std::min(wanted, (in.n_labels + kRangeLabels - 1) / kRangeLabels);
  const int64_t range = (in.n_labels + ranges - 1) / ranges;
  std::vector<std::vector<Running>> found(static_cast<size_t>(blocks * ranges));
  parallel_for(blocks * ranges, threads, [&](int64_t t) {
    const int64_t first = t / ranges * kPoints, label = t % ranges * range;
    const Task task = {in, first, std::min(kPoints, in.n - first), label, std::min(in.n_labels, label + range)};
    std::vector<Running>& best = found[static_cast<size_t>(t)];
    best.resize(static_cast<size_t>(task.n));
    run_task(task, k, best);
    if (ranges > 1) return;
    for (int64_t i = 0; i < task.n; ++i)
      write_result(best[i].entries(), k, out_labels + (first + i) * k, out_scores + (first + i) * k);
    best = {};
  });
  if (ranges == 1) return;
  parallel_for(in.n, threads, [&](int64_t i) {
    std::vector<Best> merged;
    for (int64_t r = 0; r < ranges; ++r) {
      const auto& entries = found[static_cast<size_t>(i / kPoints * ranges + r)][i % kPoints].entries();
      merged.insert(merged.end(), entries.begin(), entries.end());
    }
    write_result(merged, k, out_labels + i * k, out_scores + i * k);
  });
}

}  // namespace sparsenet
