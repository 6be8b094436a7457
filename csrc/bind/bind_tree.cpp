// Bindings of tree/tree.h and index/blend.h.
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "../index/blend.h"
#include "../tree/tree.h"
#include "arrays.h"

namespace sparsenet {
namespace {

void bind_split_sets(Array indptr, Array indices, Array data, int64_t n_features, Array starts, Array left,
                     uint64_t seed, int64_t most_rounds, Array order, int threads) {
  const Csr rows = csr_argument(indptr, indices, data);
  const Pointers starts_(starts, "starts");
  const Vector<const int64_t> left_(left, "left");
  const Vector<int32_t> order_(order, "order");
  left_.require(0, starts_.n_rows(), "length of starts - 1");
  order_.require(0, starts_.last(), "last of starts");
  require_threads(threads);
  GilRelease release;
  split_sets(rows, n_features, starts_.data(), left_.data(), left_.size(), seed, most_rounds, order_.data(), threads);
}

void require_children(const Pointers& children) {
  for (int64_t b = 1; b < children.size(); ++b) {
    const int64_t n = children.data()[b] - children.data()[b - 1];
    if (n < 0 || n > kChildren) children.fail("must give each node 0 to 16 children, got " + std::to_string(n));
  }
}

// Concatenates one array of all nodes.
template <typename T>
py::array_t<T> concatenate(const std::vector<NodeClassifiers>& nodes, std::vector<T> NodeClassifiers::* part,
                           int64_t total) {
  py::array_t<T> out(total);
  T* at = out.mutable_data();
  for (const NodeClassifiers& node : nodes) at = std::copy((node.*part).begin(), (node.*part).end(), at);
  return out;
}

py::tuple level_arrays(const std::vector<NodeClassifiers>& nodes) {
  const auto n_nodes = static_cast<int64_t>(nodes.size());
  py::array_t<int64_t> starts(n_nodes + 1);
  py::array_t<float> bias({n_nodes, kChildren});
  starts.mutable_at(0) = 0;
  for (int64_t b = 0; b < n_nodes; ++b) {
    starts.mutable_at(b + 1) = starts.at(b) + static_cast<int64_t>(nodes[b].features.size());
    std::copy_n(nodes[b].bias, kChildren, bias.mutable_data() + b * kChildren);
  }
  const int64_t total = starts.at(n_nodes);
  const py::array_t<int8_t> weights = concatenate(nodes, &NodeClassifiers::weights, total * kChildren);
  return py::make_tuple(starts, concatenate(nodes, &NodeClassifiers::features, total),
                        concatenate(nodes, &NodeClassifiers::factors, total),
                        weights.attr("reshape")(py::make_tuple(total, kChildren)), bias);
}

py::tuple bind_train_nodes(Array indptr, Array indices, Array data, int64_t n_features, Array squares, Array starts,
                           Array reached, Array belongs, Array children, float cost, float cost_of_others, float rarity,
                           int64_t most_epochs, float tolerance, uint64_t seed, float smallest, int threads) {
  const Csr points = csr_argument(indptr, indices, data);
  const Vector<const float> squares_(squares, "squares");
  const Pointers starts_(starts, "starts"), children_(children, "children");
  const Vector<const int32_t> reached_(reached, "reached");
  const Vector<const uint16_t> belongs_(belongs, "belongs");
  require_children(children_);
  squares_.require(0, indptr.size() - 1, "rows of the batch");
  children_.require(0, starts_.size(), "length of starts");
  reached_.require(0, starts_.last(), "last of starts");
  belongs_.require(0, starts_.last(), "last of starts");
  require_threads(threads);
  NodePoints node_points = {};
  node_points.starts = starts_.data();
  node_points.reached = reached_.data();
  node_points.belongs = belongs_.data();
  node_points.children = children_.data();
  node_points.n_nodes = starts_.n_rows();
  std::vector<NodeClassifiers> nodes;
  {
    GilRelease release;
    nodes = train_nodes({points, squares_.size(), n_features, squares_.data()}, node_points,
                        {cost, cost_of_others, rarity}, {most_epochs, tolerance, seed}, smallest, threads);
  }
  return level_arrays(nodes);
}

// The arrays of a part of a node, as the caller returned them.
class ReadPart {
 public:
  ReadPart(const py::function& read, const int32_t* order, int64_t count)
      : arrays_(read(py::array_t<int32_t>(count, order)).cast<py::tuple>()),
        indptr_(arrays_[0].cast<py::array>()),
        indices_(arrays_[1].cast<py::array>()),
        data_(arrays_[2].cast<py::array>()),
        squares_(arrays_[3].cast<py::array>()),
        part_{csr_argument(indptr_, indices_, data_), Vector<const float>(squares_, "squares").data()} {
    Pointers(indptr_, "indptr").require(0, count + 1, "points asked for + 1");
    Vector<const float>(squares_, "squares").require(0, count, "points asked for");
  }
  const NodePart& part() const { return part_; }

