// The table of contents of sparsenet._core. Each bind_* function checks shapes and types, releases the GIL and
// calls the engine; there is no arithmetic in any of them.
#include <pybind11/pybind11.h>

namespace sparsenet {
void bind_dual(pybind11::module_& core);    // bind_dual.cpp: training of linear classifiers
void bind_engine(pybind11::module_& core);  // bind_engine.cpp: the training and inference kernels
void bind_lsh(pybind11::module_& core);     // bind_lsh.cpp: hash families and tables
void bind_reader(pybind11::module_& core);  // bind_reader.cpp: parsing of text formats
void bind_text(pybind11::module_& core);    // bind_text.cpp: texts to features and to scores
}  // namespace sparsenet

PYBIND11_MODULE(_core, core) {
  core.doc() = "C++ kernels of sparsenet; use them through sparsenet.kernels";
  sparsenet::bind_dual(core);
  sparsenet::bind_engine(core);
  sparsenet::bind_lsh(core);
  sparsenet::bind_reader(core);
  sparsenet::bind_text(core);
}
