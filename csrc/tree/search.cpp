// Beam search in a tree, for a block of points together.
#include <algorithm>
#include <limits>
#include <vector>

#include "../core/threads.h"
#include "../core/top_k.h"
#include "tree.h"

namespace sparsenet {
namespace {

// The weight of a node's score in the scores of its children. The children were also trained on points that reached
// them by mistake, so they are more reliable. In deep trees a smaller weight gains up to half a point of P@5, and a
// much smaller one loses P@1.
constexpr float kParentWeight = 0.8f;
constexpr int64_t kVisitsPerTask = 1 << 16;
constexpr int64_t kMaxTableRows = 8;  // build a table if the node has at most this many rows for each lookup
constexpr int32_t kAbsent = -1;       // the row of a feature that the node lacks

// The logarithm of a child's share of its node's score: -(1 - score)^3, and 0 from a score of 1 on. NaN, which sums of
// huge values may give, counts as the worst score, because sorting needs comparable scores.
float penalty(float score) {
  if (score >= 1) return 0;
  const float miss = 1 - score;
  return miss > 0 ? -miss * miss * miss : -std::numeric_limits<float>::infinity();
}

// A node that a point has reached, and its score.
struct Visit {
  int32_t node;
  int32_t point;  // within the block that is searched together
  float score;
};

struct Point {
  const int32_t* features;
  const float* values;
  int64_t n;
};

// Finds the row of each wanted feature among `n_rows` ascending features, or kAbsent. All binary searches advance
// together, one step at a time and without branches. The model is larger than the caches, and so cache misses overlap.
void find_rows(const int32_t* features, int64_t n_rows, const int32_t* wanted, int64_t n, int32_t* found) {
  std::fill_n(found, n, 0);
  for (int64_t left = n_rows; left > 1; left -= left / 2) {
    const int32_t half = static_cast<int32_t>(left / 2);
    for (int64_t j = 0; j < n; ++j) found[j] += half & -static_cast<int32_t>(features[found[j] + half - 1] < wanted[j]);
  }
  for (int64_t j = 0; j < n; ++j) found[j] = n_rows > 0 && features[found[j]] == wanted[j] ? found[j] : kAbsent;
}

// The search of a block of points. The visits to a level are processed node by node, so that the weights of a node are
// in the cache for all visits but the first. A node with many visits gets a table to look up its features.
class BeamSearch {
 public:
  BeamSearch(Csr points, int64_t n_features, int64_t first, int64_t n)
      : points_(points), n_features_(n_features), first_(first), n_(n) {}

  void start(int64_t n_roots) {
    visits_.clear();
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t node = 0; node < n_roots; ++node)
        visits_.push_back({static_cast<int32_t>(node), static_cast<int32_t>(i), 0});
  }

  // Scores the children of all visited nodes; the `width` best of each point are visited next. If `names` is not null,
  // visits hold the names of children instead of their numbers, and names break ties.
  void descend(const TreeLevel& level, int64_t width, const int32_t* names) {
    score_children(level);
    std::vector<Visit> next;
    next.reserve(static_cast<size_t>(n_ * width));
    size_t at = 0;
    for (int64_t i = 0; i < n_; ++i) {
      best_.reset(width);
      for (; at < visits_.size() && visits_[at].point == i; ++at) {
        const int64_t child = level.children[visits_[at].node], stop = level.children[visits_[at].node + 1];
        const float* score = sums_.data() + at * kChildren;
        for (int64_t c = 0; child + c < stop; ++c) {
          const float found = kParentWeight * visits_[at].score + penalty(score[c]);
          if (found < best_.threshold())
            continue;  // true for most children, and adding them all took a third of the time
          best_.add({found, names == nullptr ? static_cast<int32_t>(child + c) : names[child + c]});
        }
      }
      best_.cut();
      std::sort(best_.entries().begin(), best_.entries().end(), better);
      for (const ScoredLabel& child : best_.entries())
        next.push_back({child.label, static_cast<int32_t>(i), child.score});
    }
    visits_.swap(next);
  }

