// Bindings of io/reader.h.
#include "../io/reader.h"
#include "arrays.h"

namespace sparsenet {
namespace {

const char* characters(const Vector<const uint8_t>& text) { return reinterpret_cast<const char*>(text.data()); }

py::tuple bind_count_marks(Array text) {
  const Vector<const uint8_t> text_(text, "text");
  Marks marks;
  {
    GilRelease release;
    marks = count_marks(characters(text_), text_.size());
  }
  return py::make_tuple(marks.lines, marks.colons, marks.commas);
}

template <typename Label>
RowArrays<Label> rows_argument(const Marks& marks, Array row_ends, Array indices, Array values, Array label_ends,
                               Array labels) {
  const Vector<int64_t> row_ends_(row_ends, "row_ends"), label_ends_(label_ends, "label_ends");
  const Vector<int32_t> indices_(indices, "indices");
  const Vector<float> values_(values, "values");
  const Vector<Label> labels_(labels, "labels");
  row_ends_.require_room(marks.lines);
  indices_.require_room(marks.colons);
  values_.require_room(marks.colons);
  label_ends_.require_room(marks.lines);
  labels_.require_room(marks.commas + marks.lines);
  return {row_ends_.data(), indices_.data(), values_.data(), label_ends_.data(), labels_.data()};
}

template <typename Label>
using Parser = ParsedRows (*)(const char*, int64_t, int64_t, const RowRules&, const RowArrays<Label>&, int);

template <typename Label>
py::tuple parse(Parser<Label> parser, Array text, int64_t first_line, const RowRules& rules, Array row_ends,
                Array indices, Array values, Array label_ends, Array labels, int threads) {
  const Vector<const uint8_t> text_(text, "text");
  const char* begin = characters(text_);
  // The parsers search for the end of a line without a limit.
  if (text_.size() == 0 || begin[text_.size() - 1] != '\n') text_.fail("must end with a newline");
  require_threads(threads);
  const Marks marks = count_marks(begin, text_.size());
  const RowArrays<Label> out = rows_argument<Label>(marks, row_ends, indices, values, label_ends, labels);
  ParsedRows done;
  {
    GilRelease release;
    done = parser(begin, text_.size(), first_line, rules, out, threads);
  }
  return py::make_tuple(done.rows, done.features, done.labels, static_cast<int>(done.error), done.line, done.begin,
                        done.end, done.repeated);
}

py::tuple bind_parse_xmc(Array text, int64_t first_line, int64_t last_line, int64_t n_features, int64_t n_labels,
                         Array row_ends, Array indices, Array values, Array label_ends, Array labels, int threads) {
  RowRules rules;
  rules.end_feature = n_features;
  rules.end_label = n_labels;
  rules.last_line = last_line;
  return parse<int32_t>(parse_xmc, text, first_line, rules, row_ends, indices, values, label_ends, labels, threads);
}

py::tuple bind_parse_svmlight(Array text, int64_t first_line, int64_t first_feature, int64_t end_feature,
                              int64_t n_labels, bool one_label, Array row_ends, Array indices, Array values,
                              Array label_ends, Array labels, int threads) {
  RowRules rules;
  rules.first_feature = first_feature;
  rules.end_feature = end_feature;
  rules.end_label = n_labels;
  rules.one_label = one_label;
  return parse<double>(parse_svmlight, text, first_line, rules, row_ends, indices, values, label_ends, labels, threads);
}

}  // namespace

void bind_reader(py::module_& core) {
  core.def("count_marks", bind_count_marks, "text"_a);
  core.def("parse_xmc", bind_parse_xmc, "text"_a, "first_line"_a, "last_line"_a, "n_features"_a, "n_labels"_a,
           "row_ends"_a, "indices"_a, "values"_a, "label_ends"_a, "labels"_a, "threads"_a);
  core.def("parse_svmlight", bind_parse_svmlight, "text"_a, "first_line"_a, "first_feature"_a, "end_feature"_a,
           "n_labels"_a, "one_label"_a, "row_ends"_a, "indices"_a, "values"_a, "label_ends"_a, "labels"_a, "threads"_a);
}

}  // namespace sparsenet
