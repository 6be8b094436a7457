// Bindings of engine/learning.h.
#include "../engine/learning.h"
#include "arrays.h"

namespace sparsenet {
namespace {

Positives positives_argument(Array indptr, Array points, Array weights, int64_t n_active) {
  const Pointers indptr_(indptr, "positive_indptr");
  indptr_.require(0, n_active + 1, "rows of logits + 1");
  const Csr csr = csr_view(indptr_, {points, "positive_points"}, {weights, "positive_weights"});
  return {csr.indptr, csr.indices, csr.data};
}

Rows rows_argument(const Matrix<float>& value, Array rows, Array grads) {
  const Vector<const int64_t> rows_(rows, "rows");
  const Matrix<const float> grads_(grads, "grads");
  grads_.require(0, rows_.size(), "length of rows").require(1, value.cols(), "columns of value");
  return {rows_.data(), rows_.size(), value.cols(), grads_.data()};
}

void require_same_shape(const Matrix<float>& state, const Matrix<float>& value) {
  state.require(0, value.rows(), "rows of value").require(1, value.cols(), "columns of value");
}

AdamState adam_argument(const Matrix<float>& value, Array first, Array second, Array last_step) {
  const Matrix<float> first_(first, "first"), second_(second, "second");
  const Vector<int32_t> last_step_(last_step, "last_step");
  require_same_shape(first_, value);
  require_same_shape(second_, value);
  last_step_.require(0, value.rows(), "rows of value");
  return {value.data(), first_.data(), second_.data(), last_step_.data()};
}

void bind_bce_gradient(Array logits, Array positive_indptr, Array positive_points, Array positive_weights,
                       Array negative_weights, float smoothing, float scale, Array losses, int threads) {
  const Matrix<float> logits_(logits, "logits");
  const Positives positives = positives_argument(positive_indptr, positive_points, positive_weights, logits_.rows());
  const Vector<const float> negative_weights_(negative_weights, "negative_weights");
  const Vector<double> losses_(losses, "losses");
  negative_weights_.require(0, logits_.rows(), "rows of logits");
  losses_.require(0, logits_.rows(), "rows of logits");
  require_threads(threads);
  GilRelease release;
  bce_gradient(logits_.data(), logits_.rows(), logits_.cols(), positives, negative_weights_.data(), smoothing, scale,
               losses_.data(), threads);
}

void bind_softmax_gradient(Array logits, Array positive_indptr, Array positive_points, Array positive_weights,
                           Array log_expected, float smoothing, float scale, Array losses, int threads) {
  const Matrix<float> logits_(logits, "logits");
  const Positives positives = positives_argument(positive_indptr, positive_points, positive_weights, logits_.rows());
  const Vector<const float> log_expected_(log_expected, "log_expected");
  const Vector<double> losses_(losses, "losses");
  log_expected_.require(0, logits_.rows(), "rows of logits");
  losses_.require(0, logits_.cols(), "columns of logits");
  require_threads(threads);
  GilRelease release;
  softmax_gradient(logits_.data(), logits_.rows(), logits_.cols(), positives, log_expected_.data(), smoothing, scale,
                   losses_.data(), threads);
}

void bind_sgd_rows(Array value, Array rows, Array grads, float rate, float decay, int threads) {
  const Matrix<float> value_(value, "value");
  const Rows rows_ = rows_argument(value_, rows, grads);
  require_threads(threads);
  GilRelease release;
  sgd_rows(value_.data(), rows_, rate, decay, threads);
}

void bind_adagrad_rows(Array value, Array squares, Array rows, Array grads, float rate, float epsilon, float decay,
                       int threads) {
  const Matrix<float> value_(value, "value"), squares_(squares, "squares");
  require_same_shape(squares_, value_);
  const Rows rows_ = rows_argument(value_, rows, grads);
  require_threads(threads);
  GilRelease release;
  adagrad_rows(value_.data(), squares_.data(), rows_, rate, epsilon, decay, threads);
}

void bind_adam_rows(Array value, Array first, Array second, Array last_step, Array rows, Array grads, int32_t step,
                    float rate, float beta1, float beta2, float epsilon, float decay, int threads) {
  const Matrix<float> value_(value, "value");
  const AdamState state = adam_argument(value_, first, second, last_step);
  const Rows rows_ = rows_argument(value_, rows, grads);
  require_at_least_one("step", step);
  require_threads(threads);
  GilRelease release;
  adam_rows(state, rows_, {step, rate, beta1, beta2, epsilon, decay}, threads);
}

void bind_adam_product(Array value, Array first, Array second, Array last_step, Array rows, Array indptr, Array indices,
                       Array data, Array dense, int32_t step, float rate, float beta1, float beta2, float epsilon,
                       float decay, int threads) {
  const Matrix<float> value_(value, "value");
  const AdamState state = adam_argument(value_, first, second, last_step);
  const Vector<const int64_t> rows_(rows, "rows");
  const Csr csr = csr_argument(indptr, indices, data);
  const Matrix<const float> dense_(dense, "dense");
  rows_.require(0, indptr.size() - 1, "rows of the product");
  dense_.require(1, value_.cols(), "columns of value");
  require_at_least_one("step", step);
  require_threads(threads);
  GilRelease release;
  adam_product(state, {rows_.data(), rows_.size(), dense_.cols(), nullptr}, csr, dense_.data(),
               {step, rate, beta1, beta2, epsilon, decay}, threads);
}

}  // namespace

void bind_learning(py::module_& core) {
  core.def("bce_gradient", bind_bce_gradient, "logits"_a, "positive_indptr"_a, "positive_points"_a,
           "positive_weights"_a, "negative_weights"_a, "smoothing"_a, "scale"_a, "losses"_a, "threads"_a);
  core.def("softmax_gradient", bind_softmax_gradient, "logits"_a, "positive_indptr"_a, "positive_points"_a,
           "positive_weights"_a, "log_expected"_a, "smoothing"_a, "scale"_a, "losses"_a, "threads"_a);
  core.def("sgd_rows", bind_sgd_rows, "value"_a, "rows"_a, "grads"_a, "rate"_a, "decay"_a, "threads"_a);
  core.def("adagrad_rows", bind_adagrad_rows, "value"_a, "squares"_a, "rows"_a, "grads"_a, "rate"_a, "epsilon"_a,
           "decay"_a, "threads"_a);
  core.def("adam_rows", bind_adam_rows, "value"_a, "first"_a, "second"_a, "last_step"_a, "rows"_a, "grads"_a, "step"_a,
           "rate"_a, "beta1"_a, "beta2"_a, "epsilon"_a, "decay"_a, "threads"_a);
  core.def("adam_product", bind_adam_product, "value"_a, "first"_a, "second"_a, "last_step"_a, "rows"_a, "indptr"_a,
           "indices"_a, "data"_a, "dense"_a, "step"_a, "rate"_a, "beta1"_a, "beta2"_a, "epsilon"_a, "decay"_a,
           "threads"_a);
}

}  // namespace sparsenet
