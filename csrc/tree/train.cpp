// Training the classifiers of a tree. Each node gathers its points and features into a separate problem.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "../core/split_mix.h"
#include "../core/threads.h"
#include "tree.h"

namespace sparsenet {
namespace {

constexpr float kPaddingSlack = 1e30f;  // of a child that does not exist: no point moves its weights
constexpr int32_t kAbsent = -1;         // the number of a feature that no point of the node has

// The points of a node as a DualProblem, with the features that occur in them numbered in ascending order.
struct NodeProblem {
  std::vector<int32_t> places;  // by global feature: its number in this problem
  std::vector<int32_t> features;
  std::vector<int64_t> indptr, label_indptr;
  std::vector<int32_t> indices, labels;
  std::vector<float> data, squares, weight;

  void gather(const Csr& points, int64_t n_features, const float* all_squares, const int32_t* reached,
              const uint16_t* belongs, int64_t n) {
    places.resize(n_features, kAbsent);
    features.clear();
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = points.indptr[reached[i]]; j < points.indptr[reached[i] + 1]; ++j) {
        int32_t& place = places[points.indices[j]];
        if (place == kAbsent) features.push_back(points.indices[j]);
        place = 0;
      }
    std::sort(features.begin(), features.end());
    for (size_t f = 0; f < features.size(); ++f) places[features[f]] = static_cast<int32_t>(f);
    int64_t entries = 0;
    for (int64_t i = 0; i < n; ++i) entries += points.indptr[reached[i] + 1] - points.indptr[reached[i]];
    indices.reserve(entries);
    data.reserve(entries);
    indptr.assign(1, 0);
    label_indptr.assign(1, 0);
    indices.clear();
    labels.clear();
    data.clear();
    squares.clear();
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = points.indptr[reached[i]]; j < points.indptr[reached[i] + 1]; ++j) {
        indices.push_back(places[points.indices[j]]);
        data.push_back(points.data[j]);
      }
      for (int32_t child = 0; child < kChildren; ++child)
        if (belongs[i] >> child & 1) labels.push_back(child);
      squares.push_back(all_squares[reached[i]]);
      indptr.push_back(static_cast<int64_t>(indices.size()));
      label_indptr.push_back(static_cast<int64_t>(labels.size()));
    }
    for (const int32_t feature : features) places[feature] = kAbsent;
  }

  void train(int64_t n, int64_t n_children, ErrorCosts costs, DualRules rules) {
    int64_t own[kChildren] = {};
    for (const int32_t child : labels) ++own[child];
    float positive[kChildren], negative[kChildren];
    node_slacks(own, n, n_children, costs, positive, negative);
    const int64_t n_features = static_cast<int64_t>(features.size());
    weight.assign((n_features + 1) * kChildren, 0.0f);
    const Csr csr{indptr.data(), indices.data(), data.data()};
    const DualProblem problem{csr,           n_features, squares.data(), label_indptr.data(),
                              labels.data(), 0,          positive,       negative};
    dual_train_block(problem, n, kChildren, rules, weight.data());
  }
};

// Rounds the weights of a node to 8 bits and drops rows whose weights are all smaller than `min_weight`.
NodeClassifiers quantize(const NodeProblem& own, float min_weight) {
  NodeClassifiers found;
  for (size_t f = 0; f < own.features.size(); ++f) {
    const float* row = own.weight.data() + f * kChildren;
    float largest = 0;
    for (int64_t c = 0; c < kChildren; ++c) largest = std::max(largest, std::fabs(row[c]));
    if (!(largest >= min_weight) || largest == 0) continue;
    const float factor = largest / 127;
    found.features.push_back(own.features[f]);
    found.factors.push_back(factor);
    for (int64_t c = 0; c < kChildren; ++c) found.weights.push_back(static_cast<int8_t>(std::lrint(row[c] / factor)));
  }
  std::copy_n(own.weight.data() + own.features.size() * kChildren, kChildren, found.bias);
  return found;
}
}  // namespace

void node_slacks(const int64_t* own, int64_t n, int64_t n_children, ErrorCosts costs, float* positive,
                 float* negative) {
  std::fill_n(positive, kChildren, kPaddingSlack);
  std::fill_n(negative, kChildren, kPaddingSlack);
  for (int64_t c = 0; c < n_children; ++c) {
    const float rare = static_cast<float>(std::max<int64_t>(n, 1)) / static_cast<float>(std::max<int64_t>(own[c], 1));
    positive[c] = 0.5f / (costs.own * std::pow(rare, costs.rarity));
    negative[c] = 0.5f / costs.others;
  }
}

std::vector<NodeClassifiers> train_nodes(Csr points, int64_t n_features, const float* squares, NodePoints node_points,
                                         ErrorCosts costs, DualRules rules, float min_weight, int threads) {
  std::vector<NodeClassifiers> found(node_points.n_nodes);
  // Working memory is as long as the number of features, so each thread reuses its own for many nodes.
  std::atomic<int64_t> next{0};
  parallel_for(std::min<int64_t>(threads, node_points.n_nodes), threads, [&](int64_t) {
    NodeProblem own;
    for (int64_t node = next++; node < node_points.n_nodes; node = next++) {
      const int64_t begin = node_points.starts[node], n = node_points.starts[node + 1] - begin;
      const int64_t n_children = node_points.children[node + 1] - node_points.children[node];
      own.gather(points, n_features, squares, node_points.reached + begin, node_points.belongs + begin, n);
      own.train(n, n_children, costs, {rules.max_epochs, rules.tolerance, split_mix(rules.seed + node)});
      found[node] = quantize(own, min_weight);
    }
  });
  return found;
}

}  // namespace sparsenet
