// How bound functions check and unpack their arguments. All of them follow one pattern:
//
//   void bind_scale(Array factors, Array out, int threads) {
//     const Vector<const float> factors_(factors, "factors");       // a view of each array, named after it
//     const Matrix<float> out_(out, "out");
//     factors_.require(0, out_.rows(), "rows of out");              // shapes that must agree
//     require_threads(threads);
//     GilRelease release;
//     scale(factors_.data(), out_.data(), out_.rows(), out_.cols(), threads);
//   }
//
// Arrays are never converted or copied, so a mistake of the caller is an error that names the argument, not a slow
// path.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "../core/csr.h"
#include "../core/narrow.h"

namespace sparsenet {

namespace py = pybind11;
using namespace py::literals;  // NOLINT(google-build-using-namespace): for "name"_a

using Array = const py::array&;

// The text of a dtype. It takes a handle because pybind11 2.12 can make a str of a dtype in two ways, and picks none.
inline std::string name_of(py::handle dtype) { return py::str(dtype); }

// Pointer and shape of a C-contiguous array with `ndim` dimensions and element type T; `const T` accepts read-only
// arrays.
template <typename T, int ndim>
class View {
 public:
  View(Array array, const char* name) : name_(name) {
    using Element = std::remove_const_t<T>;
    const py::dtype expected = py::dtype::of<Element>();
    if (!expected.is(array.dtype()) && !expected.equal(array.dtype()))
      fail("must have dtype " + name_of(expected) + ", got " + name_of(array.dtype()));
    if (array.ndim() != ndim) fail("must have " + std::to_string(ndim) + " dimensions");
    if (!(array.flags() & py::array::c_style)) fail("must be C-contiguous");
    if (!std::is_const_v<T> && !array.writeable()) fail("must be writeable");
    data_ = static_cast<T*>(const_cast<void*>(array.data()));
    for (int axis = 0; axis < ndim; ++axis) shape_[axis] = array.shape(axis);
  }

  T* data() const { return data_; }
  int64_t shape(int axis) const { return shape_[axis]; }
  int64_t rows() const { return shape_[0]; }
  int64_t cols() const { return shape_[ndim - 1]; }
  int64_t size() const {
    int64_t size = 1;
    for (const int64_t extent : shape_) size *= extent;
    return size;
  }

  // Requires shape(axis) == expected; `because` names the source of the expectation.
  const View& require(int axis, int64_t expected, const char* because) const {
    if (shape_[axis] != expected)
      fail("has shape[" + std::to_string(axis) + "] = " + std::to_string(shape_[axis]) + ", expected " +
           std::to_string(expected) + " (" + because + ")");
    return *this;
  }

  // Requires room for `count` elements.
  const View& require_room(int64_t count) const {
    if (size() < count) fail("must have room for " + std::to_string(count) + " entries, got " + std::to_string(size()));
    return *this;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw py::value_error(std::string(name_) + " " + problem);
  }

 private:
  T* data_ = nullptr;
  int64_t shape_[ndim] = {};
  const char* name_;
};

template <typename T>
using Vector = View<T, 1>;
template <typename T>
using Matrix = View<T, 2>;

// Row pointers. Only the first one is checked, because checking all of them would take time on every call.
class Pointers : public Vector<const int64_t> {
 public:
  Pointers(Array array, const char* name) : View(array, name) {
    if (size() < 1) fail("must not be empty");
    if (data()[0] != 0) fail("must start with 0, got " + std::to_string(data()[0]));
  }
  int64_t n_rows() const { return size() - 1; }
  int64_t last() const { return data()[size() - 1]; }
};

// A sparse matrix. The lengths of its arrays are checked, but not each id.
inline Csr csr_view(const Pointers& indptr, const Vector<const int32_t>& indices, const Vector<const float>& data) {
  indices.require_room(indptr.last());
  data.require_room(indptr.last());
  return {indptr.data(), indices.data(), data.data()};
}

inline Csr csr_argument(Array indptr, Array indices, Array data) {
  return csr_view({indptr, "indptr"}, {indices, "indices"}, {data, "data"});
}

// Posting lists of points. Without `steps` these are int32 and float32, else int32 or uint16, and int8.
inline Postings postings_argument(Array indptr, Array points, Array values, const std::optional<py::array>& steps) {
  const Pointers indptr_(indptr, "index_indptr");
  Postings found = {};
  found.indptr = indptr_.data();
  const bool is_short = points.dtype().equal(py::dtype::of<uint16_t>());
  if (is_short && steps)
    found.short_points = Vector<const uint16_t>(points, "index_points").require_room(indptr_.last()).data();
  else
    found.points = Vector<const int32_t>(points, "index_points").require_room(indptr_.last()).data();
  if (!steps) {
    found.values = Vector<const float>(values, "index_weights").require_room(indptr_.last()).data();
    return found;
  }
  found.narrow.codes = Vector<const int8_t>(values, "index_weights").require_room(indptr_.last()).data();
  found.narrow.steps =
      Vector<const uint16_t>(*steps, "index_steps").require(0, indptr_.n_rows(), "rows of the index").data();
  return found;
}

inline void require_at_least_one(const char* name, int64_t value) {
  if (value < 1) throw py::value_error(std::string(name) + " must be at least 1, got " + std::to_string(value));
}

inline void require_threads(int threads) { require_at_least_one("threads", threads); }

inline void require_between(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    throw py::value_error(std::string(name) + " must be from " + std::to_string(low) + " to " + std::to_string(high) +
                          ", got " + std::to_string(value));
}

// Releases the GIL while a kernel runs. Not py::gil_scoped_release, whose destructor must not throw: when the
// interpreter exits, it unwinds the stack of a daemon thread that requests the GIL, which would then abort the process.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  // NOLINTNEXTLINE(bugprone-unsafe-to-allow-exceptions): see above
  ~GilRelease() noexcept(false) { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* state_;
};

}  // namespace sparsenet
