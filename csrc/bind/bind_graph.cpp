// Bindings of temporal/graph.h.
#include "../temporal/graph.h"
#include "arrays.h"

namespace sparsenet {
namespace {

void bind_message_rows(Array memory, Array nodes, Array partners, Array features, Array elapsed, Array times,
                       Array out_messages, Array out_states, Array out_sines, int threads) {
  const Matrix<const float> memory_(memory, "memory"), features_(features, "features"), times_(times, "times");
  const Vector<const int32_t> nodes_(nodes, "nodes"), partners_(partners, "partners");
  const Vector<const float> elapsed_(elapsed, "elapsed");
  const Matrix<float> messages_(out_messages, "out_messages"), states_(out_states, "out_states"),
      sines_(out_sines, "out_sines");
  const int64_t n = nodes_.size(), m = memory_.cols(), t = times_.cols(), f = features_.cols();
  partners_.require(0, n, "length of nodes");
  features_.require(0, n, "length of nodes");
  elapsed_.require(0, n, "length of nodes");
  times_.require(0, 2, "rates and shifts");
  messages_.require(0, n, "length of nodes").require(1, 2 * m + f + t + 1, "widths of a message, and 1");
  states_.require(0, n, "length of nodes").require(1, m + 1, "columns of memory + 1");
  sines_.require(0, n, "length of nodes").require(1, t, "columns of times");
  require_threads(threads);
  const GraphMessages in = {
      m, f, t, memory_.data(), nodes_.data(), partners_.data(), features_.data(), elapsed_.data(), times_.data()};
  GilRelease release;
  message_rows(in, n, messages_.data(), states_.data(), sines_.data(), threads);
}

// Checks the shapes of the memory units, and returns their number.
template <typename Gates, typename States, typename Rows>
int64_t gru_width(const Gates& gates, const States& states, const Rows& before) {
  const int64_t width = before.cols() - 1;
  if (width < 1) before.fail("must have a column for each unit, and one more");
  gates.require(0, before.rows(), "rows of before").require(1, 3 * width, "three gates of each unit");
  states.require(0, before.rows(), "rows of before").require(1, 3 * width, "three gates of each unit");
  return width;
}

void bind_gru_rows(Array gates, Array states, Array before, Array out, int threads) {
  const Matrix<float> gates_(gates, "gates"), out_(out, "out");
  const Matrix<const float> states_(states, "states"), before_(before, "before");
  const int64_t width = gru_width(gates_, states_, before_);
  out_.require(0, before_.rows(), "rows of before").require(1, width + 1, "columns of before");
  require_threads(threads);
  GilRelease release;
  gru_rows(gates_.data(), states_.data(), before_.data(), before_.rows(), width, out_.data(), threads);
}

void bind_gru_gradient(Array gates, Array states, Array before, Array slopes, int threads) {
  const Matrix<float> gates_(gates, "gates"), states_(states, "states");
  const Matrix<const float> before_(before, "before"), slopes_(slopes, "slopes");
  const int64_t width = gru_width(gates_, states_, before_);
  slopes_.require(0, before_.rows(), "rows of before").require(1, width + 1, "columns of before");
  require_threads(threads);
  GilRelease release;
  gru_gradient(gates_.data(), states_.data(), before_.data(), slopes_.data(), before_.rows(), width, threads);
}

LastLinks links_argument(Array queries, Array edge_queries, Array rows, Array links, Array ages, Array features,
                         Array times, Array keep) {
  const View<const float, 3> queries_(queries, "queries"), edge_queries_(edge_queries, "edge_queries"),
      features_(features, "features"), keep_(keep, "keep");
  const Matrix<const float> rows_(rows, "rows"), ages_(ages, "ages"), times_(times, "times");
  const Matrix<const int32_t> links_(links, "links");
  const int64_t heads = queries_.rows(), n = queries_.shape(1), channels = queries_.cols(), k = links_.cols();
  edge_queries_.require(0, heads, "heads of queries").require(1, n, "seeds of queries");
  edge_queries_.require(2, times_.cols() + features_.cols(), "times and features");
  rows_.require(1, 2 * heads * channels, "key and value of each head");
  links_.require(0, n, "seeds of queries");
  ages_.require(0, n, "seeds of queries").require(1, k, "columns of links");
  features_.require(0, n, "seeds of queries").require(1, k, "columns of links");
  times_.require(0, 2, "rates and shifts");
  keep_.require(0, n, "seeds of queries").require(1, k, "columns of links").require(2, heads, "heads of queries");
  return {n,
          heads,
          channels,
          k,
          times_.cols(),
          features_.cols(),
          rows_.rows(),
          queries_.data(),
          edge_queries_.data(),
          rows_.data(),
          links_.data(),
          ages_.data(),
          features_.data(),
          times_.data(),
          keep_.data()};
}

// Requires the shape (heads, seeds, width).
template <typename Array3>
void require_by_head(const Array3& array, const LastLinks& in, int64_t width) {
  array.require(0, in.n_heads, "heads of queries").require(1, in.n_seeds, "seeds of queries");
  array.require(2, width, "width of a query");
}

template <typename Array3>
void require_weights(const Array3& weights, const LastLinks& in) {
  weights.require(0, in.n_seeds, "seeds of queries").require(1, in.n_links, "columns of links");
  weights.require(2, in.n_heads, "heads of queries");
}

void bind_attend_last(Array queries, Array edge_queries, Array rows, Array links, Array ages, Array features,
                      Array times, Array keep, Array out, Array out_edges, Array out_weights, int threads) {
  const LastLinks in = links_argument(queries, edge_queries, rows, links, ages, features, times, keep);
  const Matrix<float> out_(out, "out");
  const View<float, 3> out_edges_(out_edges, "out_edges"), out_weights_(out_weights, "out_weights");
  out_.require(0, in.n_seeds, "seeds of queries").require(1, in.n_heads * in.n_channels, "values of each head");
  require_by_head(out_edges_, in, in.n_times + in.n_features);
  require_weights(out_weights_, in);
  require_threads(threads);
  GilRelease release;
  attend_last(in, out_.data(), out_edges_.data(), out_weights_.data(), threads);
}

void bind_attend_gradient(Array queries, Array edge_queries, Array rows, Array links, Array ages, Array features,
                          Array times, Array keep, Array weights, Array slopes, Array edge_slopes, Array out_queries,
                          Array out_edge_queries, Array out_rows, Array out_times, int threads) {
  const LastLinks in = links_argument(queries, edge_queries, rows, links, ages, features, times, keep);
  const View<const float, 3> weights_(weights, "weights"), edge_slopes_(edge_slopes, "edge_slopes");
  const Matrix<const float> slopes_(slopes, "slopes");
  const View<float, 3> out_queries_(out_queries, "out_queries"),
      out_edge_queries_(out_edge_queries, "out_edge_queries"), out_times_(out_times, "out_times");
  const Matrix<float> out_rows_(out_rows, "out_rows");
  require_weights(weights_, in);
  slopes_.require(0, in.n_seeds, "seeds of queries").require(1, in.n_heads * in.n_channels, "values of each head");
  require_by_head(edge_slopes_, in, in.n_times + in.n_features);
  require_by_head(out_queries_, in, in.n_channels);
  require_by_head(out_edge_queries_, in, in.n_times + in.n_features);
  out_rows_.require(0, in.n_rows, "rows").require(1, 2 * in.n_heads * in.n_channels, "columns of rows");
  out_times_.require(0, in.n_seeds, "seeds of queries").require(1, 2, "rates and shifts");
  out_times_.require(2, in.n_times, "columns of times");
  require_threads(threads);
  GilRelease release;
  attend_gradient(in, weights_.data(), slopes_.data(), edge_slopes_.data(), out_queries_.data(),
                  out_edge_queries_.data(), out_rows_.data(), out_times_.data(), threads);
}

void bind_remember_links(Array neighbors, Array neighbor_times, Array neighbor_features, Array counts, Array sources,
                         Array targets, Array times, Array features) {
  const Matrix<int32_t> neighbors_(neighbors, "neighbors");
  const Matrix<double> neighbor_times_(neighbor_times, "neighbor_times");
  const View<float, 3> neighbor_features_(neighbor_features, "neighbor_features");
  const Vector<int64_t> counts_(counts, "counts");
  const Vector<const int32_t> sources_(sources, "sources"), targets_(targets, "targets");
  const Vector<const double> times_(times, "times");
  const Matrix<const float> features_(features, "features");
  const int64_t k = neighbors_.cols();
  if (k < 1) neighbors_.fail("must have room for a link");
  neighbor_times_.require(0, neighbors_.rows(), "rows of neighbors").require(1, k, "columns of neighbors");
  neighbor_features_.require(0, neighbors_.rows(), "rows of neighbors").require(1, k, "columns of neighbors");
  counts_.require(0, neighbors_.rows(), "rows of neighbors");
  targets_.require(0, sources_.size(), "length of sources");
  times_.require(0, sources_.size(), "length of sources");
  features_.require(0, sources_.size(), "length of sources")
      .require(1, neighbor_features_.cols(), "features of a link");
  GilRelease release;
  remember_links({k, neighbor_features_.cols(), neighbors_.data(), neighbor_times_.data(), neighbor_features_.data(),
                  counts_.data()},
                 {sources_.size(), sources_.data(), targets_.data(), times_.data(), features_.data()});
}

}  // namespace

void bind_graph(py::module_& core) {
  core.def("message_rows", bind_message_rows, "memory"_a, "nodes"_a, "partners"_a, "features"_a, "elapsed"_a, "times"_a,
           "out_messages"_a, "out_states"_a, "out_sines"_a, "threads"_a);
  core.def("gru_rows", bind_gru_rows, "gates"_a, "states"_a, "before"_a, "out"_a, "threads"_a);
  core.def("gru_gradient", bind_gru_gradient, "gates"_a, "states"_a, "before"_a, "slopes"_a, "threads"_a);
  core.def("attend_last", bind_attend_last, "queries"_a, "edge_queries"_a, "rows"_a, "links"_a, "ages"_a, "features"_a,
           "times"_a, "keep"_a, "out"_a, "out_edges"_a, "out_weights"_a, "threads"_a);
  core.def("attend_gradient", bind_attend_gradient, "queries"_a, "edge_queries"_a, "rows"_a, "links"_a, "ages"_a,
           "features"_a, "times"_a, "keep"_a, "weights"_a, "slopes"_a, "edge_slopes"_a, "out_queries"_a,
           "out_edge_queries"_a, "out_rows"_a, "out_times"_a, "threads"_a);
  core.def("remember_links", bind_remember_links, "neighbors"_a, "neighbor_times"_a, "neighbor_features"_a, "counts"_a,
           "sources"_a, "targets"_a, "times"_a, "features"_a);
}

}  // namespace sparsenet
