// Training the classifiers of a tree. Each node gathers its points and features into a separate problem.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>

#include "../core/split_mix.h"
#include "../core/threads.h"
#include "tree.h"

namespace sparsenet {
namespace {

constexpr float kPaddingSlack = 1e30f;  // of a child that does not exist: no point moves its weights
constexpr int32_t kAbsent = -1;         // the number of a feature that no point of the node has

void append_children(uint16_t belongs, std::vector<int32_t>& labels) {
  for (int32_t child = 0; child < kChildren; ++child)
    if (belongs >> child & 1) labels.push_back(child);
}

// The slacks of each child for n points; own[c] points belong to child c.
struct Slacks {
  float positive[kChildren], negative[kChildren];

  Slacks() = default;
  Slacks(const int64_t* own, int64_t n, int64_t n_children, ErrorCosts costs) {
    std::fill_n(positive, kChildren, kPaddingSlack);
    std::fill_n(negative, kChildren, kPaddingSlack);
    for (int64_t c = 0; c < n_children; ++c) {
      const float rare = static_cast<float>(std::max<int64_t>(n, 1)) / static_cast<float>(std::max<int64_t>(own[c], 1));
      positive[c] = 0.5f / (costs.own * std::pow(rare, costs.rarity));
      negative[c] = 0.5f / costs.others;
    }
  }
};

// The points of a node as a DualProblem, with the features that occur in them numbered in ascending order.
struct NodeProblem {
  std::vector<int32_t> places;  // by global feature: its number in this problem
  std::vector<int32_t> features;
  std::vector<int64_t> indptr, label_indptr;
  std::vector<int32_t> indices, labels;
  std::vector<float> data, squares, weight;
  Csr csr{};
  const float* own_squares = nullptr;
  Slacks slacks;

  void gather(const AllPoints& all, const int32_t* reached, const uint16_t* belongs, int64_t n) {
    label_indptr.assign(1, 0);
    labels.clear();
    for (int64_t i = 0; i < n; ++i) {
      append_children(belongs[i], labels);
      label_indptr.push_back(static_cast<int64_t>(labels.size()));
    }
    if (is_whole(all, reached, n)) {
      features.resize(all.n_features);
      std::iota(features.begin(), features.end(), 0);
      csr = all.csr;
      own_squares = all.squares;
    } else {
      copy(all, reached, n);
      csr = {indptr.data(), indices.data(), data.data()};
      own_squares = squares.data();
    }
  }

  // Whether all points reach the node, and a copy of them takes more memory than weights of all features.
  static bool is_whole(const AllPoints& all, const int32_t* reached, int64_t n) {
    const int64_t an_entry = sizeof(int32_t) + sizeof(float), a_feature = kChildren * sizeof(float);
    if (n != all.n || all.csr.indptr[n] * an_entry < all.n_features * a_feature) return false;
    for (int64_t i = 0; i < n; ++i)
      if (reached[i] != i) return false;
    return true;
  }

  void copy(const AllPoints& all, const int32_t* reached, int64_t n) {
    const Csr& points = all.csr;
    places.resize(all.n_features, kAbsent);
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
    indices.clear();
    data.clear();
    squares.clear();
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = points.indptr[reached[i]]; j < points.indptr[reached[i] + 1]; ++j) {
        indices.push_back(places[points.indices[j]]);
        data.push_back(points.data[j]);
      }
      squares.push_back(all.squares[reached[i]]);
      indptr.push_back(static_cast<int64_t>(indices.size()));
    }
    for (const int32_t feature : features) places[feature] = kAbsent;
  }

  // Returns the problem; its weights are zero, and it lies in this object.
  DualProblem start(int64_t n, int64_t n_children, ErrorCosts costs) {
    int64_t own[kChildren] = {};
    for (const int32_t child : labels) ++own[child];
    slacks = Slacks(own, n, n_children, costs);
    const int64_t n_features = static_cast<int64_t>(features.size());
    weight.assign((n_features + 1) * kChildren, 0.0f);
    return {csr, n_features, own_squares, label_indptr.data(), labels.data(), 0, slacks.positive, slacks.negative};
  }
};

// Rounds the weights of a node to 8 bits and drops rows whose weights are all smaller than `min_weight`.
NodeClassifiers quantize(const std::vector<int32_t>& features, const std::vector<float>& weight, float min_weight) {
  NodeClassifiers found;
  for (size_t f = 0; f < features.size(); ++f) {
    const float* row = weight.data() + f * kChildren;
    float largest = 0;
    for (int64_t c = 0; c < kChildren; ++c) largest = std::max(largest, std::fabs(row[c]));
    if (!(largest >= min_weight) || largest == 0) continue;
    const float factor = largest / 127;
    found.features.push_back(features[f]);
    found.factors.push_back(factor);
    for (int64_t c = 0; c < kChildren; ++c) found.weights.push_back(static_cast<int8_t>(std::lrint(row[c] / factor)));
  }
  std::copy_n(weight.data() + features.size() * kChildren, kChildren, found.bias);
  return found;
}

