// The wide path over a batch: which weights take part, their scores, and their gradient.
#pragma once

#include <cstdint>

#include "../kernels/kernel_table.h"

namespace sparsenet {

// A batch as postings: the feature in slot s occurs in points rows[starts[s]] ... rows[starts[s + 1] - 1]. If
// dense_of[s] >= 0, that row of `dense` holds the same values, zeros included.
struct BatchPostings {
  int64_t n_slots;
  const int64_t* starts;
  const int32_t* rows;
  const float* values;
  const int32_t* dense_of;
  const float* dense;
};

// Finds the weights of `a` active labels whose feature is present in the batch; returns their number.
int64_t wide_touch(Support support, int64_t a, const int32_t* slots, int64_t* touched_indptr, int64_t* positions,
                   int32_t* touched_slots, int threads);

// Adds the wide scores of `a` active labels and n points to out (a, n).
void wide_forward(Touched touched, int64_t a, const float* weights, const BatchPostings& postings, float* out,
                  int64_t n, int threads);

// Writes the gradient of each touched weight, given the gradient of the scores, grad (a, n).
void wide_gradient(Touched touched, int64_t a, const BatchPostings& postings, const float* grad, int64_t n, float* out,
                   int threads);

}  // namespace sparsenet
