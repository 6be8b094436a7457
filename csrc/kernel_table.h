// The seam between the engine and the instruction sets: one table of block kernels per level. An entry works on a
// block of rows, never on one dot product, so the call through a pointer costs nothing and everything inlines inside
// the level's own translation unit.
//
// Names of extents: `n` points of a batch, `a` active labels, `width` columns of a dense row.
#pragma once

#include <cstdint>

namespace sparsenet {

// Points that hold a feature, and its values there: a few postings as one step, which takes no longer than one alone.
// Where there are fewer, points that need not hold it stand in with values of 0.
constexpr int32_t kStrip = 4;
struct Strip {
  int32_t points[kStrip];
  float values[kStrip];
};

// A batch by feature: slot s has lists[s].count strips from lists[s].first on or, where count < 0, row `first` of
// `dense`, with a value for each point.
struct StripList {
  int32_t first, count;
};
struct Strips {
  const StripList* lists;
  const Strip* strips;
  const float* dense;
};

// A compressed sparse row matrix.
struct Csr {
  const int64_t* indptr;
  const int32_t* indices;
  const float* data;
};

// The wide weights of the active labels: those of label l have the features features[indptr[l]] ... .
struct Support {
  const int32_t* active;
  const int64_t* indptr;
  const int32_t* features;
};

// Those of them whose feature is present in the batch: where they are in the support, and the slot of their feature.
struct Touched {
  const int64_t* indptr;
  const int64_t* positions;
  const int32_t* slots;
};

// The points of which each active label is a true label, with the weight of each.
struct Positives {
  const int64_t* indptr;
  const int32_t* points;
  const float* weights;
};

// One operand of a matrix product, seen as rows x cols in memory; `gather` picks its rows (null: all, in order).
struct Operand {
  const float* data;
  int64_t stride;
  const int32_t* gather;
};

// A matrix product: pack both operands into panels, then multiply panels. A word of a panel is as large as a float and
// holds `depth_of_word` neighbours in depth; an element has a multiple of `words_padded_to` words, zero-padded.
struct Matmul {
  int64_t tile_rows, tile_cols;  // the register block: rows of A by columns of B
  int64_t depth_of_word, words_padded_to;
  bool in_matrices;  // by instructions that multiply matrices, not vectors
  // Copies `count` x `depth` elements of A or of B into panels as wide as the block, zero-padded: word p of element i
  // of panel q, at out[q][p / abreast][i][p % abreast] with as many abreast as the level has of A or of B, begins with
  // element (first + q * width + i) along the panel axis at depth (depth_first + p * depth_of_word). along_rows: that
  // axis is the operand's rows; otherwise its columns.
  using Pack = void (*)(Operand source, bool along_rows, int64_t first, int64_t count, int64_t depth_first,
                        int64_t depth, float* out);
  Pack pack_a, pack_b;
  // out (m x n, row stride ld) = start + packed A (m) x packed B (n) over `depth`, where `start` holds a number for
  // each row, or null is all zeros; or += that product. Panels begin on a cache line.
  void (*multiply)(const float* a, const float* b, int64_t m, int64_t n, int64_t depth, float* out, int64_t ld,
                   const float* start, bool accumulate);
};

struct AdamStep {
  int32_t step;
  float rate, beta1, beta2, epsilon, decay;
};

// One-vs-rest classifiers for a block of labels from `first_label` on, as a problem of dual coordinate descent.
struct DualProblem {
  Csr csr;
  int64_t n_features;
  const float* squares;         // of each point's length, the constant feature 1 included
  const int64_t* label_indptr;  // the labels of each point
  const int32_t* labels;
  int64_t first_label;
  const float* positive_slack;  // of each label of the block, 1 / (2 cost) of a positive point, and of a negative one
  const float* negative_slack;
};

struct KernelTable {
  const char* name;

  // out[i] = sum_j data[j] * dense[indices[j]] for rows [begin, end).
  void (*csr_matmul)(Csr csr, const float* dense, int64_t width, float* out, int64_t begin, int64_t end);

