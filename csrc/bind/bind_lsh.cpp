// Bindings of index/lsh.h.
#include "../index/lsh.h"
#include "arrays.h"

namespace sparsenet {
namespace {

void bind_pack_signs(Array scores, Array codes, int threads) {
  const Matrix<const float> scores_(scores, "scores");
  const Matrix<uint16_t> codes_(codes, "codes");
  codes_.require(1, scores_.rows(), "rows of scores");
  require_at_least_one("codes.shape[0]", codes_.rows());
  const int64_t n_bits = scores_.cols() / codes_.rows();
  if (n_bits < 1 || n_bits > 16 || n_bits * codes_.rows() != scores_.cols())
    scores_.fail("must have 1 to 16 columns for each of the " + std::to_string(codes_.rows()) + " tables, got " +
                 std::to_string(scores_.cols()));
  require_threads(threads);
  GilRelease release;
  pack_signs(scores_.data(), scores_.rows(), codes_.rows(), n_bits, codes_.data(), threads);
}

void bind_bin_codes(Array values, Array bins, Array codes, int threads) {
  const Matrix<const float> values_(values, "values");
  const View<const int32_t, 3> bins_(bins, "bins");
  const Matrix<uint16_t> codes_(codes, "codes");
  codes_.require(0, bins_.shape(0), "tables of bins").require(1, values_.rows(), "rows of values");
  if (bins_.cols() < 2 || (bins_.cols() & (bins_.cols() - 1)) != 0)
    bins_.fail("must have a power of two as its last extent, got " + std::to_string(bins_.cols()));
  require_threads(threads);
  GilRelease release;
  const Bins all{bins_.data(), bins_.shape(0), bins_.shape(1), bins_.cols()};
  bin_codes(values_.data(), values_.rows(), values_.cols(), all, codes_.data(), threads);
}

void bind_build_tables(Array codes, Array offsets, Array labels, int threads) {
  const Matrix<const uint16_t> codes_(codes, "codes");
  const Matrix<int32_t> offsets_(offsets, "offsets"), labels_(labels, "labels");
  offsets_.require(0, codes_.rows(), "rows of codes");
  labels_.require(0, codes_.rows(), "rows of codes").require(1, codes_.cols(), "columns of codes");
  require_at_least_one("offsets.shape[1]", offsets_.cols());
  require_threads(threads);
  GilRelease release;
  build_tables(codes_.data(), codes_.rows(), codes_.cols(), offsets_.cols() - 1, offsets_.data(), labels_.data(),
               threads);
}

Tables tables_argument(Array offsets, Array labels) {
  const Matrix<const int32_t> offsets_(offsets, "offsets"), labels_(labels, "labels");
  labels_.require(0, offsets_.rows(), "rows of offsets");
  return {offsets_.data(), labels_.data(), offsets_.rows(), offsets_.cols() - 1, labels_.cols()};
}

Query query_argument(const Tables& tables, Array codes, int64_t probe_limit, int64_t limit, Array counts) {
  const Matrix<const uint16_t> codes_(codes, "codes");
  codes_.require(0, tables.n_tables, "rows of offsets");
  const Matrix<int32_t> counts_(counts, "counts");
  counts_.require(1, tables.n_labels, "columns of labels");
  require_at_least_one("counts.shape[0]", counts_.rows());
  require_at_least_one("probe_limit", probe_limit);
  return {codes_.data(), codes_.cols(), probe_limit, limit, counts_.data(), counts_.rows()};
}

int64_t bind_query_shared(Array offsets, Array labels, Array codes, int64_t probe_limit, Array counts, Array ids,
                          Array hits, int threads) {
  const Vector<int32_t> ids_(ids, "ids"), hits_(hits, "hits");
  hits_.require(0, ids_.size(), "size of ids");
  const Tables tables = tables_argument(offsets, labels);
  const Query query = query_argument(tables, codes, probe_limit, ids_.size(), counts);
  require_threads(threads);
  GilRelease release;
  return query_shared(tables, query, ids_.data(), hits_.data(), threads);
}

void bind_query_each(Array offsets, Array labels, Array codes, int64_t probe_limit, Array counts, Array ids, Array hits,
                     Array found, int threads) {
  const Matrix<int32_t> ids_(ids, "ids"), hits_(hits, "hits");
  const Vector<int64_t> found_(found, "found");
  const Tables tables = tables_argument(offsets, labels);
  const Query query = query_argument(tables, codes, probe_limit, ids_.cols(), counts);
  ids_.require(0, query.n, "columns of codes");
  hits_.require(0, query.n, "columns of codes").require(1, ids_.cols(), "columns of ids");
  found_.require(0, query.n, "columns of codes");
  require_threads(threads);
  GilRelease release;
  query_each(tables, query, ids_.data(), hits_.data(), found_.data(), threads);
}

}  // namespace

void bind_lsh(py::module_& core) {
  core.def("lsh_pack_signs", bind_pack_signs, "scores"_a, "codes"_a, "threads"_a);
  core.def("lsh_bin_codes", bind_bin_codes, "values"_a, "bins"_a, "codes"_a, "threads"_a);
  core.def("lsh_build_tables", bind_build_tables, "codes"_a, "offsets"_a, "labels"_a, "threads"_a);
  core.def("lsh_query_shared", bind_query_shared, "offsets"_a, "labels"_a, "codes"_a, "probe_limit"_a, "counts"_a,
           "ids"_a, "hits"_a, "threads"_a);
  core.def("lsh_query_each", bind_query_each, "offsets"_a, "labels"_a, "codes"_a, "probe_limit"_a, "counts"_a, "ids"_a,
           "hits"_a, "found"_a, "threads"_a);
}

}  // namespace sparsenet
