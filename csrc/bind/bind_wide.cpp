// Bindings of engine/wide.h and engine/centroids.h.
#include "../engine/centroids.h"
#include "../engine/wide.h"
#include "arrays.h"

namespace sparsenet {
namespace {

BatchPostings batch_argument(Array starts, Array rows, Array values, Array dense_of, Array dense, int64_t n) {
  const Pointers starts_(starts, "starts");
  const Csr lists = csr_view(starts_, {rows, "rows"}, {values, "values"});
  const Vector<const int32_t> dense_of_(dense_of, "dense_of");
  const Matrix<const float> dense_(dense, "dense");
  dense_of_.require(0, starts_.n_rows(), "length of starts - 1");
  dense_.require(1, n, "points of the batch");
  return {starts_.n_rows(), lists.indptr, lists.indices, lists.data, dense_of_.data(), dense_.data()};
}

Touched touched_argument(Array touched_indptr, Array touched, Array touched_slots, int64_t n_active, const char* rows) {
  const Pointers touched_indptr_(touched_indptr, "touched_indptr");
  const Vector<const int64_t> touched_(touched, "touched");
  const Vector<const int32_t> touched_slots_(touched_slots, "touched_slots");
  touched_indptr_.require(0, n_active + 1, rows);
  touched_.require_room(touched_indptr_.last());
  touched_slots_.require_room(touched_indptr_.last());
  return {touched_indptr_.data(), touched_.data(), touched_slots_.data()};
}

void bind_label_centroids(Array label_indptr, Array label_points, Array indptr, Array indices, Array data,
                          int64_t n_features, Array budget, Array starts, Array out_indices, Array out_data,
                          Array out_ends, int threads) {
  const Pointers label_indptr_(label_indptr, "label_indptr"), starts_(starts, "starts");
  const Vector<const int64_t> budget_(budget, "budget");
  const Vector<const int32_t> label_points_(label_points, "label_points");
  const Vector<int32_t> out_indices_(out_indices, "out_indices");
  const Vector<float> out_data_(out_data, "out_data");
  const Vector<int64_t> out_ends_(out_ends, "out_ends");
  const Csr points = csr_argument(indptr, indices, data);
  const int64_t n_labels = label_indptr_.n_rows();
  starts_.require(0, n_labels + 1, "length of label_indptr");
  budget_.require(0, n_labels, "length of label_indptr - 1");
  out_ends_.require(0, n_labels, "length of label_indptr - 1");
  label_points_.require(0, label_indptr_.last(), "last of label_indptr");
  out_indices_.require(0, starts_.last(), "last of starts");
  out_data_.require(0, starts_.last(), "last of starts");
  require_threads(threads);
  GilRelease release;
  label_centroids(label_indptr_.data(), label_points_.data(), n_labels, points, n_features, budget_.data(),
                  {starts_.data(), out_indices_.data(), out_data_.data(), out_ends_.data()}, threads);
}

int64_t bind_wide_touch(Array active, Array indptr, Array indices, Array slots, Array touched_indptr, Array touched,
                        Array touched_slots, int threads) {
  const Vector<const int32_t> active_(active, "active"), indices_(indices, "indices"), slots_(slots, "slots");
  const Pointers indptr_(indptr, "indptr");
  const Vector<int64_t> touched_indptr_(touched_indptr, "touched_indptr"), touched_(touched, "touched");
  const Vector<int32_t> touched_slots_(touched_slots, "touched_slots");
  touched_indptr_.require(0, active_.size() + 1, "length of active + 1");
  const int64_t* ends = indptr_.data() + 1;
  int64_t support = 0;
  for (int64_t a = 0; a < active_.size(); ++a) support += ends[active_.data()[a]] - ends[active_.data()[a] - 1];
  touched_.require_room(support);
  touched_slots_.require_room(support);
  require_threads(threads);
  GilRelease release;
  return wide_touch({active_.data(), indptr_.data(), indices_.data()}, active_.size(), slots_.data(),
                    touched_indptr_.data(), touched_.data(), touched_slots_.data(), threads);
}

void bind_wide_forward(Array touched_indptr, Array touched, Array touched_slots, Array weights, Array starts,
                       Array rows, Array values, Array dense_of, Array dense, Array out, int threads) {
  const Matrix<float> out_(out, "out");
  const Vector<const float> weights_(weights, "weights");
  const Touched touched_ = touched_argument(touched_indptr, touched, touched_slots, out_.rows(), "rows of out + 1");
  const BatchPostings postings = batch_argument(starts, rows, values, dense_of, dense, out_.cols());
  require_threads(threads);
  GilRelease release;
  wide_forward(touched_, out_.rows(), weights_.data(), postings, out_.data(), out_.cols(), threads);
}

void bind_wide_gradient(Array touched_indptr, Array touched, Array touched_slots, Array starts, Array rows,
                        Array values, Array dense_of, Array dense, Array grad, Array out, int threads) {
  const Matrix<const float> grad_(grad, "grad");
  const Vector<float> out_(out, "out");
  const Touched touched_ = touched_argument(touched_indptr, touched, touched_slots, grad_.rows(), "rows of grad + 1");
  const BatchPostings postings = batch_argument(starts, rows, values, dense_of, dense, grad_.cols());
  out_.require_room(touched_.indptr[grad_.rows()]);
  require_threads(threads);
  GilRelease release;
  wide_gradient(touched_, grad_.rows(), postings, grad_.data(), grad_.cols(), out_.data(), threads);
}

}  // namespace

void bind_wide(py::module_& core) {
  core.def("label_centroids", bind_label_centroids, "label_indptr"_a, "label_points"_a, "indptr"_a, "indices"_a,
           "data"_a, "n_features"_a, "budget"_a, "starts"_a, "out_indices"_a, "out_data"_a, "out_ends"_a, "threads"_a);
  core.def("wide_touch", bind_wide_touch, "active"_a, "indptr"_a, "indices"_a, "slots"_a, "touched_indptr"_a,
           "touched"_a, "touched_slots"_a, "threads"_a);
  core.def("wide_forward", bind_wide_forward, "touched_indptr"_a, "touched"_a, "touched_slots"_a, "weights"_a,
           "starts"_a, "rows"_a, "values"_a, "dense_of"_a, "dense"_a, "out"_a, "threads"_a);
  core.def("wide_gradient", bind_wide_gradient, "touched_indptr"_a, "touched"_a, "touched_slots"_a, "starts"_a,
           "rows"_a, "values"_a, "dense_of"_a, "dense"_a, "grad"_a, "out"_a, "threads"_a);
}

}  // namespace sparsenet
