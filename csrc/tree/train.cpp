// Training the classifiers of a tree. Each node gathers its points and features into a separate problem.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>

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
  float positive[kChildren], negative[kChildren];

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

  // Returns the problem; its weights are zero, and it lies in this object.
  DualProblem start(int64_t n, int64_t n_children, ErrorCosts costs) {
    int64_t own[kChildren] = {};
    for (const int32_t child : labels) ++own[child];
    node_slacks(own, n, n_children, costs, positive, negative);
    const int64_t n_features = static_cast<int64_t>(features.size());
    weight.assign((n_features + 1) * kChildren, 0.0f);
    const Csr csr{indptr.data(), indices.data(), data.data()};
    return {csr, n_features, squares.data(), label_indptr.data(), labels.data(), 0, positive, negative};
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

// The nodes of a level and their points, as `train_nodes` receives them.
struct Nodes {
  Csr points;
  int64_t n_features;
  const float* squares;
  NodePoints reached;
  ErrorCosts costs;
  DualRules rules;
  float min_weight;

  // Gathers the points of a node into `own`, where its training in `n_groups` groups of children keeps its weights.
  DualBlock start(NodeProblem& own, int64_t node, int64_t n_groups) const {
    const int64_t begin = reached.starts[node], n = reached.starts[node + 1] - begin;
    own.gather(points, n_features, squares, reached.reached + begin, reached.belongs + begin, n);
    const DualProblem problem = own.start(n, reached.children[node + 1] - reached.children[node], costs);
    return {problem,          n, kChildren, n_groups, {rules.max_epochs, rules.tolerance, split_mix(rules.seed + node)},
            own.weight.data()};
  }
};

// Each thread trains one node after the other. Working memory is as long as the number of features, so a thread reuses
// its own.
void train_whole(const Nodes& nodes, std::vector<NodeClassifiers>& found, int threads) {
  std::atomic<int64_t> next{0};
  parallel_for(threads, threads, [&](int64_t) {
    NodeProblem own;
    for (int64_t node = next++; node < nodes.reached.n_nodes; node = next++) {
      nodes.start(own, node, 1).train();
      found[node] = quantize(own, nodes.min_weight);
    }
  });
}

// With more threads than nodes, all nodes are trained at the same time, pass by pass: a thread visits a group of
// children of a node. On one thread, two groups take 1.4 times the time of one, and four groups twice.
void train_by_groups(const Nodes& nodes, std::vector<NodeClassifiers>& found, int threads) {
  const int64_t n_nodes = nodes.reached.n_nodes, n_groups = threads > 2 * n_nodes ? 4 : 2;
  std::vector<NodeProblem> own(n_nodes);
  std::vector<std::unique_ptr<DualBlock>> blocks(n_nodes);
  parallel_for(n_nodes, threads, [&](int64_t node) {
    blocks[node] = std::make_unique<DualBlock>(nodes.start(own[node], node, n_groups));
  });
  std::vector<DualBlock*> running;
  for (const auto& block : blocks)
    if (block->start_pass()) running.push_back(block.get());
  while (!running.empty()) {
    const int64_t n_running = static_cast<int64_t>(running.size());
    parallel_for(n_running * n_groups, threads, [&](int64_t i) { running[i / n_groups]->visit(i % n_groups); });
    std::vector<char> goes_on(n_running);
    parallel_for(n_running, threads, [&](int64_t i) {
      running[i]->end_pass();
      goes_on[i] = running[i]->start_pass();
    });
    std::vector<DualBlock*> others;
    for (int64_t i = 0; i < n_running; ++i)
      if (goes_on[i]) others.push_back(running[i]);
    running.swap(others);
  }
  parallel_for(n_nodes, threads, [&](int64_t node) {
    blocks[node]->finish();
    found[node] = quantize(own[node], nodes.min_weight);
  });
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
  const Nodes nodes{points, n_features, squares, node_points, costs, rules, min_weight};
  (threads > node_points.n_nodes ? train_by_groups : train_whole)(nodes, found, threads);
  return found;
}

}  // namespace sparsenet
