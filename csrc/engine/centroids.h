// Centroids of labels, from which the wide path starts and trees are grown.
#pragma once

#include <cstdint>

#include "../core/csr.h"

namespace sparsenet {

// The room for centroids on entry: label l may write from starts[l] on. On return ends[l] is where its entries end.
struct CentroidsOut {
  const int64_t* starts;
  int32_t* indices;
  float* data;
  int64_t* ends;
};

// Sums the points of each label and keeps the budget[l] entries of the largest magnitude, in ascending order of
// feature.
void label_centroids(const int64_t* label_indptr, const int32_t* label_points, int64_t n_labels, Csr points,
                     int64_t n_features, const int64_t* budget, CentroidsOut out, int threads);

}  // namespace sparsenet
