// The table of contents of sparsenet._core. Each bind_* function checks shapes and types, releases the GIL and
// calls the engine; there is no arithmetic in any of them.
#include <pybind11/pybind11.h>

namespace sparsenet {
void bind_dual(pybind11::module_& core);       // training of linear classifiers
void bind_engine(pybind11::module_& core);     // products, sparse and dense; instruction sets
void bind_wide(pybind11::module_& core);       // the wide path
void bind_learning(pybind11::module_& core);   // losses and optimizers
void bind_inference(pybind11::module_& core);  // what finds the best labels
void bind_lsh(pybind11::module_& core);        // hash families and tables
void bind_reader(pybind11::module_& core);     // parsing of text formats
void bind_text(pybind11::module_& core);       // texts to features and to scores
void bind_tree(pybind11::module_& core);       // classifiers in a tree of labels
}  // namespace sparsenet

PYBIND11_MODULE(_core, core) {
  core.doc() = "C++ kernels of sparsenet; use them through sparsenet.kernels";
  sparsenet::bind_dual(core);
  sparsenet::bind_engine(core);
  sparsenet::bind_wide(core);
  sparsenet::bind_learning(core);
  sparsenet::bind_inference(core);
  sparsenet::bind_lsh(core);
  sparsenet::bind_reader(core);
  sparsenet::bind_text(core);
  sparsenet::bind_tree(core);
}
