// How the bindings look at NumPy arrays: typed, shape-checked views. Nothing is ever converted or copied, so a
// caller's mistake is an error that names the argument, not a silent slow path.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace sparsenet {

namespace py = pybind11;

// A C-contiguous array argument of ndim dimensions and exactly the element type T; `const T` accepts read-only.
template <typename T, int ndim>
class View {
 public:
  View(const py::array& array, const char* name) : array_(array), name_(name) {
    using Element = std::remove_const_t<T>;
    if (!py::dtype::of<Element>().is(array.dtype()) && !py::dtype::of<Element>().equal(array.dtype()))
      fail("must have dtype " + std::string(py::str(py::dtype::of<Element>())) + ", got " +
           std::string(py::str(array.dtype())));
    if (array.ndim() != ndim) fail("must have " + std::to_string(ndim) + " dimensions");
    if (!(array.flags() & py::array::c_style)) fail("must be C-contiguous");
    if (!std::is_const_v<T> && !array.writeable()) fail("must be writeable");
  }

  T* data() const { return static_cast<T*>(const_cast<void*>(array_.data())); }
  int64_t size() const { return array_.size(); }
  int64_t rows() const { return array_.shape(0); }
  int64_t cols() const { return array_.shape(ndim - 1); }

  // Requires shape(axis) == expected, saying what the expectation comes from.
  const View& require(int axis, int64_t expected, const char* because) const {
    if (array_.shape(axis) != expected)
      fail("has shape[" + std::to_string(axis) + "] = " + std::to_string(array_.shape(axis)) + ", expected " +
           std::to_string(expected) + " (" + because + ")");
    return *this;
  }

  [[noreturn]] void fail(const std::string& what) const { throw py::value_error(std::string(name_) + " " + what); }

 private:
  const py::array& array_;
  const char* name_;
};

template <typename T>
using Vector = View<T, 1>;
template <typename T>
using Matrix = View<T, 2>;

// The GIL, let go of while a kernel runs. When the interpreter ends, it ends a daemon thread that asks for the GIL, by
// unwinding its stack: py::gil_scoped_release, whose destructor must not throw, would abort the process.
class Released {
 public:
  Released() : state_(PyEval_SaveThread()) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() noexcept(false) { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* state_;
};

inline int checked_threads(int threads) {
  if (threads < 1) throw py::value_error("threads must be at least 1, got " + std::to_string(threads));
  return threads;
}

}  // namespace sparsenet
