// Bindings of what finds the best labels.
#include <pybind11/pybind11.h>

#include "arguments.h"

namespace sparsenet {
namespace {

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

void bind_nearest_points(const I64& indptr, const I32& indices, const F32& data, const I64& index_indptr,
                         const I32& index_points, const F32& index_weights, int64_t n_others, int64_t most,
                         I32& out_points, F32& out_products, int threads) {
  const Matrix<int32_t> nearest(out_points, "out_points");
  const Matrix<float> products(out_products, "out_products");
  const Csr points = csr_argument(indptr, indices, data);
  const Csr index = csr_view(pointers_argument(index_indptr, "index_indptr"), {index_points, "index_points"},
                             {index_weights, "index_weights"});
  nearest.require(0, indptr.size() - 1, "rows of the batch");
  products.require(0, nearest.rows(), "rows of out_points").require(1, nearest.cols(), "columns of out_points");
  if (nearest.cols() < 1) nearest.fail("must have a column");
  checked_threads(threads);
  Released released;
  nearest_points(points, nearest.rows(), index, n_others, most, nearest.cols(), nearest.data(), products.data(),
                 threads);
}

void bind_neighbor_votes(const I64& indptr, const I32& indices, const F32& data, const I64& label_indptr,
                         const I32& label_ids, const F32& label_weights, int64_t n_labels, const I32& wanted, F32& out,
                         int threads) {
  const Matrix<const int32_t> labels(wanted, "wanted");
  const Matrix<float> votes(out, "out");
  const Csr neighbors = csr_argument(indptr, indices, data);
  const Csr of_points = csr_view(pointers_argument(label_indptr, "label_indptr"), {label_ids, "label_ids"},
                                 {label_weights, "label_weights"});
  labels.require(0, indptr.size() - 1, "rows of the batch");
  votes.require(0, labels.rows(), "rows of wanted").require(1, labels.cols(), "columns of wanted");
  checked_threads(threads);
  Released released;
  neighbor_votes(neighbors, labels.rows(), of_points, n_labels, labels.data(), labels.cols(), votes.data(), threads);
}

}  // namespace

void bind_inference(py::module_& core) {
  using py::arg;
  core.def("predict_topk", &bind_predict_topk, arg("hidden"), arg("weight"), arg("bias"), arg("indptr"), arg("indices"),
           arg("data"), arg("wide_indptr"), arg("wide_labels"), arg("wide_weights"), arg("out_labels"),
           arg("out_scores"), arg("threads"));
  core.def("shortlist", &bind_shortlist, arg("indptr"), arg("indices"), arg("data"), arg("index_indptr"),
           arg("index_labels"), arg("index_weights"), arg("bias"), arg("fallback"), arg("out_labels"),
           arg("out_scores"), arg("threads"));
  core.def("wide_scores", &bind_wide_scores, arg("indptr"), arg("indices"), arg("data"), arg("n_features"),
           arg("wide_indptr"), arg("wide_features"), arg("wide_weights"), arg("labels"), arg("out"), arg("threads"));
  core.def("nearest_points", &bind_nearest_points, arg("indptr"), arg("indices"), arg("data"), arg("index_indptr"),
           arg("index_points"), arg("index_weights"), arg("n_others"), arg("most"), arg("out_points"),
           arg("out_products"), arg("threads"));
  core.def("neighbor_votes", &bind_neighbor_votes, arg("indptr"), arg("indices"), arg("data"), arg("label_indptr"),
           arg("label_ids"), arg("label_weights"), arg("n_labels"), arg("wanted"), arg("out"), arg("threads"));
}

}  // namespace sparsenet
