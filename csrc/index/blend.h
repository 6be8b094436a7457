// The answers of a blend: candidates by a tree and by nearest points, scored by three weighted features.
#pragma once

#include <cstdint>
#include <vector>

#include "../core/csr.h"
#include "../core/narrow.h"
#include "../tree/tree.h"

namespace sparsenet {

struct BlendNeighbors {
  const float* feature_weights;  // of a query
  Postings index;                // the training points by feature
  int64_t n_points, max_entries, k;
  float power;                  // exponent of a product in a vote
  const int64_t* label_starts;  // of each training point
  const int32_t* labels;
};

struct BlendNetwork {
  const float* hidden;  // (n, width): the hidden units of each point
  int64_t width;
  const float *weight, *bias;  // (n_labels, width), null if narrow; (n_labels,)
  NarrowRows narrow_weight;
  const float* totals;     // (n,): the log-sum-exp of all scores; null if scores are log-odds
  Csr wide;                // sparse weights, a row for each label; null pointers if there are none
  NarrowRows narrow_wide;  // the values of `wide`, if these are narrow
};

struct BlendIn {
  std::vector<TreeLevel> levels;
  const int32_t* names;  // of the leaves
  int64_t beam;
  Csr points;
  int64_t n, n_features, n_labels;
  const BlendNeighbors* neighbors;  // null for none, as `network`
  const BlendNetwork* network;
  float tree_weight, network_weight, neighbor_weight, pseudo_neighbor;
  int64_t n_candidates, n_proposed;  // labels by the tree, and by the neighbors
};

// Writes the k best of each point's candidates and their scores, best first; k is at most `n_candidates`, and these at
// most the number of leaves.
void rank_blend(const BlendIn& in, int64_t k, int32_t* out_labels, float* out_scores, int threads);

}  // namespace sparsenet
