// Bindings of the products, sparse and dense, and of the choice of an instruction set.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <stdexcept>

#include "arguments.h"
#include "dispatch.h"

namespace sparsenet {
namespace {

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

void bind_csr_matmul(const I64& indptr, const I32& indices, const F32& data, const F32& dense, F32& out, int threads) {
  const Csr csr = csr_argument(indptr, indices, data);
  const Matrix<const float> table(dense, "dense");
  const Matrix<float> result(out, "out");
  result.require(0, indptr.size() - 1, "rows of the batch").require(1, table.cols(), "columns of dense");
  checked_threads(threads);
  Released released;
  csr_matmul(csr, result.rows(), table.data(), table.cols(), result.data(), threads);
}

int64_t bind_transpose_batch(const I64& indptr, const I32& indices, const F32& data, const I32& before, I32& slots,
                             I32& features, I64& starts, I32& rows, F32& values) {
  const Csr csr = csr_argument(indptr, indices, data);
  const int64_t n = indptr.size() - 1, nnz = csr.indptr[n];
  const Vector<const int32_t> last(before, "before");
  const Vector<int32_t> slot(slots, "slots"), feature(features, "features"), row(rows, "rows");
  const Vector<int64_t> start(starts, "starts");
  const Vector<float> value(values, "values");
  if (feature.size() < nnz) feature.fail("is too short for the batch");
  if (start.size() < nnz + 1) start.fail("is too short for the batch");
  if (row.size() < nnz) row.fail("is too short for the batch");
  if (value.size() < nnz) value.fail("is too short for the batch");
  Released released;
  return transpose_batch(csr, n, last.data(), last.size(), slot.data(), feature.data(), start.data(), row.data(),
                         value.data());
}

void bind_take_rows(const I64& indptr, const I32& indices, const F32& data, const I64& rows, const I64& out_indptr,
                    I32& out_indices, F32& out_data) {
  const Csr csr = csr_argument(indptr, indices, data);
  const Vector<const int64_t> chosen(rows, "rows"), pointers = pointers_argument(out_indptr, "out_indptr");
  pointers.require(0, chosen.size() + 1, "length of rows + 1");
  const int64_t nnz = pointers.data()[chosen.size()];
  const Vector<int32_t> ids(out_indices, "out_indices");
  const Vector<float> values(out_data, "out_data");
  if (ids.size() < nnz) ids.fail("is too short for the rows");
  if (values.size() < nnz) values.fail("is too short for the rows");
  Released released;
  take_rows(csr, chosen.data(), chosen.size(), pointers.data(), ids.data(), values.data());
}

void bind_spread_postings(const I64& starts, const I32& rows, const F32& values, const I32& dense_of, F32& dense) {
  const Csr postings = csr_view(pointers_argument(starts, "starts"), {rows, "rows"}, {values, "values"});
  const Vector<const int32_t> row_of(dense_of, "dense_of");
  row_of.require(0, starts.size() - 1, "features of `starts`");
  const Matrix<float> table(dense, "dense");
  Released released;
  spread_postings(postings.indptr, row_of.size(), postings.indices, postings.data, row_of.data(), table.data(),
                  table.rows(), table.cols());
}

void bind_matmul(const F32& a, const F32& b, F32& out, const std::optional<I32>& a_rows,
                 const std::optional<I32>& b_rows, const std::optional<F32>& start, bool transpose_a, bool transpose_b,
                 bool bf16, int threads) {
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
  const float* first = nullptr;
  if (start) {
    const Vector<const float> starts(*start, "start");
    starts.require(0, shape.m, "rows of op(a)");
    first = starts.data();
  }
  checked_threads(threads);
  Released released;
  matmul({left.data(), left.cols(), left_rows.ids}, {right.data(), right.cols(), right_rows.ids}, shape, first,
         result.data(), threads);
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

}  // namespace

void bind_engine(py::module_& core) {
  using py::arg;
  core.def("isa_available", &isa_available);
  core.def("isa_used", &isa_used);
  core.def("set_isa", &set_isa, arg("name"));
  core.def("has_bf16", &has_bf16);
  core.def("csr_matmul", &bind_csr_matmul, arg("indptr"), arg("indices"), arg("data"), arg("dense"), arg("out"),
           arg("threads"));
  core.def("transpose_batch", &bind_transpose_batch, arg("indptr"), arg("indices"), arg("data"), arg("before"),
           arg("slots"), arg("features"), arg("starts"), arg("rows"), arg("values"));
  core.def("take_rows", &bind_take_rows, arg("indptr"), arg("indices"), arg("data"), arg("rows"), arg("out_indptr"),
           arg("out_indices"), arg("out_data"));
  core.def("spread_postings", &bind_spread_postings, arg("starts"), arg("rows"), arg("values"), arg("dense_of"),
           arg("dense"));
  core.def("matmul", &bind_matmul, arg("a"), arg("b"), arg("out"), arg("a_rows"), arg("b_rows"), arg("start"),
           arg("transpose_a"), arg("transpose_b"), arg("bf16"), arg("threads"));
  core.def("pair_dot", &bind_pair_dot, arg("indptr"), arg("ids"), arg("hidden"), arg("weight"), arg("out"),
           arg("threads"));
  try {
    choose_isa();
  } catch (const std::invalid_argument& error) {
    throw py::import_error(std::string("SPARSENET_ISA: ") + error.what());
  }
}

}  // namespace sparsenet
