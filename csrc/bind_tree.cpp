// Bindings of classifiers in a tree of labels; what they mean is in tree.h.
#include "arguments.h"
#include "tree.h"

namespace sparsenet {
namespace {

using U16 = py::array;

// Row pointers over children: at most so many to a node.
Vector<const int64_t> children_argument(const I64& array) {
  const Vector<const int64_t> children = pointers_argument(array, "children");
  for (int64_t b = 1; b < children.size(); ++b) {
    const int64_t n = children.data()[b] - children.data()[b - 1];
    if (n < 0 || n > kChildren) children.fail("must give each node 0 to 16 children, got " + std::to_string(n));
  }
  return children;
}

void bind_split_sets(const I64& indptr, const I32& indices, const F32& data, int64_t n_features, const I64& starts,
                     const I64& left, uint64_t seed, int64_t most_rounds, I32& order, int threads) {
  const Csr rows = csr_argument(indptr, indices, data);
  const Vector<const int64_t> sets = pointers_argument(starts, "starts"), parts(left, "left");
  const Vector<int32_t> order_(order, "order");
  parts.require(0, sets.size() - 1, "length of starts - 1");
  order_.require(0, sets.data()[sets.size() - 1], "last of starts");
  checked_threads(threads);
  Released released;
  split_sets(rows, n_features, sets.data(), parts.data(), parts.size(), seed, most_rounds, order_.data(), threads);
}

template <typename T>
py::array_t<T> joined(const std::vector<NodeMachines>& nodes, std::vector<T> NodeMachines::* part, int64_t total) {
  py::array_t<T> out(total);
  T* at = out.mutable_data();
  for (const NodeMachines& node : nodes) at = std::copy((node.*part).begin(), (node.*part).end(), at);
  return out;
}

py::tuple bind_train_nodes(const I64& indptr, const I32& indices, const F32& data, int64_t n_features,
                           const F32& squares, const I64& starts, const I32& reached, const U16& belongs,
                           const I64& children, float cost, float cost_of_others, float rarity, int64_t most_epochs,
                           float tolerance, uint64_t seed, float smallest, int threads) {
  const Csr points = csr_argument(indptr, indices, data);
  const Vector<const float> squares_(squares, "squares");
  const Vector<const int64_t> starts_ = pointers_argument(starts, "starts");
  const Vector<const int64_t> children_ = children_argument(children);
  const Vector<const int32_t> reached_(reached, "reached");
  const Vector<const uint16_t> belongs_(belongs, "belongs");
  const int64_t n_nodes = starts_.size() - 1;
  squares_.require(0, indptr.shape(0) - 1, "points");
  children_.require(0, n_nodes + 1, "length of starts");
  reached_.require(0, starts_.data()[n_nodes], "last of starts");
  belongs_.require(0, starts_.data()[n_nodes], "last of starts");
  checked_threads(threads);
  std::vector<NodeMachines> nodes;
  {
    const Arrivals arrivals{starts_.data(), reached_.data(), belongs_.data(), children_.data(), n_nodes};
    Released released;
    const Costs costs{cost, cost_of_others, rarity};
    nodes = train_nodes(points, n_features, squares_.data(), arrivals, costs, {most_epochs, tolerance, seed}, smallest,
                        threads);
  }
  py::array_t<int64_t> ends(n_nodes + 1);
  py::array_t<float> bias({n_nodes, kChildren});
  ends.mutable_at(0) = 0;
  for (int64_t b = 0; b < n_nodes; ++b) {
    ends.mutable_at(b + 1) = ends.at(b) + static_cast<int64_t>(nodes[b].features.size());
    std::copy_n(nodes[b].bias, kChildren, bias.mutable_data() + b * kChildren);
  }
  const int64_t total = ends.at(n_nodes);
  const py::array_t<int8_t> weights = joined(nodes, &NodeMachines::weights, total * kChildren);
  return py::make_tuple(ends, joined(nodes, &NodeMachines::features, total),
                        joined(nodes, &NodeMachines::factors, total),
                        weights.attr("reshape")(py::make_tuple(total, kChildren)), bias);
}

Machines machines_argument(const py::handle& given) {
  const auto fail = [] { throw py::value_error("levels must each be a tuple of 6 arrays"); };
  if (!py::isinstance<py::tuple>(given)) fail();
  const py::tuple level = py::reinterpret_borrow<py::tuple>(given);
  if (level.size() != 6) fail();
  const auto part = [&](size_t i) {
    if (!py::isinstance<py::array>(level[i])) fail();
    return py::reinterpret_borrow<py::array>(level[i]);
  };
  const py::array starts = part(0), features = part(1), factors = part(2), weights = part(3), bias = part(4),
                  children = part(5);
  const Vector<const int64_t> starts_ = pointers_argument(starts, "starts");
  // Their ends only, not what each node has: of very many labels that takes as long as a point's answer, and whoever
  // makes a tree has looked.
  const Vector<const int64_t> children_ = pointers_argument(children, "children");
  const Vector<const int32_t> features_(features, "features");
  const Vector<const float> factors_(factors, "factors");
  const Matrix<const int8_t> weights_(weights, "weights");
  const Matrix<const float> bias_(bias, "bias");
  const int64_t n_nodes = starts_.size() - 1;
  features_.require(0, starts_.data()[n_nodes], "last of starts");
  factors_.require(0, features_.size(), "length of features");
  weights_.require(0, features_.size(), "length of features").require(1, kChildren, "children of a node");
  bias_.require(0, n_nodes, "length of starts - 1").require(1, kChildren, "children of a node");
  children_.require(0, n_nodes + 1, "length of starts");
  return {starts_.data(), features_.data(), factors_.data(), weights_.data(), bias_.data(), children_.data(), n_nodes};
}

void bind_search_tree(const py::list& levels, const I64& indptr, const I32& indices, const F32& data,
                      int64_t n_features, int64_t beam, const I32& names, I32& leaves, F32& scores, int threads) {
  std::vector<Machines> machines;
  for (const py::handle& level : levels) {
    machines.push_back(machines_argument(level));
    if (machines.size() < 2) continue;
    const Machines& above = machines[machines.size() - 2];
    if (above.children[above.n_nodes] != machines.back().n_nodes)
      throw py::value_error("levels must each have as many nodes as the one above has children");
  }
  if (machines.empty()) throw py::value_error("levels must not be empty");
  if (beam < 1) throw py::value_error("beam must be at least 1, got " + std::to_string(beam));
  const Csr points = csr_argument(indptr, indices, data);
  const int64_t n = indptr.shape(0) - 1;
  const Vector<const int32_t> names_(names, "names");
  names_.require(0, machines.back().children[machines.back().n_nodes], "leaves");
  const Matrix<int32_t> leaves_(leaves, "leaves");
  const Matrix<float> scores_(scores, "scores");
  leaves_.require(0, n, "points");
  scores_.require(0, n, "points").require(1, leaves_.cols(), "columns of leaves");
  if (leaves_.cols() < 1) leaves_.fail("must have a column for each leaf that is wanted");
  checked_threads(threads);
  Released released;
  search_tree(machines, points, n_features, n, beam, leaves_.cols(), names_.data(), leaves_.data(), scores_.data(),
              threads);
}

}  // namespace

void bind_tree(py::module_& core) {
  using namespace py::literals;
  core.def("split_sets", bind_split_sets, "indptr"_a, "indices"_a, "data"_a, "n_features"_a, "starts"_a, "left"_a,
           "seed"_a, "most_rounds"_a, "order"_a, "threads"_a);
  core.def("train_nodes", bind_train_nodes, "indptr"_a, "indices"_a, "data"_a, "n_features"_a, "squares"_a, "starts"_a,
           "reached"_a, "belongs"_a, "children"_a, "cost"_a, "cost_of_others"_a, "rarity"_a, "most_epochs"_a,
           "tolerance"_a, "seed"_a, "smallest"_a, "threads"_a);
  core.def("search_tree", bind_search_tree, "levels"_a, "indptr"_a, "indices"_a, "data"_a, "n_features"_a, "beam"_a,
           "names"_a, "leaves"_a, "scores"_a, "threads"_a);
}

}  // namespace sparsenet
