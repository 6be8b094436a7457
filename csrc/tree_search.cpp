// Asking a tree: points go down it together, with a beam.
#include <algorithm>
#include <limits>
#include <vector>

#include "running.h"
#include "threads.h"
#include "tree.h"

namespace sparsenet {
namespace {

// What a node's score counts for its children. They learnt from points that the machines above sent there in error, and
// know better: with deep trees less gives up to half a point of P@5, and much less takes some of P@1 (bench/README.md).
constexpr float kFading = 0.8f;
constexpr int64_t kVisitsPerTask = 1 << 16;
constexpr int64_t kWorthATable = 8;  // rows to write and wipe for each that would be searched for
constexpr int32_t kNowhere = -1;     // what a feature has that is not among those of a node

// The logarithm of what a machine's score does to the score of its node: nothing from 1 on. What is no number, as sums
// of huge values may be, is worst: an order of scores has to have a place for each.
float penalty(float score) {
  if (score >= 1) return 0;
  const float miss = 1 - score;
  return miss > 0 ? -miss * miss * miss : -std::numeric_limits<float>::infinity();
}

// A node that a point has come to, and what its score is so far.
struct Visit {
  int32_t node;
  int32_t point;  // of those that are searched together
  float score;
};

struct Point {
  const int32_t* features;
  const float* values;
  int64_t n;
};

// Finds the place of each wanted feature among `n_rows` that ascend, or kNowhere. All searches take each step before
// any takes the next, without a branch that could be foreseen wrongly: a model of many labels is in no cache, and so
// their waits for memory are one.
void find_rows(const int32_t* features, int64_t n_rows, const int32_t* wanted, int64_t n, int32_t* found) {
  std::fill_n(found, n, 0);
  for (int64_t left = n_rows; left > 1; left -= left / 2) {
    const int32_t half = static_cast<int32_t>(left / 2);
    for (int64_t j = 0; j < n; ++j) found[j] += half & -static_cast<int32_t>(features[found[j] + half - 1] < wanted[j]);
  }
  for (int64_t j = 0; j < n; ++j) found[j] = n_rows > 0 && features[found[j]] == wanted[j] ? found[j] : kNowhere;
}

// Points on their way down together. Of all visits to a level those to one node come one after another, so that its
// weights are in cache for all but the first, and where they are many its features can be looked up in a table.
class Descent {
 public:
  Descent(Csr points, int64_t n_features, int64_t first, int64_t n)
      : points_(points), n_features_(n_features), first_(first), n_(n) {}

  void start(int64_t n_roots) {
    visits_.clear();
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t node = 0; node < n_roots; ++node)
        visits_.push_back({static_cast<int32_t>(node), static_cast<int32_t>(i), 0});
  }

  // Scores the children of all visited nodes, and has the `most` best of each point be visited next. Where children
  // have `names`, these decide between equal scores, and stand in visits.
  void go_down(const Machines& level, int64_t most, const int32_t* names) {
    score_children(level);
    std::vector<Visit> next;
    next.reserve(static_cast<size_t>(n_ * most));
    size_t at = 0;
    for (int64_t i = 0; i < n_; ++i) {
      best_.reset(most);
      for (; at < visits_.size() && visits_[at].point == i; ++at) {
        const int64_t child = level.children[visits_[at].node], stop = level.children[visits_[at].node + 1];
        const float* score = sums_.data() + at * kChildren;
        for (int64_t c = 0; child + c < stop; ++c) {
          const float found = kFading * visits_[at].score + penalty(score[c]);
          if (found < best_.threshold()) continue;  // as most are: to gather them took a third of all time
          best_.add({found, names == nullptr ? static_cast<int32_t>(child + c) : names[child + c]});
        }
      }
      best_.cut();
      std::sort(best_.entries().begin(), best_.entries().end(), better);
      for (const Best& child : best_.entries()) next.push_back({child.label, static_cast<int32_t>(i), child.score});
    }
    visits_.swap(next);
  }

  const std::vector<Visit>& visits() const { return visits_; }

 private:
  void score_children(const Machines& level) {
    sums_.resize(visits_.size() * kChildren);
    order_.resize(visits_.size());
    for (size_t v = 0; v < visits_.size(); ++v)
      order_[v] = static_cast<uint64_t>(visits_[v].node) << 32 | static_cast<uint64_t>(v);
    std::sort(order_.begin(), order_.end());
    for (size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
      const int64_t node = visit(begin).node;
      int64_t look_ups = 0;
      for (; end < order_.size() && visit(end).node == node; ++end) {
        const int64_t i = first_ + visit(end).point;
        look_ups += points_.indptr[i + 1] - points_.indptr[i];
      }
      score_visits(level, node, begin, end, look_ups);
    }
  }

