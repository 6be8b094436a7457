#include "learning.h"

#include <algorithm>

#include "../core/scratch.h"
#include "../core/threads.h"

namespace sparsenet {
namespace {

constexpr int64_t kLabelGrain = 64;
constexpr int64_t kElementGrain = 1 << 14;  // elements of a parameter

// Rows of a parameter in one task. A row may be empty.
int64_t row_grain(int64_t width) { return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, width)); }

}  // namespace

void bce_gradient(float* logits, int64_t a, int64_t n, Positives positives, const float* negative_weights,
                  float smoothing, float scale, double* losses, int threads) {
  if (n == 0) {
    std::fill_n(losses, a, 0.0);
    return;
  }
  parallel_blocks(a, kLabelGrain, threads, [&](int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    kernels().bce_gradient(logits, n, positives, negative_weights, smoothing, scale, losses, scratch.floats(n), begin,
                           end);
  });
}

void softmax_gradient(float* logits, int64_t a, int64_t n, Positives positives, const float* log_expected,
                      float smoothing, float scale, double* losses, int threads) {
  parallel_blocks(n, 64, threads, [&](int64_t begin, int64_t end) {
    kernels().softmax_gradient(logits, a, n, positives, log_expected, smoothing, scale, losses, begin, end);
  });
}

void sgd_rows(float* value, Rows rows, float rate, float decay, int threads) {
  parallel_blocks(rows.count, row_grain(rows.width), threads, [&](int64_t begin, int64_t end) {
    kernels().sgd_rows(value, rows.width, rows.ids, rows.grads, rate, decay, begin, end);
  });
}

void adagrad_rows(float* value, float* squares, Rows rows, float rate, float epsilon, float decay, int threads) {
  parallel_blocks(rows.count, row_grain(rows.width), threads, [&](int64_t begin, int64_t end) {
    kernels().adagrad_rows(value, squares, rows.width, rows.ids, rows.grads, rate, epsilon, decay, begin, end);
  });
}

void adam_rows(AdamState state, Rows rows, AdamStep adam, int threads) {
  const auto [value, first, second, last_step] = state;
  parallel_blocks(rows.count, row_grain(rows.width), threads, [=](int64_t begin, int64_t end) {
    kernels().adam_rows(value, first, second, last_step, rows.width, rows.ids, rows.grads, adam, begin, end);
  });
}

void adam_product(AdamState state, Rows rows, Csr csr, const float* dense, AdamStep adam, int threads) {
  const auto [value, first, second, last_step] = state;
  parallel_blocks(rows.count, row_grain(rows.width), threads, [=](int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    float* sums = scratch.floats(rows.width);
    kernels().adam_product(value, first, second, last_step, rows.width, rows.ids, csr, dense, adam, sums, begin, end);
  });
}

}  // namespace sparsenet
