// Bindings of the training and inference kernels: shapes and types are checked here, once, and the GIL released.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <stdexcept>

#include "arrays.h"
#include "dispatch.h"
#include "engine.h"

namespace sparsenet {
namespace {

using F32 = py::array;
using I32 = py::array;
using I64 = py::array;

// Row pointers, checked as far as costs nothing: their ends.
Vector<const int64_t> pointers_argument(const I64& array, const char* name) {
  const Vector<const int64_t> pointers(array, name);
  if (pointers.size() < 1) pointers.fail("must not be empty");
  if (pointers.data()[0] != 0) pointers.fail("must start with 0, got " + std::to_string(pointers.data()[0]));
  return pointers;
}

// Row pointers with their two arrays: lengths, not every id.
Csr csr_view(const Vector<const int64_t>& indptr, const Vector<const int32_t>& indices,
             const Vector<const float>& data) {
  const int64_t nnz = indptr.data()[indptr.size() - 1];
  if (indices.size() < nnz) indices.fail("is shorter than the row pointers say");
  if (data.size() < nnz) data.fail("is shorter than the row pointers say");
  return {indptr.data(), indices.data(), data.data()};
}

Csr csr_argument(const I64& indptr, const I32& indices, const F32& data) {
  return csr_view(pointers_argument(indptr, "indptr"), {indices, "indices"}, {data, "data"});
}

Positives positives_argument(const I64& indptr, const I32& points, const F32& weights, int64_t a) {
  const Vector<const int64_t> starts = pointers_argument(indptr, "positive_indptr");
  starts.require(0, a + 1, "rows of logits + 1");
  const Csr view = csr_view(starts, {points, "positive_points"}, {weights, "positive_weights"});
  return {view.indptr, view.indices, view.data};
}

Postings postings_argument(const I64& starts, const I32& rows, const F32& values, const I32& dense_of, const F32& dense,
                           int64_t n) {
  const Vector<const int64_t> ends(starts, "starts");
  const Vector<const int32_t> dense_rows(dense_of, "dense_of");
  const Matrix<const float> table(dense, "dense");
  dense_rows.require(0, ends.size() - 1, "length of starts - 1");
  table.require(1, n, "points of the batch");
  return {ends.data(), Vector<const int32_t>(rows, "rows").data(), Vector<const float>(values, "values").data(),
          dense_rows.data(), table.data()};
}

struct OptionalRows {
  const int32_t* ids = nullptr;
  int64_t count;
  OptionalRows(const std::optional<I32>& rows, const char* name, int64_t otherwise) : count(otherwise) {
    if (!rows) return;
    const Vector<const int32_t> view(*rows, name);
    ids = view.data();
    count = view.size();
  }
};

Rows rows_argument(const Matrix<float>& value, const I64& rows, const F32& grads) {
  const Vector<const int64_t> ids(rows, "rows");
  const Matrix<const float> gradient(grads, "grads");
  gradient.require(0, ids.size(), "one row for each of `rows`").require(1, value.cols(), "columns of value");
  return {ids.data(), ids.size(), value.cols(), gradient.data()};
}

void require_same(const Matrix<float>& value, const Matrix<float>& state) {
  state.require(0, value.rows(), "rows of value").require(1, value.cols(), "columns of value");
}

void bind_csr_matmul(const I64& indptr, const I32& indices, const F32& data, const F32& dense, F32& out, int threads) {
  const Csr csr = csr_argument(indptr, indices, data);
  const Matrix<const float> table(dense, "dense");
  const Matrix<float> result(out, "out");
  result.require(0, indptr.size() - 1, "rows of the batch").require(1, table.cols(), "columns of dense");
  checked_threads(threads);
  Released released;
  csr_matmul(csr, result.rows(), table.data(), table.cols(), result.data(), threads);
}

int64_t bind_transpose_batch(const I64& indptr, const I32& indices, const F32& data, I32& slots, I32& features,
                             I64& starts, I32& rows, F32& values) {
  const Csr csr = csr_argument(indptr, indices, data);
  const int64_t n = indptr.size() - 1, nnz = csr.indptr[n];
  const Vector<int32_t> slot(slots, "slots"), feature(features, "features"), row(rows, "rows");
  const Vector<int64_t> start(starts, "starts");
  const Vector<float> value(values, "values");
  if (feature.size() < nnz) feature.fail("is too short for the batch");
  if (start.size() < nnz + 1) start.fail("is too short for the batch");
  if (row.size() < nnz) row.fail("is too short for the batch");
  if (value.size() < nnz) value.fail("is too short for the batch");
  Released released;
  return transpose_batch(csr, n, slot.data(), feature.data(), start.data(), row.data(), value.data());
}

void bind_matmul(const F32& a, const F32& b, F32& out, const std::optional<I32>& a_rows,
                 const std::optional<I32>& b_rows, bool transpose_a, bool transpose_b, bool bf16, int threads) {
  const Matrix<const float> left(a, "a"), right(b, "b");
  const Matrix<float> result(out, "out");
  const OptionalRows left_rows(a_rows, "a_rows", left.rows()), right_rows(b_rows, "b_rows", right.rows());
  MatmulShape shape;
  shape.transpose_a = transpose_a;
  shape.transpose_b = transpose_b;
  shape.half = bf16;
  shape.m = transpose_a ? left.cols() : left_rows.count;
  shape.n = transpose_b ? right_rows.count : right.cols();
  shape.depth = transpose_a ? left_rows.count : left.cols();
  if (shape.depth != (transpose_b ? right.cols() : right_rows.count))
    right.fail("does not fit a: the inner extents are " + std::to_string(shape.depth) + " and " +
               std::to_string(transpose_b ? right.cols() : right_rows.count));
  result.require(0, shape.m, "rows of op(a)").require(1, shape.n, "columns of op(b)");
  checked_threads(threads);
  Released released;
  matmul({left.data(), left.cols(), left_rows.ids}, {right.data(), right.cols(), right_rows.ids}, shape, result.data(),
         threads);
}

void bind_pair_dot(const I64& indptr, const I32& ids, const F32& hidden, const F32& weight, F32& out, int threads) {
  const Vector<const int64_t> starts = pointers_argument(indptr, "indptr");
  const Vector<const int32_t> labels(ids, "ids");
  const Matrix<const float> points(hidden, "hidden"), table(weight, "weight");
  const Vector<float> result(out, "out");
  starts.require(0, points.rows() + 1, "rows of hidden + 1");
  table.require(1, points.cols(), "columns of hidden");
  labels.require(0, starts.data()[points.rows()], "last row pointer");
  result.require(0, labels.size(), "length of ids");
  checked_threads(threads);
  Released released;
  pair_dot(starts.data(), labels.data(), points.rows(), points.data(), table.data(), points.cols(), result.data(),
           threads);
}

void bind_label_centroids(const I64& label_indptr, const I32& label_points, const I64& indptr, const I32& indices,
                          const F32& data, int64_t n_features, const I64& budget, const I64& starts, I32& out_indices,
                          F32& out_data, I64& out_counts, int threads) {
  const Vector<const int64_t> labels = pointers_argument(label_indptr, "label_indptr");
  const Vector<const int64_t> room = pointers_argument(starts, "starts"), limits(budget, "budget");
  const Vector<const int32_t> points(label_points, "label_points");
  const Vector<int32_t> features(out_indices, "out_indices");
  const Vector<float> values(out_data, "out_data");
  const Vector<int64_t> counts(out_counts, "out_counts");
  const int64_t n_labels = labels.size() - 1;
  room.require(0, n_labels + 1, "labels + 1");
  limits.require(0, n_labels, "labels");
  counts.require(0, n_labels, "labels");
  points.require(0, labels.data()[n_labels], "last row pointer of the labels");
  features.require(0, room.data()[n_labels], "last of starts");
  values.require(0, room.data()[n_labels], "last of starts");
  const Csr csr = csr_argument(indptr, indices, data);
  checked_threads(threads);
  Released released;
  label_centroids(labels.data(), points.data(), n_labels, csr, n_features, limits.data(),
                  {room.data(), features.data(), values.data(), counts.data()}, threads);
}

ConstTouched touched_argument(const I64& touched_indptr, const I64& touched, const I32& touched_slots, int64_t a,
                              const char* rows) {
  const Vector<const int64_t> starts = pointers_argument(touched_indptr, "touched_indptr");
  const Vector<const int64_t> positions(touched, "touched");
  const Vector<const int32_t> slots(touched_slots, "touched_slots");
  starts.require(0, a + 1, rows);
  if (positions.size() < starts.data()[a]) positions.fail("is shorter than touched_indptr says");
  if (slots.size() < starts.data()[a]) slots.fail("is shorter than touched_indptr says");
  return {starts.data(), positions.data(), slots.data()};
}

int64_t bind_wide_touch(const I32& active, const I64& indptr, const I32& indices, const I32& slots, I64& touched_indptr,
                        I64& touched, I32& touched_slots, int threads) {
  const Vector<const int32_t> labels(active, "active"), features(indices, "indices"), slot(slots, "slots");
  const Vector<const int64_t> starts = pointers_argument(indptr, "indptr");
  const Vector<int64_t> out_starts(touched_indptr, "touched_indptr"), out(touched, "touched");
  const Vector<int32_t> out_slots(touched_slots, "touched_slots");
  out_starts.require(0, labels.size() + 1, "length of active + 1");
  int64_t room = 0;
  for (int64_t l = 0; l < labels.size(); ++l)
    room += starts.data()[labels.data()[l] + 1] - starts.data()[labels.data()[l]];
  if (out.size() < room) out.fail("is shorter than the support of the active labels");
  if (out_slots.size() < room) out_slots.fail("is shorter than the support of the active labels");
  checked_threads(threads);
  Released released;
  return wide_touch({labels.data(), starts.data(), features.data()}, labels.size(), slot.data(), out_starts.data(),
                    out.data(), out_slots.data(), threads);
}

void bind_wide_forward(const I64& touched_indptr, const I64& touched, const I32& touched_slots, const F32& weights,
                       const I64& starts, const I32& rows, const F32& values, const I32& dense_of, const F32& dense,
                       F32& out, int threads) {
  const Matrix<float> scores(out, "out");
  const Vector<const float> weight(weights, "weights");
  const ConstTouched view = touched_argument(touched_indptr, touched, touched_slots, scores.rows(), "rows of out + 1");
  const Postings postings = postings_argument(starts, rows, values, dense_of, dense, scores.cols());
  checked_threads(threads);
  Released released;
  wide_forward(view, scores.rows(), weight.data(), postings, scores.data(), scores.cols(), threads);
}

void bind_wide_gradient(const I64& touched_indptr, const I64& touched, const I32& touched_slots, const I64& starts,
                        const I32& rows, const F32& values, const I32& dense_of, const F32& dense, const F32& grad,
                        F32& out, int threads) {
  const Matrix<const float> tile(grad, "grad");
  const Vector<float> result(out, "out");
  const ConstTouched view = touched_argument(touched_indptr, touched, touched_slots, tile.rows(), "rows of grad + 1");
  const Postings postings = postings_argument(starts, rows, values, dense_of, dense, tile.cols());
  if (result.size() < view.indptr[tile.rows()]) result.fail("is shorter than touched_indptr says");
  checked_threads(threads);
  Released released;
  wide_gradient(view, tile.rows(), postings, tile.data(), tile.cols(), result.data(), threads);
}

void bind_bce_gradient(F32& logits, const I64& positive_indptr, const I32& positive_points, const F32& positive_weights,
                       const F32& negative_weights, float smoothing, float scale, py::array& losses, int threads) {
  const Matrix<float> tile(logits, "logits");
  const Positives positives = positives_argument(positive_indptr, positive_points, positive_weights, tile.rows());
  const Vector<const float> negatives(negative_weights, "negative_weights");
  const Vector<double> loss(losses, "losses");
  negatives.require(0, tile.rows(), "rows of logits");
  loss.require(0, tile.rows(), "rows of logits");
  checked_threads(threads);
  Released released;
  bce_gradient(tile.data(), tile.rows(), tile.cols(), positives, negatives.data(), smoothing, scale, loss.data(),
               threads);
}

void bind_softmax_gradient(F32& logits, const I64& positive_indptr, const I32& positive_points,
                           const F32& positive_weights, const F32& log_expected, float smoothing, float scale,
                           py::array& losses, int threads) {
  const Matrix<float> tile(logits, "logits");
  const Positives positives = positives_argument(positive_indptr, positive_points, positive_weights, tile.rows());
  const Vector<const float> expected(log_expected, "log_expected");
  const Vector<double> loss(losses, "losses");
  expected.require(0, tile.rows(), "rows of logits");
  loss.require(0, tile.cols(), "columns of logits");
  checked_threads(threads);
  Released released;
  softmax_gradient(tile.data(), tile.rows(), tile.cols(), positives, expected.data(), smoothing, scale, loss.data(),
                   threads);
}

void bind_sgd_rows(F32& value, const I64& rows, const F32& grads, float rate, float decay, int threads) {
  const Matrix<float> parameter(value, "value");
  const Rows touched = rows_argument(parameter, rows, grads);
  checked_threads(threads);
  Released released;
  sgd_rows(parameter.data(), touched, rate, decay, threads);
}

void bind_adagrad_rows(F32& value, F32& squares, const I64& rows, const F32& grads, float rate, float epsilon,
                       float decay, int threads) {
  const Matrix<float> parameter(value, "value"), sums(squares, "squares");
  require_same(parameter, sums);
  const Rows touched = rows_argument(parameter, rows, grads);
  checked_threads(threads);
  Released released;
  adagrad_rows(parameter.data(), sums.data(), touched, rate, epsilon, decay, threads);
}

void bind_adam_rows(F32& value, F32& first, F32& second, I32& last_step, const I64& rows, const F32& grads,
                    int32_t step, float rate, float beta1, float beta2, float epsilon, float decay, int threads) {
  const Matrix<float> parameter(value, "value"), mean(first, "first"), square(second, "second");
  const Vector<int32_t> last(last_step, "last_step");
  require_same(parameter, mean);
  require_same(parameter, square);
  last.require(0, parameter.rows(), "rows of value");
  if (step < 1) throw py::value_error("step counts from 1, got " + std::to_string(step));
  const Rows touched = rows_argument(parameter, rows, grads);
  checked_threads(threads);
  Released released;
  adam_rows(parameter.data(), mean.data(), square.data(), last.data(), touched,
            {step, rate, beta1, beta2, epsilon, decay}, threads);
}

void bind_predict_topk(const F32& hidden, const F32& weight, const F32& bias, const I64& indptr, const I32& indices,
                       const F32& data, const I64& wide_indptr, const I32& wide_labels, const F32& wide_weights,
                       I32& out_labels, F32& out_scores, int threads) {
  const Matrix<const float> points(hidden, "hidden"), table(weight, "weight");
  const Vector<const float> biases(bias, "bias");
  const Matrix<int32_t> labels(out_labels, "out_labels");
  const Matrix<float> scores(out_scores, "out_scores");
  table.require(1, points.cols(), "columns of hidden").require(0, biases.size(), "length of bias");
  labels.require(0, points.rows(), "rows of hidden");
  scores.require(0, points.rows(), "rows of hidden").require(1, labels.cols(), "columns of out_labels");
  Vector<const int64_t>(indptr, "indptr").require(0, points.rows() + 1, "rows of hidden + 1");
  if (labels.cols() > biases.size()) labels.fail("has more columns than there are labels");
  const Csr batch = csr_argument(indptr, indices, data);
  const Csr wide = csr_view(pointers_argument(wide_indptr, "wide_indptr"), {wide_labels, "wide_labels"},
                            {wide_weights, "wide_weights"});
  checked_threads(threads);
  Released released;
  predict_topk({points.rows(), points.cols(), biases.size(), points.data(), table.data(), biases.data(), batch, wide},
               labels.cols(), labels.data(), scores.data(), threads);
}

// The labels that ids in a kernel's tables may name are checked at the public edge; here, that the tables fit together.
void bind_shortlist(const I64& indptr, const I32& indices, const F32& data, const I64& index_indptr,
                    const I32& index_labels, const F32& index_weights, const F32& bias, const I32& fallback,
                    I32& out_labels, F32& out_scores, int threads) {
  const Vector<const float> biases(bias, "bias");
  const Vector<const int32_t> others(fallback, "fallback");
  const Matrix<int32_t> labels(out_labels, "out_labels");
  const Matrix<float> scores(out_scores, "out_scores");
  const Csr points = csr_argument(indptr, indices, data);
  const Csr index = csr_view(pointers_argument(index_indptr, "index_indptr"), {index_labels, "index_labels"},
                             {index_weights, "index_weights"});
  labels.require(0, indptr.size() - 1, "rows of the batch");
  scores.require(0, labels.rows(), "rows of out_labels").require(1, labels.cols(), "columns of out_labels");
  if (labels.cols() < 1) labels.fail("must have a column");
  if (labels.cols() > others.size()) labels.fail("has more columns than fallback has labels");
  checked_threads(threads);
  Released released;
  shortlist({labels.rows(), biases.size(), points, index, biases.data(), others.data()}, labels.cols(), labels.data(),
            scores.data(), threads);
}

void bind_wide_scores(const I64& indptr, const I32& indices, const F32& data, int64_t n_features,
                      const I64& wide_indptr, const I32& wide_features, const F32& wide_weights, const I32& labels,
                      F32& out, int threads) {
  const Matrix<const int32_t> wanted(labels, "labels");
  const Matrix<float> scores(out, "out");
  const Csr points = csr_argument(indptr, indices, data);
  const Csr wide = csr_view(pointers_argument(wide_indptr, "wide_indptr"), {wide_features, "wide_features"},
                            {wide_weights, "wide_weights"});
  wanted.require(0, indptr.size() - 1, "rows of the batch");
  scores.require(0, wanted.rows(), "rows of labels").require(1, wanted.cols(), "columns of labels");
  checked_threads(threads);
  Released released;
  wide_scores(points, wanted.rows(), n_features, wide, wanted.data(), wanted.cols(), scores.data(), threads);
}

}  // namespace

void bind_engine(py::module_& core) {
  using py::arg;
  core.def("isa_available", &isa_available);
  core.def("isa_used", &isa_used);
  core.def("set_isa", &set_isa, arg("name"));
  core.def("has_bf16", &has_bf16);
  core.def("csr_matmul", &bind_csr_matmul, arg("indptr"), arg("indices"), arg("data"), arg("dense"), arg("out"),
           arg("threads"));
  core.def("transpose_batch", &bind_transpose_batch, arg("indptr"), arg("indices"), arg("data"), arg("slots"),
           arg("features"), arg("starts"), arg("rows"), arg("values"));
  core.def("matmul", &bind_matmul, arg("a"), arg("b"), arg("out"), arg("a_rows"), arg("b_rows"), arg("transpose_a"),
           arg("transpose_b"), arg("bf16"), arg("threads"));
  core.def("pair_dot", &bind_pair_dot, arg("indptr"), arg("ids"), arg("hidden"), arg("weight"), arg("out"),
           arg("threads"));
  core.def("label_centroids", &bind_label_centroids, arg("label_indptr"), arg("label_points"), arg("indptr"),
           arg("indices"), arg("data"), arg("n_features"), arg("budget"), arg("starts"), arg("out_indices"),
           arg("out_data"), arg("out_counts"), arg("threads"));
  core.def("wide_touch", &bind_wide_touch, arg("active"), arg("indptr"), arg("indices"), arg("slots"),
           arg("touched_indptr"), arg("touched"), arg("touched_slots"), arg("threads"));
  core.def("wide_forward", &bind_wide_forward, arg("touched_indptr"), arg("touched"), arg("touched_slots"),
           arg("weights"), arg("starts"), arg("rows"), arg("values"), arg("dense_of"), arg("dense"), arg("out"),
           arg("threads"));
  core.def("wide_gradient", &bind_wide_gradient, arg("touched_indptr"), arg("touched"), arg("touched_slots"),
           arg("starts"), arg("rows"), arg("values"), arg("dense_of"), arg("dense"), arg("grad"), arg("out"),
           arg("threads"));
  core.def("bce_gradient", &bind_bce_gradient, arg("logits"), arg("positive_indptr"), arg("positive_points"),
           arg("positive_weights"), arg("negative_weights"), arg("smoothing"), arg("scale"), arg("losses"),
           arg("threads"));
  core.def("softmax_gradient", &bind_softmax_gradient, arg("logits"), arg("positive_indptr"), arg("positive_points"),
           arg("positive_weights"), arg("log_expected"), arg("smoothing"), arg("scale"), arg("losses"), arg("threads"));
  core.def("sgd_rows", &bind_sgd_rows, arg("value"), arg("rows"), arg("grads"), arg("rate"), arg("decay"),
           arg("threads"));
  core.def("adagrad_rows", &bind_adagrad_rows, arg("value"), arg("squares"), arg("rows"), arg("grads"), arg("rate"),
           arg("epsilon"), arg("decay"), arg("threads"));
  core.def("adam_rows", &bind_adam_rows, arg("value"), arg("first"), arg("second"), arg("last_step"), arg("rows"),
           arg("grads"), arg("step"), arg("rate"), arg("beta1"), arg("beta2"), arg("epsilon"), arg("decay"),
           arg("threads"));
  core.def("predict_topk", &bind_predict_topk, arg("hidden"), arg("weight"), arg("bias"), arg("indptr"), arg("indices"),
           arg("data"), arg("wide_indptr"), arg("wide_labels"), arg("wide_weights"), arg("out_labels"),
           arg("out_scores"), arg("threads"));
  core.def("shortlist", &bind_shortlist, arg("indptr"), arg("indices"), arg("data"), arg("index_indptr"),
           arg("index_labels"), arg("index_weights"), arg("bias"), arg("fallback"), arg("out_labels"),
           arg("out_scores"), arg("threads"));
  core.def("wide_scores", &bind_wide_scores, arg("indptr"), arg("indices"), arg("data"), arg("n_features"),
           arg("wide_indptr"), arg("wide_features"), arg("wide_weights"), arg("labels"), arg("out"), arg("threads"));
  try {
    choose_isa();
  } catch (const std::invalid_argument& error) {
    throw py::import_error(std::string("SPARSENET_ISA: ") + error.what());
  }
}

}  // namespace sparsenet
