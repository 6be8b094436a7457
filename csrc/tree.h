// Linear classifiers in a tree of labels: each node chooses among up to 16 children by one-vs-rest machines that have
// seen only the points which reach it, so that a point meets a few dozen machines instead of one a label.
#pragma once

#include <cstdint>
#include <vector>

#include "dual.h"
#include "engine.h"

namespace sparsenet {

constexpr int64_t kChildren = 16;

// Bisects sets of rows, such as centroids of labels, into parts of given sizes, by spherical 2-means. Set b is
// order[starts[b] : starts[b + 1]], of which afterwards the first left[b] are one part. Each is the work of one task.
void split_sets(Csr rows, int64_t n_features, const int64_t* starts, const int64_t* left, int64_t n_sets, uint64_t seed,
                int64_t most_rounds, int32_t* order, int threads);

// What decides among the children of each node of a level. Weights are 8 bits wide, with a factor for each row of 16.
struct Machines {
  const int64_t* starts;    // (n_nodes + 1,): rows of node b are starts[b] ... starts[b + 1] - 1
  const int32_t* features;  // of each row, ascending within a node
  const float* factors;     // of each row
  const int8_t* weights;    // (rows, 16)
  const float* bias;        // (n_nodes, 16)
  const int64_t* children;  // (n_nodes + 1,): those of node b are children[b] ... children[b + 1] - 1, 16 at most
  int64_t n_nodes;
};

// The points that reach each node, those of node b reached[starts[b] : starts[b + 1]], and which of its children each
// belongs to, a bit for each.
struct Arrivals {
  const int64_t* starts;
  const int32_t* reached;
  const uint16_t* belongs;
  const int64_t* children;  // as above
  int64_t n_nodes;
};

// What an error costs a machine, against the length of its weights.
struct Costs {
  float own;     // on a point of its child, where all points of the node are
  float others;  // on a point that is not its child's
  float rarity;  // an own point costs more by this power of how many points of the node there are for each of them
};

struct NodeMachines {
  std::vector<int32_t> features;
  std::vector<float> factors;
  std::vector<int8_t> weights;
  float bias[kChildren];
};

// Trains the machines of each node; `squares` is 1 + the squared length of each point. Rows whose weights are all
// smaller than `smallest` are left out.
std::vector<NodeMachines> train_nodes(Csr points, int64_t n_features, const float* squares, Arrivals arrivals,
                                      Costs costs, DualRules rules, float smallest, int threads);

// From the root down with a beam: the names of the k best leaves of each point and the logarithms of their scores, best
// first, and by name where these are equal; where there are fewer, -1 and minus infinity. All nodes of the first level
// are the root's.
void search_tree(const std::vector<Machines>& levels, Csr points, int64_t n_features, int64_t n, int64_t beam,
                 int64_t k, const int32_t* names, int32_t* leaves, float* scores, int threads);

}  // namespace sparsenet