// The nodes of a level and their points, as `train_nodes` receives them.
struct Nodes {
  AllPoints points;
  NodePoints reached;
  ErrorCosts costs;
  DualRules rules;
  float min_weight;

  // Gathers the points of a node into `own`, where its training in `n_groups` groups of children keeps its weights.
  DualBlock start(NodeProblem& own, int64_t node, int64_t n_groups) const {
    const int64_t begin = reached.starts[node], n = reached.starts[node + 1] - begin;
    own.gather(points, reached.reached + begin, reached.belongs + begin, n);
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
      found[node] = quantize(own.features, own.weight, nodes.min_weight);
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
    found[node] = quantize(own[node].features, own[node].weight, nodes.min_weight);
  });
}

// Some points of a node, with labels and dual variables.
struct LoadedPart {
  std::vector<int32_t> order, labels;
  std::vector<int64_t> label_indptr;
  std::vector<float> alpha;

  // Visits the points all[begin, end) of a node that `read` holds. Moves the points that stay active to the places of
  // `all` from `kept` on, and returns the end of these places.
  int64_t visit(DualProblem problem, const NodePart& read, const uint16_t* belongs, int32_t* all, int64_t begin,
                int64_t end, int64_t kept, float rest, float stride, float* weight, float* all_alpha,
                float* violation) {
    const int64_t n = end - begin;
    label_indptr.assign(1, 0);
    labels.clear();
    alpha.resize(n * kChildren);
    order.resize(n);
    for (int64_t i = 0; i < n; ++i) {
      append_children(belongs[all[begin + i]], labels);
      label_indptr.push_back(static_cast<int64_t>(labels.size()));
      std::copy_n(all_alpha + all[begin + i] * kChildren, kChildren, alpha.data() + i * kChildren);
      order[i] = static_cast<int32_t>(i);
    }
    problem.csr = read.points;
    problem.squares = read.squares;
    problem.label_indptr = label_indptr.data();
    problem.labels = labels.data();
    const int64_t active =
        kernels().dual_epoch(problem, kChildren, n, order.data(), rest, stride, weight, alpha.data(), violation);
    std::vector<bool> is_active(n);
    for (int64_t i = 0; i < active; ++i) is_active[order[i]] = true;
    for (int64_t i = 0; i < n; ++i) {
      std::copy_n(alpha.data() + i * kChildren, kChildren, all_alpha + all[begin + i] * kChildren);
      std::swap(all[begin + i], all[kept]);
      kept += is_active[i];
    }
    return kept;
  }
};
}  // namespace

NodeClassifiers train_node_by_parts(const ReadNodePart& read, int64_t part_points, const uint16_t* belongs, int64_t n,
                                    const std::vector<int32_t>& features, int64_t n_children, ErrorCosts costs,
                                    DualRules rules, float min_weight) {
  int64_t own[kChildren] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t child = 0; child < kChildren; ++child) own[child] += belongs[i] >> child & 1;
  const Slacks slacks(own, n, n_children, costs);
  std::vector<float> weight((features.size() + 1) * kChildren, 0.0f);
  DualProblem problem = {};
  problem.n_features = static_cast<int64_t>(features.size());
  problem.positive_slack = slacks.positive;
  problem.negative_slack = slacks.negative;
  LoadedPart part;
  std::vector<float> alpha = initial_alpha(n, kChildren, slacks.negative);
  DualPasses passes(n, {rules.max_epochs, rules.tolerance, split_mix(rules.seed)});
  while (passes.start()) {
    int64_t kept = 0;
    float violation = 0;
    for (int64_t begin = 0; begin < passes.active(); begin += part_points) {
      const int64_t end = std::min(begin + part_points, passes.active());
      float worst = 0;
      kept = part.visit(problem, read(passes.order() + begin, end - begin), belongs, passes.order(), begin, end, kept,
                        passes.rest(), passes.stride(), weight.data(), alpha.data(), &worst);
      violation = std::max(violation, worst);
    }
    passes.end(kept, violation);
  }
  return quantize(features, weight, min_weight);
}

std::vector<NodeClassifiers> train_nodes(AllPoints points, NodePoints node_points, ErrorCosts costs, DualRules rules,
                                         float min_weight, int threads) {
  std::vector<NodeClassifiers> found(node_points.n_nodes);
  const Nodes nodes{points, node_points, costs, rules, min_weight};
  (threads > node_points.n_nodes ? train_by_groups : train_whole)(nodes, found, threads);
  return found;
}

}  // namespace sparsenet
