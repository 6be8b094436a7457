// Nearest training points by an inverted index, and the votes of their labels.
#pragma once

#include <cstdint>

#include "../core/csr.h"

namespace sparsenet {

// Writes the k of `n_others` points with the largest positive products, best first; `index` holds these points by
// feature. Unused places hold point 0 with a product of 0. A query reads at most `max_entries` entries of the index: a
// longer one drops the features with the smallest value per index entry, ties dropping the later feature.
void nearest_points(const Csr& points, int64_t n, const Csr& index, int64_t n_others, int64_t max_entries, int64_t k,
                    int32_t* out_points, float* out_products, int threads);

// Computes `size` wanted entries of each row of the sparse product neighbors (n, n_others) x labels (n_others,
// n_labels).
void neighbor_votes(const Csr& neighbors, int64_t n, const Csr& labels, int64_t n_labels, const int32_t* wanted,
                    int64_t size, float* out, int threads);

}  // namespace sparsenet