 private:
  py::tuple arrays_;
  py::array indptr_, indices_, data_, squares_;
  NodePart part_;
};

py::tuple bind_train_node_by_parts(const py::function& read, int64_t part_points, Array belongs, Array features,
                                   int64_t n_children, float cost, float cost_of_others, float rarity,
                                   int64_t most_epochs, float tolerance, uint64_t seed, float smallest) {
  const Vector<const uint16_t> belongs_(belongs, "belongs");
  const Vector<const int32_t> features_(features, "features");
  require_at_least_one("part_points", part_points);
  require_between("n_children", n_children, 0, kChildren);
  const std::vector<int32_t> own(features_.data(), features_.data() + features_.size());
  std::optional<ReadPart> latest;
  const auto read_part = [&](const int32_t* order, int64_t count) {
    const py::gil_scoped_acquire python;
    latest.reset();  // its memory is free before the next part is read
    latest.emplace(read, order, count);
    return latest->part();
  };
  NodeClassifiers node;
  {
    GilRelease release;
    node = train_node_by_parts(read_part, part_points, belongs_.data(), belongs_.size(), own, n_children,
                               {cost, cost_of_others, rarity}, {most_epochs, tolerance, seed}, smallest);
  }
  return level_arrays({node});
}

TreeLevel level_argument(const py::handle& level) {
  const auto fail = [] { throw py::value_error("levels must each be a tuple of 6 arrays"); };
  if (!py::isinstance<py::tuple>(level)) fail();
  const py::tuple parts = py::reinterpret_borrow<py::tuple>(level);
  if (parts.size() != 6) fail();
  for (const py::handle part : parts)
    if (!py::isinstance<py::array>(part)) fail();
  const auto part = [&](size_t i) { return py::reinterpret_borrow<py::array>(parts[i]); };
  const Pointers starts_(part(0), "starts");
  const Vector<const int32_t> features_(part(1), "features");
  const Vector<const float> factors_(part(2), "factors");
  const Matrix<const int8_t> weights_(part(3), "weights");
  const Matrix<const float> bias_(part(4), "bias");
  // Not require_children: with many labels that takes as long as a query, and the tree has been checked when it was
  // made.
  const Pointers children_(part(5), "children");
  features_.require(0, starts_.last(), "last of starts");
  factors_.require(0, features_.size(), "length of features");
  weights_.require(0, features_.size(), "length of features").require(1, kChildren, "children of a node");
  bias_.require(0, starts_.n_rows(), "length of starts - 1").require(1, kChildren, "children of a node");
  children_.require(0, starts_.size(), "length of starts");
  return {starts_.data(), features_.data(), factors_.data(), weights_.data(),
          bias_.data(),   children_.data(), starts_.n_rows()};
}

std::vector<TreeLevel> levels_argument(const py::list& levels) {
  std::vector<TreeLevel> found;
  for (const py::handle& level : levels) {
    found.push_back(level_argument(level));
    if (found.size() < 2) continue;
    const TreeLevel& above = found[found.size() - 2];
    if (above.children[above.n_nodes] != found.back().n_nodes)
      throw py::value_error("levels must each have as many nodes as the one above has children");
  }
  if (found.empty()) throw py::value_error("levels must not be empty");
  return found;
}

void bind_search_tree(const py::list& levels, Array indptr, Array indices, Array data, int64_t n_features, int64_t beam,
                      Array names, Array leaves, Array scores, int threads) {
  const std::vector<TreeLevel> levels_ = levels_argument(levels);
  require_at_least_one("beam", beam);
  const Csr points = csr_argument(indptr, indices, data);
  const Vector<const int32_t> names_(names, "names");
  const Matrix<int32_t> leaves_(leaves, "leaves");
  const Matrix<float> scores_(scores, "scores");
  const int64_t n = indptr.size() - 1;
  names_.require(0, levels_.back().children[levels_.back().n_nodes], "children of the last level");
  leaves_.require(0, n, "rows of the batch");
  scores_.require(0, n, "rows of the batch").require(1, leaves_.cols(), "columns of leaves");
  if (leaves_.cols() < 1) leaves_.fail("must have a column");
  require_threads(threads);
  GilRelease release;
  search_tree(levels_, points, n_features, n, beam, leaves_.cols(), names_.data(), leaves_.data(), scores_.data(),
              threads);
}

// A tuple of `size` arrays; some may be None.
class ArrayTuple {
 public:
  ArrayTuple(const py::tuple& parts, size_t size, const char* name) : parts_(parts) {
    if (parts.size() != size)
      throw py::value_error(std::string(name) + " must be a tuple of " + std::to_string(size) + " arrays");
    for (const py::handle part : parts)
      if (!part.is_none() && !py::isinstance<py::array>(part))
        throw py::value_error(std::string(name) + " must be a tuple of arrays");
  }
  bool has(size_t i) const { return !parts_[i].is_none(); }
  std::optional<py::array> maybe(size_t i) const { return has(i) ? std::optional(at(i)) : std::nullopt; }
  py::array at(size_t i) const {
    if (!has(i)) throw py::value_error("an array is missing");
    return py::reinterpret_borrow<py::array>(parts_[i]);
  }