  Matmul single;  // in float
  Matmul half;    // operands rounded to bfloat16, their products summed in float

  // out[j] = x . weight[ids[j]]; ids null means first, first + 1, ...
  void (*dot_rows)(const float* x, const float* weight, int64_t width, const int32_t* ids, int64_t first, int64_t count,
                   float* out);

  // --- the wide path, for active labels [begin, end) ---
  // `slots` gives the slot of each feature, or -1 if it is absent from the batch. Writes what is touched from
  // positions[0] and touched_slots[0] on, where there is room for the labels' whole support, and each label's number.
  void (*wide_touch)(Support support, const int32_t* slots, int64_t* positions, int32_t* touched_slots, int64_t* counts,
                     int64_t begin, int64_t end);
  void (*wide_forward)(Touched touched, const float* weights, Strips batch, float* out, int64_t n, int64_t begin,
                       int64_t end);
  void (*wide_gradient)(Touched touched, Strips batch, const float* grad, int64_t n, float* out, int64_t begin,
                        int64_t end);

  // --- losses, in place on a tile (a x n) ---
  // For active labels [begin, end); `scratch` holds n floats.
  void (*bce_gradient)(float* logits, int64_t n, Positives positives, const float* negative_weights, float smoothing,
                       float scale, double* losses, float* scratch, int64_t begin, int64_t end);
  // For points [begin, end), at most 64 of them.
  void (*softmax_gradient)(float* logits, int64_t a, int64_t n, Positives positives, const float* log_expected,
                           float smoothing, float scale, double* losses, int64_t begin, int64_t end);

  // --- optimizers, for entries [begin, end) of `rows` ---
  void (*sgd_rows)(float* value, int64_t width, const int64_t* rows, const float* grads, float rate, float decay,
                   int64_t begin, int64_t end);
  void (*adagrad_rows)(float* value, float* squares, int64_t width, const int64_t* rows, const float* grads, float rate,
                       float epsilon, float decay, int64_t begin, int64_t end);
  void (*adam_rows)(float* value, float* first, float* second, int32_t* last_step, int64_t width, const int64_t* rows,
                    const float* grads, AdamStep adam, int64_t begin, int64_t end);
  // The gradient of the r-th entry is row r of csr x dense; `sums` holds `width` floats.
  void (*adam_product)(float* value, float* first, float* second, int32_t* last_step, int64_t width,
                       const int64_t* rows, Csr csr, const float* dense, AdamStep adam, float* sums, int64_t begin,
                       int64_t end);

  // --- linear classifiers ---
  // One pass over `count` points; see dual.inl.h. weight (n_features + 1, width), the last row the biases, alpha (n,
  // width) with a width of 1, 4, 8 or 16.
  int64_t (*dual_epoch)(const DualProblem& problem, int64_t width, int64_t count, int32_t* order, float rest,
                        float stride, float* weight, float* alpha, float* violation);
  // The slots whose bit is set in `used`, as numbers ranks[s >> 6] + (bits below s in used[s >> 6]), and their counts,
  // which may replace what they are made of; returns how many.
  int64_t (*number_features)(const uint64_t* used, const int32_t* ranks, const int32_t* slots, const uint8_t* counts,
                             int64_t n, int32_t* features, uint8_t* their_counts);
  // sums[c] += values[j] * matrix[rows[j]][c] for each j, the rows being 8-bit weights.
  void (*add_rows)(const int8_t* matrix, int64_t width, const int32_t* rows, const float* values, int64_t n,
                   float* sums);

  // --- inference ---
  // The sum of values[j] * dense[ids[j]].
  float (*sparse_dot)(const int32_t* ids, const float* values, int64_t count, const float* dense);
  // Positions i of scores[0 .. n) above `threshold`, ascending; returns how many.
  int64_t (*above)(const float* scores, int64_t n, float threshold, int32_t* positions);
  // The highest score of each block of so many, the last of which may be shorter; what is not a number counts for none.
  void (*maxima)(const float* scores, int64_t n, int64_t block, float* out);
};

const KernelTable& kernels();  // the level in use

}  // namespace sparsenet