  const Visit& visit(size_t at) const { return visits_[order_[at] & 0xFFFFFFFFu]; }

  void score_visits(const Machines& level, int64_t node, size_t begin, size_t end, int64_t look_ups) {
    const int64_t low = level.starts[node], n_rows = level.starts[node + 1] - low;
    const int32_t* features = level.features + low;
    if (end - begin == 1 || look_ups < n_rows / kWorthATable) {
      for (size_t v = begin; v < end; ++v) {
        const Point point = point_of(v);
        found_.resize(static_cast<size_t>(point.n));
        find_rows(features, n_rows, point.features, point.n, found_.data());
        score_visit(level, node, v, point, [&](int64_t j) { return found_[j]; });
      }
      return;
    }
    places_.resize(static_cast<size_t>(n_features_), kNowhere);  // here, since a point alone has no use for it
    for (int64_t row = 0; row < n_rows; ++row) places_[features[row]] = static_cast<int32_t>(row);
    for (size_t v = begin; v < end; ++v) {
      const Point point = point_of(v);
      score_visit(level, node, v, point, [&](int64_t j) { return places_[point.features[j]]; });
    }
    for (int64_t row = 0; row < n_rows; ++row) places_[features[row]] = kNowhere;
  }

  // `row_of` says which row of the node the j-th feature of the point has.
  template <typename RowOf>
  void score_visit(const Machines& level, int64_t node, size_t v, const Point& point, const RowOf& row_of) {
    float sums[kChildren];
    std::copy_n(level.bias + node * kChildren, kChildren, sums);
    const float* factors = level.factors + level.starts[node];
    const int8_t* all_weights = level.weights + level.starts[node] * kChildren;
    for (int64_t j = 0; j < point.n; ++j) {
      const int64_t row = row_of(j);
      if (row == kNowhere) continue;
      const float x = point.values[j] * factors[row];
      const int8_t* weights = all_weights + row * kChildren;
      for (int64_t c = 0; c < kChildren; ++c) sums[c] += x * static_cast<float>(weights[c]);
    }
    std::copy_n(sums, kChildren, sums_.data() + (order_[v] & 0xFFFFFFFFu) * kChildren);
  }

  Point point_of(size_t at) const {
    const int64_t i = first_ + visit(at).point, begin = points_.indptr[i];
    return {points_.indices + begin, points_.data + begin, points_.indptr[i + 1] - begin};
  }

  Csr points_;
  int64_t n_features_, first_, n_;
  std::vector<int32_t> places_;  // of each feature: its row among those of the node at hand
  std::vector<int32_t> found_;   // of each feature of a point likewise
  std::vector<Visit> visits_;    // by point
  std::vector<uint64_t> order_;  // of visits, by node
  std::vector<float> sums_;
  Running best_;
};
}  // namespace

void search_tree(const std::vector<Machines>& levels, Csr points, int64_t n_features, int64_t n, int64_t beam,
                 int64_t k, const int32_t* names, int32_t* leaves, float* scores, int threads) {
  // A beam wider than the tree asks for no more memory than it needs.
  int64_t widest = 1;
  for (const Machines& level : levels) widest = std::max(widest, level.children[level.n_nodes]);
  beam = std::min(beam, widest);
  // More points at a time come to a node more often, and need more memory.
  const int64_t grain = std::clamp<int64_t>(kVisitsPerTask / std::max(beam, k), 1, n / threads + 1);
  parallel_blocks(n, grain, threads, [&](int64_t first, int64_t last) {
    Descent descent(points, n_features, first, last - first);
    descent.start(levels[0].n_nodes);
    for (size_t l = 0; l + 1 < levels.size(); ++l) descent.go_down(levels[l], beam, nullptr);
    descent.go_down(levels.back(), k, names);
    std::fill(leaves + first * k, leaves + last * k, -1);
    std::fill(scores + first * k, scores + last * k, -std::numeric_limits<float>::infinity());
    int64_t point = -1, at = 0;
    for (const Visit& leaf : descent.visits()) {
      at = leaf.point == point ? at + 1 : 0;
      point = leaf.point;
      leaves[(first + point) * k + at] = leaf.node;
      scores[(first + point) * k + at] = leaf.score;
    }
  });
}

}  // namespace sparsenet