 private:
  const py::tuple& parts_;
};

BlendNeighbors neighbors_argument(const ArrayTuple& arrays, int64_t n_features, int64_t most, int64_t k, float power) {
  const Vector<const float> feature_weights_(arrays.at(0), "feature_weights");
  const Pointers label_indptr_(arrays.at(5), "label_indptr");
  const Vector<const int32_t> label_ids_(arrays.at(6), "label_ids");
  feature_weights_.require(0, n_features, "n_features");
  Pointers(arrays.at(1), "index_indptr").require(0, n_features + 1, "n_features + 1");
  label_ids_.require_room(label_indptr_.last());
  require_between("n_neighbors", k, 1, label_indptr_.n_rows());
  const Postings index = postings_argument(arrays.at(1), arrays.at(2), arrays.at(3), arrays.maybe(4));
  return {feature_weights_.data(), index, label_indptr_.n_rows(), most, k, power, label_indptr_.data(),
          label_ids_.data()};
}

BlendNetwork network_argument(const ArrayTuple& arrays, int64_t n, int64_t n_labels) {
  const Matrix<const float> hidden_(arrays.at(0), "hidden");
  const Vector<const float> bias_(arrays.at(2), "bias");
  BlendNetwork network = {};
  const auto steps_of_labels = [&](size_t i, const char* name) {
    return Vector<const uint16_t>(arrays.at(i), name).require(0, n_labels, "n_labels").data();
  };
  network.hidden = hidden_.require(0, n, "rows of the batch").data();
  network.width = hidden_.cols();
  const auto fits = [&](const auto& rows) {
    return rows.require(0, n_labels, "n_labels").require(1, network.width, "columns of hidden").data();
  };
  if (arrays.has(7))
    network.narrow_weight = {fits(Matrix<const int8_t>(arrays.at(1), "weight")), steps_of_labels(7, "weight_steps")};
  else
    network.weight = fits(Matrix<const float>(arrays.at(1), "weight"));
  network.bias = bias_.require(0, n_labels, "n_labels").data();
  if (arrays.has(3))
    network.totals = Vector<const float>(arrays.at(3), "totals").require(0, n, "rows of the batch").data();
  if (arrays.has(4)) {
    const Pointers wide_indptr_(arrays.at(4), "wide_indptr");
    wide_indptr_.require(0, n_labels + 1, "n_labels + 1");
    const Vector<const int32_t> wide_features_(arrays.at(5), "wide_features");
    if (arrays.has(8)) {
      const Vector<const int8_t> codes_(arrays.at(6), "wide_weights");
      network.narrow_wide = {codes_.require_room(wide_indptr_.last()).data(), steps_of_labels(8, "wide_steps")};
      network.wide = {wide_indptr_.data(), wide_features_.require_room(wide_indptr_.last()).data(), nullptr};
    } else {
      network.wide = csr_view(wide_indptr_, wide_features_, {arrays.at(6), "wide_weights"});
    }
  }
  return network;
}

void bind_rank_blend(const py::list& levels, Array names, int64_t beam, Array indptr, Array indices, Array data,
                     int64_t n_features, int64_t n_labels, const std::optional<py::tuple>& neighbors, int64_t most,
                     int64_t n_neighbors, float power, const std::optional<py::tuple>& network, Array weights,
                     float pseudo_neighbor, int64_t n_candidates, int64_t n_proposed, Array out_labels,
                     Array out_scores, int threads) {
  BlendIn in = {};
  in.levels = levels_argument(levels);
  const Vector<const int32_t> names_(names, "names");
  const Vector<const float> weights_(weights, "weights");
  const Matrix<int32_t> out_labels_(out_labels, "out_labels");
  const Matrix<float> out_scores_(out_scores, "out_scores");
  in.n = indptr.size() - 1;
  in.points = csr_argument(indptr, indices, data);
  in.names =
      names_.require(0, in.levels.back().children[in.levels.back().n_nodes], "children of the last level").data();
  in.beam = beam;
  in.n_features = n_features;
  in.n_labels = n_labels;
  BlendNeighbors neighbors_ = {};
  BlendNetwork network_ = {};
  if (neighbors) {
    neighbors_ = neighbors_argument({*neighbors, 7, "neighbors"}, n_features, most, n_neighbors, power);
    in.neighbors = &neighbors_;
  }
  if (network) {
    network_ = network_argument({*network, 9, "network"}, in.n, n_labels);
    in.network = &network_;
  }
  weights_.require(0, 3, "tree, network and neighbors");
  in.tree_weight = weights_.data()[0], in.network_weight = weights_.data()[1], in.neighbor_weight = weights_.data()[2];
  in.pseudo_neighbor = pseudo_neighbor;
  in.n_candidates = n_candidates;
  in.n_proposed = n_proposed;
  require_at_least_one("beam", beam);
  require_between("n_candidates", n_candidates, 1, names_.size());
  require_between("n_proposed", n_proposed, 0, n_labels);
  out_labels_.require(0, in.n, "rows of the batch");
  out_scores_.require(0, in.n, "rows of the batch").require(1, out_labels_.cols(), "columns of out_labels");
  require_between("columns of out_labels", out_labels_.cols(), 1, n_candidates);
  require_threads(threads);
  GilRelease release;
  rank_blend(in, out_labels_.cols(), out_labels_.data(), out_scores_.data(), threads);
}

}  // namespace

void bind_tree(py::module_& core) {
  core.def("split_sets", bind_split_sets, "indptr"_a, "indices"_a, "data"_a, "n_features"_a, "starts"_a, "left"_a,
           "seed"_a, "most_rounds"_a, "order"_a, "threads"_a);
  core.def("train_node_by_parts", bind_train_node_by_parts, "read"_a, "part_points"_a, "belongs"_a, "features"_a,
           "n_children"_a, "cost"_a, "cost_of_others"_a, "rarity"_a, "most_epochs"_a, "tolerance"_a, "seed"_a,
           "smallest"_a);
  core.def("train_nodes", bind_train_nodes, "indptr"_a, "indices"_a, "data"_a, "n_features"_a, "squares"_a, "starts"_a,
           "reached"_a, "belongs"_a, "children"_a, "cost"_a, "cost_of_others"_a, "rarity"_a, "most_epochs"_a,
           "tolerance"_a, "seed"_a, "smallest"_a, "threads"_a);
  core.def("search_tree", bind_search_tree, "levels"_a, "indptr"_a, "indices"_a, "data"_a, "n_features"_a, "beam"_a,
           "names"_a, "leaves"_a, "scores"_a, "threads"_a);
  core.def("rank_blend", bind_rank_blend, "levels"_a, "names"_a, "beam"_a, "indptr"_a, "indices"_a, "data"_a,
           "n_features"_a, "n_labels"_a, "neighbors"_a.none(true), "most"_a, "n_neighbors"_a, "power"_a,
           "network"_a.none(true), "weights"_a, "pseudo_neighbor"_a, "n_candidates"_a, "n_proposed"_a, "out_labels"_a,
           "out_scores"_a, "threads"_a);
}

}  // namespace sparsenet
