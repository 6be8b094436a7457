// Bindings of engine/dual.h.
#include "../engine/dual.h"
#include "arrays.h"

namespace sparsenet {
namespace {

void bind_dual_train(Array indptr, Array indices, Array data, Array squares, Array label_indptr, Array labels,
                     int64_t first_label, Array positive_slack, Array negative_slack, int64_t most_epochs,
                     float tolerance, uint64_t seed, Array weight, Array epochs, int threads) {
  const Vector<const int64_t> indptr_(indptr, "indptr"), label_indptr_(label_indptr, "label_indptr");
  const Vector<const int32_t> indices_(indices, "indices"), labels_(labels, "labels");
  const Vector<const float> data_(data, "data"), squares_(squares, "squares");
  const Vector<const float> positive_slack_(positive_slack, "positive_slack");
  const Vector<const float> negative_slack_(negative_slack, "negative_slack");
  const View<float, 3> weight_(weight, "weight");
  const Vector<int32_t> epochs_(epochs, "epochs");
  const int64_t n_blocks = weight_.shape(0), width = weight_.cols(), n = squares_.size();
  if (width != 1 && width != 4 && width != 8 && width != 16) weight_.fail("must have 1, 4, 8 or 16 columns");
  if (weight_.shape(1) < 1) weight_.fail("must have a row of biases");
  indptr_.require(0, n + 1, "size of squares + 1");
  label_indptr_.require(0, n + 1, "size of squares + 1");
  data_.require(0, indices_.size(), "size of indices");
  positive_slack_.require(0, n_blocks * width, "labels of weight");
  negative_slack_.require(0, n_blocks * width, "labels of weight");
  epochs_.require(0, n_blocks, "blocks of weight");
  if (indptr_.data()[0] != 0 || indptr_.data()[n] > indices_.size()) indptr_.fail("does not fit indices");
  if (label_indptr_.data()[0] != 0 || label_indptr_.data()[n] > labels_.size())
    label_indptr_.fail("does not fit labels");
  require_threads(threads);
  DualProblem problem = {};
  problem.csr = {indptr_.data(), indices_.data(), data_.data()};
  problem.n_features = weight_.shape(1) - 1;
  problem.squares = squares_.data();
  problem.label_indptr = label_indptr_.data();
  problem.labels = labels_.data();
  problem.first_label = first_label;
  problem.positive_slack = positive_slack_.data();
  problem.negative_slack = negative_slack_.data();
  GilRelease release;
  dual_train(problem, n, width, n_blocks, {most_epochs, tolerance, seed}, weight_.data(), epochs_.data(), threads);
}

}  // namespace

void bind_dual(py::module_& core) {
  core.def("dual_train", bind_dual_train, "indptr"_a, "indices"_a, "data"_a, "squares"_a, "label_indptr"_a, "labels"_a,
           "first_label"_a, "positive_slack"_a, "negative_slack"_a, "most_epochs"_a, "tolerance"_a, "seed"_a,
           "weight"_a, "epochs"_a, "threads"_a);
}

}  // namespace sparsenet