  const std::vector<Visit>& visits() const { return visits_; }

 private:
  void score_children(const TreeLevel& level) {
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

  void score_visits(const TreeLevel& level, int64_t node, size_t begin, size_t end, int64_t look_ups) {
    const int64_t low = level.starts[node], n_rows = level.starts[node + 1] - low;
    const int32_t* features = level.features + low;
    if (end - begin == 1 || look_ups < n_rows / kMaxTableRows) {
      for (size_t v = begin; v < end; ++v) {
        const Point point = point_of(v);
        found_.resize(static_cast<size_t>(point.n));
        find_rows(features, n_rows, point.features, point.n, found_.data());
        score_visit(level, node, v, point, [&](int64_t j) { return found_[j]; });
      }
      return;
    }
    table_.resize(static_cast<size_t>(n_features_), kAbsent);  // here, because a single visit needs no table
    for (int64_t row = 0; row < n_rows; ++row) table_[features[row]] = static_cast<int32_t>(row);
    for (size_t v = begin; v < end; ++v) {
      const Point point = point_of(v);
      score_visit(level, node, v, point, [&](int64_t j) { return table_[point.features[j]]; });
    }
    for (int64_t row = 0; row < n_rows; ++row) table_[features[row]] = kAbsent;
  }

  // row_of(j) is the row of the point's j-th feature in the node, or kAbsent.
  template <typename RowOf>
  void score_visit(const TreeLevel& level, int64_t node, size_t v, const Point& point, const RowOf& row_of) {
    float sums[kChildren];
    std::copy_n(level.bias + node * kChildren, kChildren, sums);
    const float* factors = level.factors + level.starts[node];
    const int8_t* all_weights = level.weights + level.starts[node] * kChildren;
    for (int64_t j = 0; j < point.n; ++j) {
      const int64_t row = row_of(j);
      if (row == kAbsent) continue;
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
  std::vector<int32_t> table_;   // by feature: its row in the current node
  std::vector<int32_t> found_;   // by position in a point: the row of that feature in the current node
  std::vector<Visit> visits_;    // in order of points
  std::vector<uint64_t> order_;  // (node, position in visits_) of each visit, in order of nodes
  std::vector<float> sums_;
  TopK best_;
};
}  // namespace

void search_tree(const std::vector<TreeLevel>& levels, Csr points, int64_t n_features, int64_t n, int64_t beam,
                 int64_t k, const int32_t* names, int32_t* leaves, float* scores, int threads) {
  // Limit the beam to the width of the tree, which limits its memory.
  int64_t widest = 1;
  for (const TreeLevel& level : levels) widest = std::max(widest, level.children[level.n_nodes]);
  beam = std::min(beam, widest);
  // A larger block has more visits per node, but needs more memory.
  const int64_t grain = std::clamp<int64_t>(kVisitsPerTask / std::max(beam, k), 1, n / threads + 1);
  parallel_blocks(n, grain, threads, [&](int64_t first, int64_t last) {
    BeamSearch search(points, n_features, first, last - first);
    search.start(levels[0].n_nodes);
    for (size_t l = 0; l + 1 < levels.size(); ++l) search.descend(levels[l], beam, nullptr);
    search.descend(levels.back(), k, names);
    std::fill(leaves + first * k, leaves + last * k, -1);
    std::fill(scores + first * k, scores + last * k, -std::numeric_limits<float>::infinity());
    int64_t point = -1, at = 0;
    for (const Visit& leaf : search.visits()) {
      at = leaf.point == point ? at + 1 : 0;
      point = leaf.point;
      leaves[(first + point) * k + at] = leaf.node;
      scores[(first + point) * k + at] = leaf.score;
    }
  });
}

}  // namespace sparsenet
