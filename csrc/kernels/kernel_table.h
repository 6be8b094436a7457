// The seam between the engine and the instruction sets: one table of block kernels per instruction set. A kernel works
// on a block of rows, never on one dot product, so the call through a pointer costs nothing and everything below it is
// inlined in the instruction set's own translation unit.
//
// Names of extents: `n` points of a batch, `a` active labels, `width` columns of a dense row.
#pragma once

#include <cstdint>

#include "../core/csr.h"
#include "../core/narrow.h"

namespace sparsenet {

// A few postings of one feature, handled as one step that takes no longer than a single posting. A strip that is not
// full is padded with further points and values of 0.
constexpr int32_t kStrip = 4;
struct Strip {
  int32_t points[kStrip];
  float values[kStrip];
};

// A batch by feature. Slot s has `count` strips from lists[s].first on. If count < 0, it has row `first` of `dense`
// instead, with a value for each point.
struct StripList {
  int32_t first, count;
};
struct Strips {
  const StripList* lists;
  const Strip* strips;
  const float* dense;
};

// The wide weights of the active labels: label l has the features features[indptr[l]] ... features[indptr[l + 1] - 1].
struct Support {
  const int32_t* active;
  const int64_t* indptr;
  const int32_t* features;
};

// The weights of a support whose feature occurs in the batch: their positions in the support, and the slots of their
// features.
struct Touched {
  const int64_t* indptr;
  const int64_t* positions;
  const int32_t* slots;
};

// The positive points of each active label, and their weights.
struct Positives {
  const int64_t* indptr;
  const int32_t* points;
  const float* weights;
};

// One operand of a matrix product, as rows x columns in memory; `gather` selects its rows (null: all, in order).
struct Operand {
  const float* data;
  int64_t stride;
  const int32_t* gather;
};

// The kernels of a matrix product: pack both operands into panels, then multiply panels. A word of a panel has the size
// of a float and holds `depth_of_word` consecutive elements in depth. Each packed row or column has a multiple of
// `words_padded_to` words; the padding is zero.
struct MatmulKernels {
  int64_t tile_rows, tile_cols;  // the register block: rows of A by columns of B
  int64_t depth_of_word, words_padded_to;
  bool in_matrices;  // uses instructions that multiply matrices, not vectors
  // Packs `count` rows (along_rows) or columns of an operand, from `first` on, over depths [depth_first, depth_first +
  // depth). Panel q holds as many of them as the register block; the last panel is padded with zeros. Word p of
  // element i of panel q is out[q][p / abreast][i][p % abreast], where `abreast` is a constant of the instruction set
  // for A and another one for B. It begins with depth depth_first + p * depth_of_word.
  using Pack = void(Operand source, bool along_rows, int64_t first, int64_t count, int64_t depth_first, int64_t depth,
                    float* out);
  Pack *pack_a, *pack_b;
  // out (m x n, row stride ld) = start + packed A (m) x packed B (n) over `depth`, where start[i] belongs to row i and
  // a null `start` means zeros. With `accumulate`, out += the product instead. Panels begin on a cache line.
  void (*multiply)(const float* a, const float* b, int64_t m, int64_t n, int64_t depth, float* out, int64_t ld,
                   const float* start, bool accumulate);
};

struct AdamStep {
  int32_t step;
  float rate, beta1, beta2, epsilon, decay;
};

// A step of Adagrad: squares += g^2, and weights -= rate * g / sqrt(squares + 1).
// Candidates with an error below `negligible` do not count.
struct RankerStep {
  float rate, negligible;
};

// The parts of the messages of nodes. A row of `features` and an elapsed time belong to each message; a node
// without a partner has no message. `times` holds the rates of the time encoding, then its shifts.
struct GraphMessages {
  int64_t memory_width, n_features, n_times;
  const float* memory;
  const int32_t *nodes, *partners;
  const float *features, *elapsed, *times;
};

// The last links of each seed, as rows of keys and values (rows, 2, heads, channels); -1: no link. Queries are (heads,
// seeds, channels), queries of encoded links (heads, seeds, times + features). `keep` (seeds, links, heads) multiplies
// the weights.
struct LastLinks {
  int64_t n_seeds, n_heads, n_channels, n_links, n_times, n_features, n_rows;
  const float *queries, *edge_queries, *rows;
  const int32_t* links;
  const float *ages, *features, *times, *keep;
};

// One-vs-rest classifiers of a block of labels from `first_label` on, as a problem for dual coordinate descent.
struct DualProblem {
  Csr csr;
  int64_t n_features;
  const float* squares;         // the squared length of each point, including the constant feature 1
  const int64_t* label_indptr;  // the labels of each point
  const int32_t* labels;
  int64_t first_label;
  const float* positive_slack;  // per label of the block: 1 / (2 cost) of a positive point
  const float* negative_slack;  // the same for a negative point
};

// The signature of each kernel of a table.
namespace signatures {

// out[i] = sum_j data[j] * dense[indices[j]] for rows [begin, end).
using csr_matmul = void(Csr csr, const float* dense, int64_t width, float* out, int64_t begin, int64_t end);

// The same for narrow rows, with the same bits as for their floats; `row` holds `width` floats.
using csr_matmul_narrow = void(Csr csr, NarrowRows dense, int64_t width, float* row, float* out, int64_t begin,
                               int64_t end);

// out[j] = step * codes[j].
using widen_row = void(const int8_t* codes, float step, int64_t count, float* out);

// out[j] = x . weight[ids[j]]; null ids mean first, first + 1, ...
using dot_rows = void(const float* x, const float* weight, int64_t width, const int32_t* ids, int64_t first,
                      int64_t count, float* out);

// out[j] = x . row ids[j] of a matrix of 8 bits.
using dot_bytes = void(const float* x, const int8_t* matrix, int64_t width, const int32_t* ids, int64_t count,
                       float* out);

// --- the wide path, for active labels [begin, end) ---
// slots[f] is the slot of feature f, or -1 if the batch lacks it. Writes the touched weights of all labels one after
// another, from positions[0] and touched_slots[0] on, and their number for each label. There must be room for the whole
// support of the labels.
using wide_touch = void(Support support, const int32_t* slots, int64_t* positions, int32_t* touched_slots,
                        int64_t* counts, int64_t begin, int64_t end);
using wide_forward = void(Touched touched, const float* weights, Strips batch, float* out, int64_t n, int64_t begin,
                          int64_t end);
using wide_gradient = void(Touched touched, Strips batch, const float* grad, int64_t n, float* out, int64_t begin,
                           int64_t end);

// --- losses, in place on a tile (a x n) ---
// For active labels [begin, end); `scratch` holds n floats.
using bce_gradient = void(float* logits, int64_t n, Positives positives, const float* negative_weights, float smoothing,
                          float scale, double* losses, float* scratch, int64_t begin, int64_t end);
// For points [begin, end), at most 64.
using softmax_gradient = void(float* logits, int64_t a, int64_t n, Positives positives, const float* log_expected,
                              float smoothing, float scale, double* losses, int64_t begin, int64_t end);

// --- optimizers, for entries [begin, end) of `rows` ---
using sgd_rows = void(float* value, int64_t width, const int64_t* rows, const float* grads, float rate, float decay,
                      int64_t begin, int64_t end);
using adagrad_rows = void(float* value, float* squares, int64_t width, const int64_t* rows, const float* grads,
                          float rate, float epsilon, float decay, int64_t begin, int64_t end);
using adam_rows = void(float* value, float* first, float* second, int32_t* last_step, int64_t width,
                       const int64_t* rows, const float* grads, AdamStep adam, int64_t begin, int64_t end);
// The gradient of rows[r] is row r of csr x dense; `sums` holds `width` floats.
using adam_product = void(float* value, float* first, float* second, int32_t* last_step, int64_t width,
                          const int64_t* rows, Csr csr, const float* dense, AdamStep adam, float* sums, int64_t begin,
                          int64_t end);

// --- linear classifiers ---
// One pass over `count` points; see dual.inl.h. weight (n_features + 1, width) has the biases in its last row; alpha is
// (n, width). The width is 1, 4, 8 or 16.
using dual_epoch = int64_t(const DualProblem& problem, int64_t width, int64_t count, int32_t* order, float rest,
                           float stride, float* weight, float* alpha, float* violation);
// Translates slots to feature ids, and drops slots whose bit in `used` is not set. The id of slot s is ranks[s >> 6] +
// the number of bits below s in used[s >> 6]. Keeps the counts of the others, may work in place, returns their number.
using number_features = int64_t(const uint64_t* used, const int32_t* ranks, const int32_t* slots, const uint8_t* counts,
                                int64_t n, int32_t* features, uint8_t* their_counts);
// sums[c] += values[j] * matrix[rows[j]][c] for each j; the weights have 8 bits.
using add_rows = void(const int8_t* matrix, int64_t width, const int32_t* rows, const float* values, int64_t n,
                      float* sums);

// --- inference ---
// Returns the sum of values[j] * dense[ids[j]].
using sparse_dot = float(const int32_t* ids, const float* values, int64_t count, const float* dense);
// Writes the positions of scores above `threshold`, ascending; returns their number.
using above = int64_t(const float* scores, int64_t n, float threshold, int32_t* positions);
// out[j] = factor * scales[j] * the sum of x[c] * rows[j][c] over `width` bytes of row j. The caller keeps the sums
// within 32 bits.
using byte_scores = void(const int16_t* x, float factor, const int8_t* rows, const float* scales, int64_t width,
                         int64_t count, float* out);
// out[32 b + i] = base + unit * the sum of tables[g][code] over the groups of row i of block b; see codes.inl.h.
// `n_groups` is a multiple of 4, `unit` a power of two, and the caller keeps the tables within 6 bits and the sums
// within 16. With block b, the block at ahead[b] is prefetched.
using code_scores = void(const uint8_t* tables, const uint8_t* blocks, const uint8_t* const* ahead, int64_t n_groups,
                         int64_t n_blocks, float unit, float base, float* out);
// Writes the maximum of each block of `block` scores; the last block may be shorter. NaN is ignored.
using block_maxima = void(const float* scores, int64_t n, int64_t block, float* out);

// --- a ranker of candidates: weights (n_features + 2, n_units) hold the hidden units, their biases and the output ---
// x[i] = log2(1 + x[i]) for x >= 0.
using log2_of_one_plus = void(float* x, int64_t n);
// Writes the hidden units (count, n_units), rectified, and the score of each row of features (count, n_features).
using ranker_forward = void(const float* features, int64_t count, int64_t n_features, const float* weights,
                            int64_t n_units, float* hidden, float* scores);
// Turns at least one score into softmax probabilities.
using softmax_row = void(float* scores, int64_t count);
// Takes a step, given the derivative of the loss by each score; `gradient` holds as much as the weights, `slope` a row.
using ranker_step = void(const float* features, const float* hidden, const float* errors, int64_t count,
                         int64_t n_features, int64_t n_units, RankerStep step, float* weights, float* squares,
                         float* gradient, float* slope);

// --- temporal graphs: see graph.inl.h and the contracts of the functions in sparsenet/_core.pyi ---
using message_rows = void(const GraphMessages& in, float* messages, float* states, float* sines, int64_t begin,
                          int64_t end);
using gru_rows = void(float* gates, const float* states, const float* before, int64_t width, float* after,
                      int64_t begin, int64_t end);
using gru_gradient = void(float* gates, float* states, const float* before, const float* slopes, int64_t width,
                          int64_t begin, int64_t end);
using attend_last = void(const LastLinks& in, float* out, float* out_edges, float* weights, float* scratch,
                         int64_t begin, int64_t end);
using attend_gradient = void(const LastLinks& in, const float* weights, const float* slopes, const float* edge_slopes,
                             float* out_queries, float* out_edge_queries, float* out_times, float* out_scores,
                             float* scratch, int64_t begin, int64_t end);
using attend_row_gradient = void(const LastLinks& in, const float* weights, const float* slopes, const float* scores,
                                 const int64_t* starts, const int64_t* order, float* out_rows, int64_t begin,
                                 int64_t end);

}  // namespace signatures

// All kernels by name. This list declares the members of KernelTable and fills them in kernels.inl.h, so a table with a
// missing or misplaced kernel does not compile.
#define SPARSENET_FOR_EACH_KERNEL(DO) \
  DO(csr_matmul)                      \
  DO(csr_matmul_narrow)               \
  DO(widen_row)                       \
  DO(dot_rows)                        \
  DO(dot_bytes)                       \
  DO(wide_touch)                      \
  DO(wide_forward)                    \
  DO(wide_gradient)                   \
  DO(bce_gradient)                    \
  DO(softmax_gradient)                \
  DO(sgd_rows)                        \
  DO(adagrad_rows)                    \
  DO(adam_rows)                       \
  DO(adam_product)                    \
  DO(dual_epoch)                      \
  DO(number_features)                 \
  DO(add_rows)                        \
  DO(sparse_dot)                      \
  DO(above)                           \
  DO(byte_scores)                     \
  DO(code_scores)                     \
  DO(block_maxima)                    \
  DO(log2_of_one_plus)                \
  DO(ranker_forward)                  \
  DO(softmax_row)                     \
  DO(ranker_step)                     \
  DO(message_rows)                    \
  DO(gru_rows)                        \
  DO(gru_gradient)                    \
  DO(attend_last)                     \
  DO(attend_gradient)                 \
  DO(attend_row_gradient)

struct KernelTable {
  const char* name;        // of the instruction set
  MatmulKernels float32;   // operands and sums in float32
  MatmulKernels bfloat16;  // operands rounded to bfloat16, sums in float32
#define SPARSENET_DECLARE_KERNEL(kernel) signatures::kernel* kernel;
  SPARSENET_FOR_EACH_KERNEL(SPARSENET_DECLARE_KERNEL)
#undef SPARSENET_DECLARE_KERNEL
};

const KernelTable& kernels();  // the table in use

}  // namespace sparsenet
