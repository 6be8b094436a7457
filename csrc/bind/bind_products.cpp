// Bindings of engine/sparse.h and engine/matmul.h.
#include <pybind11/stl.h>

#include <optional>

#include "../engine/matmul.h"
#include "../engine/sparse.h"
#include "arrays.h"

namespace sparsenet {
namespace {

using OptionalArray = const std::optional<py::array>&;

void bind_csr_matmul(Array indptr, Array indices, Array data, Array dense, Array out, int threads) {
  const Csr csr = csr_argument(indptr, indices, data);
  const Matrix<const float> dense_(dense, "dense");
  const Matrix<float> out_(out, "out");
  out_.require(0, indptr.size() - 1, "rows of the batch").require(1, dense_.cols(), "columns of dense");
  require_threads(threads);
  GilRelease release;
  csr_matmul(csr, out_.rows(), dense_.data(), dense_.cols(), out_.data(), threads);
}

void bind_csr_matmul_narrow(Array indptr, Array indices, Array data, Array codes, Array steps, Array out, int threads) {
  const Csr csr = csr_argument(indptr, indices, data);
  const Matrix<const int8_t> codes_(codes, "codes");
  const Vector<const uint16_t> steps_(steps, "steps");
  const Matrix<float> out_(out, "out");
  steps_.require(0, codes_.rows(), "rows of codes");
  out_.require(0, indptr.size() - 1, "rows of the batch").require(1, codes_.cols(), "columns of codes");
  require_threads(threads);
  GilRelease release;
  csr_matmul_narrow(csr, out_.rows(), {codes_.data(), steps_.data()}, codes_.cols(), out_.data(), threads);
}

int64_t bind_transpose_batch(Array indptr, Array indices, Array data, Array before, Array slots, Array features,
                             Array starts, Array rows, Array values) {
  const Csr csr = csr_argument(indptr, indices, data);
  const int64_t n = indptr.size() - 1, nnz = csr.indptr[n];
  const Vector<const int32_t> before_(before, "before");
  const Vector<int32_t> slots_(slots, "slots"), features_(features, "features"), rows_(rows, "rows");
  const Vector<int64_t> starts_(starts, "starts");
  const Vector<float> values_(values, "values");
  features_.require_room(nnz);
  starts_.require_room(nnz + 1);
  rows_.require_room(nnz);
  values_.require_room(nnz);
  GilRelease release;
  return transpose_batch(csr, n, before_.data(), before_.size(), slots_.data(), features_.data(), starts_.data(),
                         rows_.data(), values_.data());
}

void bind_take_rows(Array indptr, Array indices, Array data, Array rows, Array out_indptr, Array out_indices,
                    Array out_data) {
  const Csr csr = csr_argument(indptr, indices, data);
  const Vector<const int64_t> rows_(rows, "rows");
  const Pointers out_indptr_(out_indptr, "out_indptr");
  const Vector<int32_t> out_indices_(out_indices, "out_indices");
  const Vector<float> out_data_(out_data, "out_data");
  out_indptr_.require(0, rows_.size() + 1, "length of rows + 1");
  out_indices_.require_room(out_indptr_.last());
  out_data_.require_room(out_indptr_.last());
  GilRelease release;
  take_rows(csr, rows_.data(), rows_.size(), out_indptr_.data(), out_indices_.data(), out_data_.data());
}

void bind_spread_postings(Array starts, Array rows, Array values, Array dense_of, Array dense) {
  const Csr postings = csr_view({starts, "starts"}, {rows, "rows"}, {values, "values"});
  const Vector<const int32_t> dense_of_(dense_of, "dense_of");
  const Matrix<float> dense_(dense, "dense");
  dense_of_.require(0, starts.size() - 1, "length of starts - 1");
  GilRelease release;
  spread_postings(postings.indptr, dense_of_.size(), postings.indices, postings.data, dense_of_.data(), dense_.data(),
                  dense_.rows(), dense_.cols());
}

// The selected rows of an operand: the rows in `rows`, or all `n_rows` in order.
struct RowSelection {
  const int32_t* ids = nullptr;
  int64_t count;

