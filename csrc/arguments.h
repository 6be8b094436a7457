// What the bindings of the engine's kernels have in common: arrays by their element types, and sparse rows.
#pragma once

#include "arrays.h"
#include "engine.h"

namespace sparsenet {

using F32 = py::array;
using I32 = py::array;
using I64 = py::array;

// Row pointers, checked as far as costs nothing: their ends.
inline Vector<const int64_t> pointers_argument(const I64& array, const char* name) {
  const Vector<const int64_t> pointers(array, name);
  if (pointers.size() < 1) pointers.fail("must not be empty");
  if (pointers.data()[0] != 0) pointers.fail("must start with 0, got " + std::to_string(pointers.data()[0]));
  return pointers;
}

// Row pointers with their two arrays: lengths, not every id.
inline Csr csr_view(const Vector<const int64_t>& indptr, const Vector<const int32_t>& indices,
                    const Vector<const float>& data) {
  const int64_t nnz = indptr.data()[indptr.size() - 1];
  if (indices.size() < nnz) indices.fail("is shorter than the row pointers say");
  if (data.size() < nnz) data.fail("is shorter than the row pointers say");
  return {indptr.data(), indices.data(), data.data()};
}

inline Csr csr_argument(const I64& indptr, const I32& indices, const F32& data) {
  return csr_view(pointers_argument(indptr, "indptr"), {indices, "indices"}, {data, "data"});
}

}  // namespace sparsenet
