// Bindings of the wide path.
#include <pybind11/pybind11.h>

#include "arguments.h"

namespace sparsenet {
namespace {

Postings postings_argument(const I64& starts, const I32& rows, const F32& values, const I32& dense_of, const F32& dense,
                           int64_t n) {
  const Vector<const int64_t> ends = pointers_argument(starts, "starts");
  const Csr lists = csr_view(ends, {rows, "rows"}, {values, "values"});
  const Vector<const int32_t> dense_rows(dense_of, "dense_of");
  const Matrix<const float> table(dense, "dense");
  dense_rows.require(0, ends.size() - 1, "length of starts - 1");
  table.require(1, n, "points of the batch");
  return {ends.size() - 1, ends.data(), lists.indices, lists.data, dense_rows.data(), table.data()};
}

Touched touched_argument(const I64& touched_indptr, const I64& touched, const I32& touched_slots, int64_t a,
                         const char* rows) {
  const Vector<const int64_t> starts = pointers_argument(touched_indptr, "touched_indptr");
  const Vector<const int64_t> positions(touched, "touched");
  const Vector<const int32_t> slots(touched_slots, "touched_slots");
  starts.require(0, a + 1, rows);
  if (positions.size() < starts.data()[a]) positions.fail("is shorter than touched_indptr says");
  if (slots.size() < starts.data()[a]) slots.fail("is shorter than touched_indptr says");
  return {starts.data(), positions.data(), slots.data()};
}

void bind_label_centroids(const I64& label_indptr, const I32& label_points, const I64& indptr, const I32& indices,
                          const F32& data, int64_t n_features, const I64& budget, const I64& starts, I32& out_indices,
                          F32& out_data, I64& out_ends, int threads) {
  const Vector<const int64_t> labels = pointers_argument(label_indptr, "label_indptr");
  const Vector<const int64_t> room = pointers_argument(starts, "starts"), limits(budget, "budget");
  const Vector<const int32_t> points(label_points, "label_points");
  const Vector<int32_t> features(out_indices, "out_indices");
  const Vector<float> values(out_data, "out_data");
  const Vector<int64_t> ends(out_ends, "out_ends");
  const int64_t n_labels = labels.size() - 1;
  room.require(0, n_labels + 1, "labels + 1");
  limits.require(0, n_labels, "labels");
  ends.require(0, n_labels, "labels");
  points.require(0, labels.data()[n_labels], "last row pointer of the labels");
  features.require(0, room.data()[n_labels], "last of starts");
  values.require(0, room.data()[n_labels], "last of starts");
  const Csr csr = csr_argument(indptr, indices, data);
  checked_threads(threads);
  Released released;
  label_centroids(labels.data(), points.data(), n_labels, csr, n_features, limits.data(),
                  {room.data(), features.data(), values.data(), ends.data()}, threads);
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
  const Touched view = touched_argument(touched_indptr, touched, touched_slots, scores.rows(), "rows of out + 1");
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
  const Touched view = touched_argument(touched_indptr, touched, touched_slots, tile.rows(), "rows of grad + 1");
  const Postings postings = postings_argument(starts, rows, values, dense_of, dense, tile.cols());
  if (result.size() < view.indptr[tile.rows()]) result.fail("is shorter than touched_indptr says");
  checked_threads(threads);
  Released released;
  wide_gradient(view, tile.rows(), postings, tile.data(), tile.cols(), result.data(), threads);
}

}  // namespace

void bind_wide(py::module_& core) {
  using py::arg;
  core.def("label_centroids", &bind_label_centroids, arg("label_indptr"), arg("label_points"), arg("indptr"),
           arg("indices"), arg("data"), arg("n_features"), arg("budget"), arg("starts"), arg("out_indices"),
           arg("out_data"), arg("out_ends"), arg("threads"));
  core.def("wide_touch", &bind_wide_touch, arg("active"), arg("indptr"), arg("indices"), arg("slots"),
           arg("touched_indptr"), arg("touched"), arg("touched_slots"), arg("threads"));
  core.def("wide_forward", &bind_wide_forward, arg("touched_indptr"), arg("touched"), arg("touched_slots"),
           arg("weights"), arg("starts"), arg("rows"), arg("values"), arg("dense_of"), arg("dense"), arg("out"),
           arg("threads"));
  core.def("wide_gradient", &bind_wide_gradient, arg("touched_indptr"), arg("touched"), arg("touched_slots"),
           arg("starts"), arg("rows"), arg("values"), arg("dense_of"), arg("dense"), arg("grad"), arg("out"),
           arg("threads"));
}

}  // namespace sparsenet
