// Python bindings that choose and report the instruction set.
#include <pybind11/stl.h>

#include <stdexcept>
#include <string>

#include "../isa/dispatch.h"
#include "arrays.h"

namespace sparsenet {

void bind_isa(py::module_& core) {
  core.def("isa_available", isa_available);
  core.def("isa_used", isa_used);
  core.def("set_isa", set_isa, "name"_a);
  core.def("has_bf16", has_bf16);
  try {
    choose_isa();
  } catch (const std::invalid_argument& error) {
    throw py::import_error(std::string("SPARSENET_ISA: ") + error.what());
  }
}

}  // namespace sparsenet
