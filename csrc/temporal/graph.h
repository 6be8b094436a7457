// A temporal graph network: the kernels of a batch, split over threads, and the state of links. The contracts are in
// sparsenet/_core.pyi.
#pragma once

#include <cstdint>

#include "../kernels/kernel_table.h"

namespace sparsenet {

void message_rows(const GraphMessages& in, int64_t n, float* messages, float* states, float* sines, int threads);

// `gates` (n, 3, width) and `states` likewise; `before`, `after` and `slopes` are (n, width + 1).
void gru_rows(float* gates, const float* states, const float* before, int64_t n, int64_t width, float* after,
              int threads);
void gru_gradient(float* gates, float* states, const float* before, const float* slopes, int64_t n, int64_t width,
                  int threads);

void attend_last(const LastLinks& in, float* out, float* out_edges, float* weights, int threads);
void attend_gradient(const LastLinks& in, const float* weights, const float* slopes, const float* edge_slopes,
                     float* out_queries, float* out_edge_queries, float* out_rows, float* out_times, int threads);

// Rings of the last `n_links` links of each node. Link i of a node is in column i % n_links.
struct LinkRings {
  int64_t n_links, n_features;
  int32_t* neighbors;
  double* times;
  float* features;
  int64_t* counts;
};

struct LinkEvents {
  int64_t n;
  const int32_t *sources, *targets;
  const double* times;
  const float* features;
};

void remember_links(const LinkRings& rings, LinkEvents events);

}  // namespace sparsenet
