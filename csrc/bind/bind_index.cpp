// Bindings of index/predict_topk.h, index/shortlist.h, index/cells.h, index/neighbors.h and index/recommend.h.
#include <limits>

#include "../index/cells.h"
#include "../index/neighbors.h"
#include "../index/predict_topk.h"
#include "../index/recommend.h"
#include "../index/shortlist.h"
#include "arrays.h"

namespace sparsenet {
namespace {

void bind_predict_topk(Array hidden, Array weight, Array bias, Array indptr, Array indices, Array data,
                       Array wide_indptr, Array wide_labels, Array wide_weights, Array out_labels, Array out_scores,
                       int threads) {
  const Matrix<const float> hidden_(hidden, "hidden"), weight_(weight, "weight");
  const Vector<const float> bias_(bias, "bias");
  const Pointers indptr_(indptr, "indptr");
  const Matrix<int32_t> out_labels_(out_labels, "out_labels");
  const Matrix<float> out_scores_(out_scores, "out_scores");
  indptr_.require(0, hidden_.rows() + 1, "rows of hidden + 1");
  weight_.require(1, hidden_.cols(), "columns of hidden").require(0, bias_.size(), "length of bias");
  out_labels_.require(0, hidden_.rows(), "rows of hidden");
  out_scores_.require(0, hidden_.rows(), "rows of hidden").require(1, out_labels_.cols(), "columns of out_labels");
  if (out_labels_.cols() > bias_.size()) out_labels_.fail("has more columns than there are labels");
  TopkIn in = {};
  in.n = hidden_.rows();
  in.width = hidden_.cols();
  in.n_labels = bias_.size();
  in.hidden = hidden_.data();
  in.weight = weight_.data();
  in.bias = bias_.data();
  in.points = csr_view(indptr_, {indices, "indices"}, {data, "data"});
  in.wide = csr_view({wide_indptr, "wide_indptr"}, {wide_labels, "wide_labels"}, {wide_weights, "wide_weights"});
  require_threads(threads);
  GilRelease release;
  predict_topk(in, out_labels_.cols(), out_labels_.data(), out_scores_.data(), threads);
}

void bind_shortlist(Array indptr, Array indices, Array data, Array index_indptr, Array index_labels,
                    Array index_weights, Array bias, Array fallback, Array out_labels, Array out_scores, int threads) {
  const Vector<const float> bias_(bias, "bias");
  const Vector<const int32_t> fallback_(fallback, "fallback");
  const Matrix<int32_t> out_labels_(out_labels, "out_labels");
  const Matrix<float> out_scores_(out_scores, "out_scores");
  ShortlistIn in = {};
  in.n = out_labels_.rows();
  in.n_labels = bias_.size();
  in.points = csr_argument(indptr, indices, data);
  in.index = csr_view({index_indptr, "index_indptr"}, {index_labels, "index_labels"}, {index_weights, "index_weights"});
  in.bias = bias_.data();
  in.fallback = fallback_.data();
  out_labels_.require(0, indptr.size() - 1, "rows of the batch");
  out_scores_.require(0, out_labels_.rows(), "rows of out_labels")
      .require(1, out_labels_.cols(), "columns of out_labels");
  if (out_labels_.cols() < 1) out_labels_.fail("must have a column");
  if (out_labels_.cols() > fallback_.size()) out_labels_.fail("has more columns than fallback has labels");
  require_threads(threads);
  GilRelease release;
  shortlist(in, out_labels_.cols(), out_labels_.data(), out_scores_.data(), threads);
}

void bind_wide_scores(Array indptr, Array indices, Array data, int64_t n_features, Array wide_indptr,
                      Array wide_features, Array wide_weights, Array labels, Array out, int threads) {
  const Csr points = csr_argument(indptr, indices, data);
  const Csr wide =
      csr_view({wide_indptr, "wide_indptr"}, {wide_features, "wide_features"}, {wide_weights, "wide_weights"});
  const Matrix<const int32_t> labels_(labels, "labels");
  const Matrix<float> out_(out, "out");
  labels_.require(0, indptr.size() - 1, "rows of the batch");
  out_.require(0, labels_.rows(), "rows of labels").require(1, labels_.cols(), "columns of labels");
  require_threads(threads);
  GilRelease release;
  wide_scores(points, labels_.rows(), n_features, wide, labels_.data(), labels_.cols(), out_.data(), threads);
}

// The arrays that both searches in cells share.
class CellArguments {
 public:
  CellArguments(Array queries, Array centroids, Array centroid_scales, Array starts, Array codebook, Array blocks)
      : queries_(queries, "queries"),
        centroids_(centroids, "centroids"),
        scales_(centroid_scales, "centroid_scales"),
        starts_(starts, "starts"),
        codebook_(codebook, "codebook"),
        blocks_(blocks, "blocks") {
    const int64_t n_groups = codebook_.rows();
    centroids_.require(1, width(), "columns of queries");
    scales_.require(0, n_cells(), "rows of centroids");
    starts_.require(0, n_cells() + 1, "rows of centroids + 1");
    codebook_.require(1, 16, "codes of 4 bits");
    blocks_.require(0, (n_entries() + 31) / 32, "blocks of 32 entries").require(1, n_groups, "groups of the codebook");
    blocks_.require(2, 16, "bytes of 32 codes");
    if (n_groups % 4 != 0 || n_groups > 65535) codebook_.fail("must have a multiple of 4 groups, at most 65535");
    if (n_cells() < 1) centroids_.fail("must have a row");
  }
  int64_t width() const { return queries_.cols(); }
  int64_t n_cells() const { return centroids_.rows(); }
  int64_t n_entries() const { return starts_.last(); }
  Cells cells(float unit) const {
    return {n_cells(),
            width(),
            {centroids_.data(), scales_.data()},
            starts_.data(),
            {codebook_.rows(), codebook_.cols(), codebook_.data(), unit, blocks_.data()}};
  }
  // Checks the outputs and bounds of a search.
  CellQuery query(int64_t n_probes, int64_t n_candidates, const Matrix<int32_t>& found, const Matrix<float>& scores,
                  const Vector<int64_t>& scanned) const {
    found.require(0, queries_.rows(), "rows of queries");
    scores.require(0, queries_.rows(), "rows of queries").require(1, found.cols(), "columns of the other output");
    scanned.require(0, queries_.rows(), "rows of queries");
    if (found.cols() < 1) found.fail("must have a column");
    require_at_least_one("n_probes", n_probes);
    require_between("n_candidates", n_candidates, found.cols(), std::numeric_limits<int32_t>::max());
    return {queries_.data(), queries_.rows(), n_probes, n_candidates, found.cols()};
  }

