// Losses and lazy optimizers.
#pragma once

#include <cstdint>

#include "../kernels/kernel_table.h"

namespace sparsenet {

// Replace logits (a, n) by the gradient of the loss. `losses` is (a,) for cross-entropy and (n,) for softmax.
void bce_gradient(float* logits, int64_t a, int64_t n, Positives positives, const float* negative_weights,
                  float smoothing, float scale, double* losses, int threads);
void softmax_gradient(float* logits, int64_t a, int64_t n, Positives positives, const float* log_expected,
                      float smoothing, float scale, double* losses, int threads);

// The rows of a parameter that have a gradient.
struct Rows {
  const int64_t* ids;
  int64_t count, width;
  const float* grads;  // (count, width)
};
void sgd_rows(float* value, Rows rows, float rate, float decay, int threads);
void adagrad_rows(float* value, float* squares, Rows rows, float rate, float epsilon, float decay, int threads);

struct AdamState {
  float *value, *first, *second;
  int32_t* last_step;
};
void adam_rows(AdamState state, Rows rows, AdamStep adam, int threads);
// Fuses adam_rows with the product that computes its gradients: row r of csr x dense is the gradient of rows.ids[r],
// and rows.grads is not read. Gradients never leave the cache.
void adam_product(AdamState state, Rows rows, Csr csr, const float* dense, AdamStep adam, int threads);

}  // namespace sparsenet