  RowSelection(OptionalArray rows, const char* name, int64_t n_rows) : count(n_rows) {
    if (!rows) return;
    const Vector<const int32_t> rows_(*rows, name);
    ids = rows_.data();
    count = rows_.size();
  }
};

void bind_matmul(Array a, Array b, Array out, OptionalArray a_rows, OptionalArray b_rows, OptionalArray start,
                 bool transpose_a, bool transpose_b, bool bf16, int threads) {
  const Matrix<const float> a_(a, "a"), b_(b, "b");
  const Matrix<float> out_(out, "out");
  const RowSelection a_rows_(a_rows, "a_rows", a_.rows()), b_rows_(b_rows, "b_rows", b_.rows());
  MatmulShape shape = {};
  shape.transpose_a = transpose_a;
  shape.transpose_b = transpose_b;
  shape.bfloat16 = bf16;
  shape.m = transpose_a ? a_.cols() : a_rows_.count;
  shape.n = transpose_b ? b_rows_.count : b_.cols();
  shape.depth = transpose_a ? a_rows_.count : a_.cols();
  const int64_t depth_of_b = transpose_b ? b_.cols() : b_rows_.count;
  if (shape.depth != depth_of_b)
    b_.fail("does not fit a: the inner extents are " + std::to_string(shape.depth) + " and " +
            std::to_string(depth_of_b));
  out_.require(0, shape.m, "rows of op(a)").require(1, shape.n, "columns of op(b)");
  const float* start_data = nullptr;
  if (start) {
    const Vector<const float> start_(*start, "start");
    start_.require(0, shape.m, "rows of op(a)");
    start_data = start_.data();
  }
  require_threads(threads);
  GilRelease release;
  matmul({a_.data(), a_.cols(), a_rows_.ids}, {b_.data(), b_.cols(), b_rows_.ids}, shape, start_data, out_.data(),
         threads);
}

void bind_pair_dot(Array indptr, Array ids, Array hidden, Array weight, Array out, int threads) {
  const Pointers indptr_(indptr, "indptr");
  const Vector<const int32_t> ids_(ids, "ids");
  const Matrix<const float> hidden_(hidden, "hidden"), weight_(weight, "weight");
  const Vector<float> out_(out, "out");
  indptr_.require(0, hidden_.rows() + 1, "rows of hidden + 1");
  weight_.require(1, hidden_.cols(), "columns of hidden");
  ids_.require(0, indptr_.last(), "last of indptr");
  out_.require(0, ids_.size(), "length of ids");
  require_threads(threads);
  GilRelease release;
  pair_dot(indptr_.data(), ids_.data(), hidden_.rows(), hidden_.data(), weight_.data(), hidden_.cols(), out_.data(),
           threads);
}

}  // namespace

void bind_products(py::module_& core) {
  core.def("csr_matmul", bind_csr_matmul, "indptr"_a, "indices"_a, "data"_a, "dense"_a, "out"_a, "threads"_a);
  core.def("csr_matmul_narrow", bind_csr_matmul_narrow, "indptr"_a, "indices"_a, "data"_a, "codes"_a, "steps"_a,
           "out"_a, "threads"_a);
  core.def("transpose_batch", bind_transpose_batch, "indptr"_a, "indices"_a, "data"_a, "before"_a, "slots"_a,
           "features"_a, "starts"_a, "rows"_a, "values"_a);
  core.def("take_rows", bind_take_rows, "indptr"_a, "indices"_a, "data"_a, "rows"_a, "out_indptr"_a, "out_indices"_a,
           "out_data"_a);
  core.def("spread_postings", bind_spread_postings, "starts"_a, "rows"_a, "values"_a, "dense_of"_a, "dense"_a);
  core.def("matmul", bind_matmul, "a"_a, "b"_a, "out"_a, "a_rows"_a, "b_rows"_a, "start"_a, "transpose_a"_a,
           "transpose_b"_a, "bf16"_a, "threads"_a);
  core.def("pair_dot", bind_pair_dot, "indptr"_a, "ids"_a, "hidden"_a, "weight"_a, "out"_a, "threads"_a);
}

}  // namespace sparsenet
