// Splits each kernel's work over the thread pool. Knows no instruction set: the block kernels come from the table of
// the level in use. Every split depends on the sizes alone, never on the number of threads.
#pragma once

#include <cstdint>

#include "kernel_table.h"

namespace sparsenet {

void csr_matmul(Csr csr, int64_t n, const float* dense, int64_t width, float* out, int threads);

// Returns the number of distinct features; see _core.pyi for the contract. One pass, so not worth threads.
int64_t transpose_batch(Csr csr, int64_t n, const int32_t* before, int64_t n_before, int32_t* slots, int32_t* features,
                        int64_t* starts, int32_t* rows, float* values);

// Gathers the rows of a batch, and spreads the postings of frequent features: memory that moves, in too little time to
// be worth threads.
void take_rows(Csr csr, const int64_t* rows, int64_t count, const int64_t* out_indptr, int32_t* out_indices,
               float* out_data);
void spread_postings(const int64_t* starts, int64_t n_slots, const int32_t* rows, const float* values,
                     const int32_t* dense_of, float* dense, int64_t k, int64_t n);

struct MatmulShape {
  int64_t m, n, depth;
  bool transpose_a, transpose_b;
  bool half;  // round both operands to bfloat16; sums stay in float
};
// `start`: m numbers that the sums of each row begin with, or null.
void matmul(Operand a, Operand b, MatmulShape shape, const float* start, float* out, int threads);

void pair_dot(const int64_t* indptr, const int32_t* ids, int64_t n, const float* hidden, const float* weight,
              int64_t width, float* out, int threads);

struct CentroidsOut {
  const int64_t* starts;
  int32_t* indices;
  float* data;
  int64_t* ends;
};
void label_centroids(const int64_t* label_indptr, const int32_t* label_points, int64_t n_labels, Csr points,
                     int64_t n_features, const int64_t* budget, CentroidsOut out, int threads);

// A batch as postings: feature slot s holds rows[starts[s]] ... rows[starts[s + 1] - 1]. Where dense_of[s] >= 0, that
// row of `dense` has the same values, zeros included.
struct Postings {
  int64_t n_slots;
  const int64_t* starts;
  const int32_t* rows;
  const float* values;
  const int32_t* dense_of;
  const float* dense;
};
int64_t wide_touch(Support support, int64_t a, const int32_t* slots, int64_t* touched_indptr, int64_t* positions,
                   int32_t* touched_slots, int threads);
void wide_forward(Touched touched, int64_t a, const float* weights, const Postings& postings, float* out, int64_t n,
                  int threads);
void wide_gradient(Touched touched, int64_t a, const Postings& postings, const float* grad, int64_t n, float* out,
                   int threads);

void bce_gradient(float* logits, int64_t a, int64_t n, Positives positives, const float* negative_weights,
                  float smoothing, float scale, double* losses, int threads);
void softmax_gradient(float* logits, int64_t a, int64_t n, Positives positives, const float* log_expected,
                      float smoothing, float scale, double* losses, int threads);

struct Rows {
  const int64_t* ids;
  int64_t count, width;
  const float* grads;
};
void sgd_rows(float* value, Rows rows, float rate, float decay, int threads);
void adagrad_rows(float* value, float* squares, Rows rows, float rate, float epsilon, float decay, int threads);

struct AdamState {
  float *value, *first, *second;
  int32_t* last_step;
};
void adam_rows(AdamState state, Rows rows, AdamStep adam, int threads);
// The same where gradients are a product, that of the rows of `csr` with `dense`: a block of them never leaves a cache.
void adam_product(AdamState state, Rows rows, Csr csr, const float* dense, AdamStep adam, int threads);

struct TopkIn {
  int64_t n, width, n_labels;
  const float *hidden, *weight, *bias;
  Csr points;
  Csr wide;  // by feature: indices are labels, ascending
};
void predict_topk(const TopkIn& in, int64_t k, int32_t* out_labels, float* out_scores, int threads);

struct ShortlistIn {
  int64_t n, n_labels;
  Csr points;
  Csr index;  // by feature: indices are labels
  const float* bias;
  const int32_t* fallback;  // at least as many labels as a list is long
};
void shortlist(const ShortlistIn& in, int64_t size, int32_t* out_labels, float* out_scores, int threads);

// The wide scores of `size` labels for each point; wide has a row for each label.
void wide_scores(const Csr& points, int64_t n, int64_t n_features, const Csr& wide, const int32_t* labels, int64_t size,
                 float* out, int threads);

// The k of `n_others` points, given by feature, that each point's products with are largest, best first, as far as they
// are above zero; the rest are point 0, with a product of 0. Where a point's features have more than `most` entries in
// the index, those are left out that are weakest for the number of their entries; of equal ones the later.
void nearest_points(const Csr& points, int64_t n, const Csr& index, int64_t n_others, int64_t most, int64_t k,
                    int32_t* out_points, float* out_products, int threads);

// The entries of a product of sparse matrices, neighbors (n, n_others) times labels (n_others, n_labels), that are
// wanted: `size` labels a row.
void neighbor_votes(const Csr& neighbors, int64_t n, const Csr& labels, int64_t n_labels, const int32_t* wanted,
                    int64_t size, float* out, int threads);

}  // namespace sparsenet