 private:
  const Matrix<const float> queries_;
  const Matrix<const int8_t> centroids_;
  const Vector<const float> scales_;
  const Pointers starts_;
  const View<const int16_t, 3> codebook_;
  const View<const uint8_t, 3> blocks_;
};

void bind_search_cells(Array queries, Array centroids, Array centroid_scales, Array starts, Array codebook, float unit,
                       Array blocks, Array labels, Array weight, Array bias, int64_t n_probes, int64_t n_candidates,
                       Array out_labels, Array out_scores, Array out_scanned, int threads) {
  const CellArguments arguments(queries, centroids, centroid_scales, starts, codebook, blocks);
  const Vector<const int32_t> labels_(labels, "labels");
  const Matrix<const float> weight_(weight, "weight");
  const Vector<const float> bias_(bias, "bias");
  const Matrix<int32_t> out_labels_(out_labels, "out_labels");
  const Matrix<float> out_scores_(out_scores, "out_scores");
  const Vector<int64_t> out_scanned_(out_scanned, "out_scanned");
  labels_.require(0, arguments.n_entries(), "last of starts");
  weight_.require(0, bias_.size(), "length of bias").require(1, arguments.width(), "columns of queries");
  const CellQuery query = arguments.query(n_probes, n_candidates, out_labels_, out_scores_, out_scanned_);
  require_threads(threads);
  GilRelease release;
  search_cells(arguments.cells(unit), {bias_.size(), labels_.data(), weight_.data(), bias_.data()}, query,
               out_labels_.data(), out_scores_.data(), out_scanned_.data(), threads);
}

void bind_nearest_in_cells(Array queries, Array centroids, Array centroid_scales, Array starts, Array codebook,
                           float unit, Array blocks, Array lengths, Array codes, Array scales, int64_t n_probes,
                           int64_t n_candidates, Array out_positions, Array out_scores, Array out_scanned,
                           int threads) {
  const CellArguments arguments(queries, centroids, centroid_scales, starts, codebook, blocks);
  const Vector<const float> lengths_(lengths, "lengths"), scales_(scales, "scales");
  const Matrix<const int8_t> codes_(codes, "codes");
  const Matrix<int32_t> out_positions_(out_positions, "out_positions");
  const Matrix<float> out_scores_(out_scores, "out_scores");
  const Vector<int64_t> out_scanned_(out_scanned, "out_scanned");
  lengths_.require(0, arguments.n_cells(), "rows of centroids");
  codes_.require(0, arguments.n_entries(), "last of starts").require(1, arguments.width(), "columns of queries");
  scales_.require(0, arguments.n_entries(), "last of starts");
  const CellQuery query = arguments.query(n_probes, n_candidates, out_positions_, out_scores_, out_scanned_);
  require_threads(threads);
  GilRelease release;
  nearest_in_cells(arguments.cells(unit), {lengths_.data(), {codes_.data(), scales_.data()}}, query,
                   out_positions_.data(), out_scores_.data(), out_scanned_.data(), threads);
}

void bind_nearest_points(Array indptr, Array indices, Array data, Array index_indptr, Array index_points,
                         Array index_weights, const std::optional<py::array>& index_steps, int64_t n_others,
                         int64_t most, Array out_points, Array out_products, int threads) {
  const Csr points = csr_argument(indptr, indices, data);
  const Postings index = postings_argument(index_indptr, index_points, index_weights, index_steps);
  const Matrix<int32_t> out_points_(out_points, "out_points");
  const Matrix<float> out_products_(out_products, "out_products");
  out_points_.require(0, indptr.size() - 1, "rows of the batch");
  out_products_.require(0, out_points_.rows(), "rows of out_points");
  out_products_.require(1, out_points_.cols(), "columns of out_points");
  if (out_points_.cols() < 1) out_points_.fail("must have a column");
  require_threads(threads);
  GilRelease release;
  nearest_points(points, out_points_.rows(), index, n_others, most, out_points_.cols(), out_points_.data(),
                 out_products_.data(), threads);
}

void bind_neighbor_votes(Array indptr, Array indices, Array data, Array label_indptr, Array label_ids,
                         Array label_weights, int64_t n_labels, Array wanted, Array out, int threads) {
  const Csr neighbors = csr_argument(indptr, indices, data);
  const Csr labels =
      csr_view({label_indptr, "label_indptr"}, {label_ids, "label_ids"}, {label_weights, "label_weights"});
  const Matrix<const int32_t> wanted_(wanted, "wanted");
  const Matrix<float> out_(out, "out");
  wanted_.require(0, indptr.size() - 1, "rows of the batch");
  out_.require(0, wanted_.rows(), "rows of wanted").require(1, wanted_.cols(), "columns of wanted");
  require_threads(threads);
  GilRelease release;
  neighbor_votes(neighbors, wanted_.rows(), labels, n_labels, wanted_.data(), wanted_.cols(), out_.data(), threads);
}

void bind_recommend_items(Array indptr, Array items, Array amounts, Array list_indptr, Array list_items,
                          Array list_values, Array list_units, Array vectors, Array inward, Array outward,
                          Array factors, Array trend, Array fallback, Array weights, Array mixing, float fading,
                          int64_t n_candidates, bool exclude_seen, Array out_items, Array out_scores, Array out_parts,
                          int threads) {
  const Pointers indptr_(indptr, "indptr");
  const Vector<const int32_t> items_(items, "items"), fallback_(fallback, "fallback");
  const Vector<const float> amounts_(amounts, "amounts"), inward_(inward, "inward"), outward_(outward, "outward"),
      factors_(factors, "factors"), trend_(trend, "trend"), weights_(weights, "weights"), mixing_(mixing, "mixing");
  const Matrix<const int8_t> vectors_(vectors, "vectors");
  const Pointers list_indptr_(list_indptr, "list_indptr");
  const Vector<const int32_t> list_items_(list_items, "list_items");
  const Matrix<const int16_t> list_values_(list_values, "list_values");
  const Matrix<const float> list_units_(list_units, "list_units");
  const Matrix<int32_t> out_items_(out_items, "out_items");
  const Matrix<float> out_scores_(out_scores, "out_scores");
  const View<float, 3> out_parts_(out_parts, "out_parts");
  RecommendingIn in = {};
  in.n = indptr_.n_rows();
  in.n_items = trend_.size();
  in.width = vectors_.cols();
  const Csr events = csr_view(indptr_, items_, amounts_);
  in.indptr = events.indptr, in.items = events.indices, in.amounts = events.data;
  in.list_indptr = list_indptr_.require(0, in.n_items + 1, "length of trend + 1").data();
  in.list_items = list_items_.require_room(list_indptr_.last()).data();
  in.is_timed = list_units_.cols() == 3;
  if (!in.is_timed) list_units_.require(1, 2, "walk and regression, or 3 with successors");
  in.list_units = list_units_.require(0, in.n_items, "length of trend").data();
  list_values_.require(1, list_units_.cols(), "columns of list_units");
  in.list_values = list_values_.require_room(list_indptr_.last() * list_units_.cols()).data();
  in.vectors = vectors_.require(0, in.n_items, "length of trend").data();
  in.inward = inward_.require(0, in.n_items, "length of trend").data();
  in.outward = outward_.require(0, in.n_items, "length of trend").data();
  in.factors = factors_.require(0, in.n_items, "length of trend").data();
  in.trend = trend_.data();
  in.fallback = fallback_.data();
  in.n_fallback = fallback_.size();
  in.weights = weights_.require(0, kItemScores, "scores of an item").data();
  in.mixing = mixing_.require(0, kListSums, "sums of lists").data();
  in.fading = fading;
  in.n_candidates = n_candidates;
  in.exclude_seen = exclude_seen;
  out_items_.require(0, in.n, "users");
  out_scores_.require(0, in.n, "users").require(1, out_items_.cols(), "columns of out_items");
  const bool has_parts = out_parts_.rows() > 0;
  if (has_parts) out_parts_.require(0, in.n, "users").require(1, out_items_.cols(), "columns of out_items");
  out_parts_.require(2, kItemScores, "scores of an item");
  require_at_least_one("n_candidates", n_candidates);
  require_threads(threads);
  GilRelease release;
  recommend_items(in, out_items_.cols(), out_items_.data(), out_scores_.data(), has_parts ? out_parts_.data() : nullptr,
                  threads);
}

}  // namespace

void bind_index(py::module_& core) {
  core.def("predict_topk", bind_predict_topk, "hidden"_a, "weight"_a, "bias"_a, "indptr"_a, "indices"_a, "data"_a,
           "wide_indptr"_a, "wide_labels"_a, "wide_weights"_a, "out_labels"_a, "out_scores"_a, "threads"_a);
  core.def("shortlist", bind_shortlist, "indptr"_a, "indices"_a, "data"_a, "index_indptr"_a, "index_labels"_a,
           "index_weights"_a, "bias"_a, "fallback"_a, "out_labels"_a, "out_scores"_a, "threads"_a);
  core.def("wide_scores", bind_wide_scores, "indptr"_a, "indices"_a, "data"_a, "n_features"_a, "wide_indptr"_a,
           "wide_features"_a, "wide_weights"_a, "labels"_a, "out"_a, "threads"_a);
  core.def("search_cells", bind_search_cells, "queries"_a, "centroids"_a, "centroid_scales"_a, "starts"_a, "codebook"_a,
           "unit"_a, "blocks"_a, "labels"_a, "weight"_a, "bias"_a, "n_probes"_a, "n_candidates"_a, "out_labels"_a,
           "out_scores"_a, "out_scanned"_a, "threads"_a);
  core.def("nearest_in_cells", bind_nearest_in_cells, "queries"_a, "centroids"_a, "centroid_scales"_a, "starts"_a,
           "codebook"_a, "unit"_a, "blocks"_a, "lengths"_a, "codes"_a, "scales"_a, "n_probes"_a, "n_candidates"_a,
           "out_positions"_a, "out_scores"_a, "out_scanned"_a, "threads"_a);
  core.def("nearest_points", bind_nearest_points, "indptr"_a, "indices"_a, "data"_a, "index_indptr"_a, "index_points"_a,
           "index_weights"_a, "index_steps"_a.none(true), "n_others"_a, "most"_a, "out_points"_a, "out_products"_a,
           "threads"_a);
  core.def("neighbor_votes", bind_neighbor_votes, "indptr"_a, "indices"_a, "data"_a, "label_indptr"_a, "label_ids"_a,
           "label_weights"_a, "n_labels"_a, "wanted"_a, "out"_a, "threads"_a);
  core.def("recommend_items", bind_recommend_items, "indptr"_a, "items"_a, "amounts"_a, "list_indptr"_a, "list_items"_a,
           "list_values"_a, "list_units"_a, "vectors"_a, "inward"_a, "outward"_a, "factors"_a, "trend"_a, "fallback"_a,
           "weights"_a, "mixing"_a, "fading"_a, "n_candidates"_a, "exclude_seen"_a, "out_items"_a, "out_scores"_a,
           "out_parts"_a, "threads"_a);
}

}  // namespace sparsenet
