// Linear classifiers in a tree of labels. Each node chooses among up to 16 children with one-vs-rest classifiers,
// trained on the points that reach the node. So a point is scored by a few dozen classifiers instead of one for each
// label.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "../core/csr.h"
#include "../engine/dual.h"

namespace sparsenet {

constexpr int64_t kChildren = 16;

// Bisects sets of rows, such as centroids of labels, by spherical 2-means with given sizes. Set b is order[starts[b] :
// starts[b + 1]]; on return its first left[b] rows are one part, and the others the other part. Each set is one task.
void split_sets(Csr rows, int64_t n_features, const int64_t* starts, const int64_t* left, int64_t n_sets, uint64_t seed,
                int64_t max_rounds, int32_t* order, int threads);

// The classifiers of one level of a tree. Weights have 8 bits, with a factor for each row of 16 weights.
struct TreeLevel {
  const int64_t* starts;    // (n_nodes + 1,): node b has rows starts[b] ... starts[b + 1] - 1
  const int32_t* features;  // the feature of each row, ascending within a node
  const float* factors;     // the factor of each row
  const int8_t* weights;    // (rows, 16)
  const float* bias;        // (n_nodes, 16)
  const int64_t* children;  // (n_nodes + 1,): node b has children children[b] ... children[b + 1] - 1, at most 16
  int64_t n_nodes;
};

// All training points; squares[i] is 1 + the squared length of point i.
struct AllPoints {
  Csr csr;
  int64_t n, n_features;
  const float* squares;
};

// The training points of each node: node b has points reached[starts[b] : starts[b + 1]]. Bit c of `belongs` is set if
// the point belongs to child c of the node.
struct NodePoints {
  const int64_t* starts;
  const int32_t* reached;
  const uint16_t* belongs;
  const int64_t* children;  // as in TreeLevel
  int64_t n_nodes;
};

// The cost of a training error of a child's classifier, relative to the squared length of its weights.
struct ErrorCosts {
  float own;     // on a point of the child, if all points of the node belong to the child
  float others;  // on a point of another child
  float rarity;  // multiply `own` by (points of the node / points of the child) to this power
};

// The trained classifiers of one node, with the meaning of the arrays in TreeLevel.
struct NodeClassifiers {
  std::vector<int32_t> features;
  std::vector<float> factors;
  std::vector<int8_t> weights;
  float bias[kChildren];
};

// Trains the classifiers of each node. Drops rows whose weights are all smaller than `min_weight`. A node copies its
// points, unless all points reach it.
std::vector<NodeClassifiers> train_nodes(AllPoints points, NodePoints node_points, ErrorCosts costs, DualRules rules,
                                         float min_weight, int threads);

// Points of a node with its own feature numbers, and 1 + the squared length of each.
struct NodePart {
  Csr points;
  const float* squares;
};

// Reads the points numbered order[0, count) of a node. They stay valid until the next call.
using ReadNodePart = std::function<NodePart(const int32_t* order, int64_t count)>;

// Trains the classifiers of one node as `train_nodes` does, but reads its n points again in each pass, `part_points` at
// a time. Bit c of `belongs` is set if a point belongs to child c; `features` are the features of the node, ascending.
NodeClassifiers train_node_by_parts(const ReadNodePart& read, int64_t part_points, const uint16_t* belongs, int64_t n,
                                    const std::vector<int32_t>& features, int64_t n_children, ErrorCosts costs,
                                    DualRules rules, float min_weight);

// Searches the tree with a beam. Writes the names of the k best leaves of each point and the logarithms of their
// scores, best first, ties to the smaller name. Unused places hold -1 and minus infinity. The search starts at all
// nodes of the first level.
void search_tree(const std::vector<TreeLevel>& levels, Csr points, int64_t n_features, int64_t n, int64_t beam,
                 int64_t k, const int32_t* names, int32_t* leaves, float* scores, int threads);

}  // namespace sparsenet
