// Bindings of the losses and the optimizers.
#include <pybind11/pybind11.h>

#include "arguments.h"

namespace sparsenet {
namespace {

Positives positives_argument(const I64& indptr, const I32& points, const F32& weights, int64_t a) {
  const Vector<const int64_t> starts = pointers_argument(indptr, "positive_indptr");
  starts.require(0, a + 1, "rows of logits + 1");
  const Csr view = csr_view(starts, {points, "positive_points"}, {weights, "positive_weights"});
  return {view.indptr, view.indices, view.data};
}

Rows rows_argument(const Matrix<float>& value, const I64& rows, const F32& grads) {
  const Vector<const int64_t> ids(rows, "rows");
  const Matrix<const float> gradient(grads, "grads");
  gradient.require(0, ids.size(), "one row for each of `rows`").require(1, value.cols(), "columns of value");
  return {ids.data(), ids.size(), value.cols(), gradient.data()};
}

void require_same(const Matrix<float>& value, const Matrix<float>& state) {
  state.require(0, value.rows(), "rows of value").require(1, value.cols(), "columns of value");
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

AdamState adam_argument(F32& value, F32& first, F32& second, I32& last_step) {
  const Matrix<float> parameter(value, "value"), mean(first, "first"), square(second, "second");
  const Vector<int32_t> last(last_step, "last_step");
  require_same(parameter, mean);
  require_same(parameter, square);
  last.require(0, parameter.rows(), "rows of value");
  return {parameter.data(), mean.data(), square.data(), last.data()};
}

void checked_step(int32_t step) {
  if (step < 1) throw py::value_error("step counts from 1, got " + std::to_string(step));
}

void bind_adam_rows(F32& value, F32& first, F32& second, I32& last_step, const I64& rows, const F32& grads,
                    int32_t step, float rate, float beta1, float beta2, float epsilon, float decay, int threads) {
  const AdamState state = adam_argument(value, first, second, last_step);
  const Rows touched = rows_argument({value, "value"}, rows, grads);
  checked_step(step);
  checked_threads(threads);
  Released released;
  adam_rows(state, touched, {step, rate, beta1, beta2, epsilon, decay}, threads);
}

void bind_adam_product(F32& value, F32& first, F32& second, I32& last_step, const I64& rows, const I64& indptr,
                       const I32& indices, const F32& data, const F32& dense, int32_t step, float rate, float beta1,
                       float beta2, float epsilon, float decay, int threads) {
  const AdamState state = adam_argument(value, first, second, last_step);
  const Vector<const int64_t> ids(rows, "rows");
  const Csr csr = csr_argument(indptr, indices, data);
  ids.require(0, indptr.size() - 1, "rows of the product");
  const Matrix<const float> table(dense, "dense");
  table.require(1, value.shape(1), "columns of value");
  checked_step(step);
  checked_threads(threads);
  Released released;
  adam_product(state, {ids.data(), ids.size(), table.cols(), nullptr}, csr, table.data(),
               {step, rate, beta1, beta2, epsilon, decay}, threads);
}

}  // namespace

void bind_learning(py::module_& core) {
  using py::arg;
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
  core.def("adam_product", &bind_adam_product, arg("value"), arg("first"), arg("second"), arg("last_step"), arg("rows"),
           arg("indptr"), arg("indices"), arg("data"), arg("dense"), arg("step"), arg("rate"), arg("beta1"),
           arg("beta2"), arg("epsilon"), arg("decay"), arg("threads"));
}

}  // namespace sparsenet
