// The module sparsenet._core. Each bind_* function checks types and shapes, releases the GIL and calls the engine;
// there is no arithmetic in these files.
#include <pybind11/pybind11.h>

#include <chrono>

#include "../core/stopping.h"

namespace sparsenet {
namespace {

// Throws the exception of a signal handler, such as KeyboardInterrupt, if this thread called a kernel and released the
// GIL. Threads of the pool have no Python state, and other threads of Python handle no signals.
void handle_signals() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kBetween{50};  // taking the GIL may have to wait for other threads
  thread_local Clock::time_point last;
  if (PyGILState_GetThisThreadState() == nullptr || PyGILState_Check() != 0 || Clock::now() - last < kBetween) return;
  last = Clock::now();
  pybind11::gil_scoped_acquire acquired;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

}  // namespace

void bind_dual(pybind11::module_& core);      // training of linear classifiers
void bind_graph(pybind11::module_& core);     // temporal graph networks
void bind_index(pybind11::module_& core);     // exact and approximate search for the best labels and neighbors
void bind_isa(pybind11::module_& core);       // the choice of an instruction set
void bind_learning(pybind11::module_& core);  // losses and optimizers
void bind_lsh(pybind11::module_& core);       // hash functions and hash tables
void bind_products(pybind11::module_& core);  // sparse and dense products
void bind_reader(pybind11::module_& core);    // parsers of text formats
void bind_records(pybind11::module_& core);   // rows of points in files
void bind_stream(pybind11::module_& core);    // the next item in a stream of events
void bind_text(pybind11::module_& core);      // features and scores of texts
void bind_tree(pybind11::module_& core);      // classifiers in a tree of labels
void bind_wide(pybind11::module_& core);      // the wide path
}  // namespace sparsenet

PYBIND11_MODULE(_core, core) {
  core.doc() = "C++ kernels of sparsenet; use them through sparsenet.kernels";
  sparsenet::set_stop_hook(sparsenet::handle_signals);
  sparsenet::bind_dual(core);
  sparsenet::bind_graph(core);
  sparsenet::bind_index(core);
  sparsenet::bind_isa(core);
  sparsenet::bind_learning(core);
  sparsenet::bind_lsh(core);
  sparsenet::bind_products(core);
  sparsenet::bind_reader(core);
  sparsenet::bind_records(core);
  sparsenet::bind_stream(core);
  sparsenet::bind_text(core);
  sparsenet::bind_tree(core);
  sparsenet::bind_wide(core);
}
