// Sparse batches: gathering, transposing and multiplying their rows.
#pragma once

#include <cstdint>

#include "../core/csr.h"
#include "../core/narrow.h"

namespace sparsenet {

// Turns a batch of n points into postings, feature by feature, and returns the number of distinct features. The
// contract is in _core.pyi. A single pass, so threads would not pay.
int64_t transpose_batch(Csr csr, int64_t n, const int32_t* before, int64_t n_before, int32_t* slots, int32_t* features,
                        int64_t* starts, int32_t* rows, float* values);

// Gathers `count` rows of a matrix. Copies memory for too short a time for threads to pay.
void take_rows(Csr csr, const int64_t* rows, int64_t count, const int64_t* out_indptr, int32_t* out_indices,
               float* out_data);

// Writes the postings of each slot with dense_of[s] >= 0 as that row of `dense` (k, n), zeros included.
void spread_postings(const int64_t* starts, int64_t n_slots, const int32_t* rows, const float* values,
                     const int32_t* dense_of, float* dense, int64_t k, int64_t n);

// out (n, width) = csr (n, d) x dense (d, width).
void csr_matmul(Csr csr, int64_t n, const float* dense, int64_t width, float* out, int threads);

// The same, with the same bits, for narrow rows.
void csr_matmul_narrow(Csr csr, int64_t n, NarrowRows dense, int64_t width, float* out, int threads);

// out[j] = hidden[i] . weight[ids[j]] for each point i and each j in [indptr[i], indptr[i + 1]).
void pair_dot(const int64_t* indptr, const int32_t* ids, int64_t n, const float* hidden, const float* weight,
              int64_t width, float* out, int threads);

}  // namespace sparsenet
