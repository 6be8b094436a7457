// Bindings of the row parsers; what they mean is in reader.h.
#include "arrays.h"
#include "reader.h"

namespace sparsenet {
namespace {

using Array = const py::array&;

// The parsers look for the end of a line without counting: it must be there.
const char* checked_text(const Vector<const uint8_t>& text) {
  if (text.size() == 0 || text.data()[text.size() - 1] != '\n') text.fail("must end with a newline");
  return reinterpret_cast<const char*>(text.data());
}

py::tuple bind_count_marks(Array text) {
  Vector<const uint8_t> text_(text, "text");
  Marks marks;
  {
    Released released;
    marks = count_marks(reinterpret_cast<const char*>(text_.data()), text_.size());
  }
  return py::make_tuple(marks.lines, marks.colons, marks.commas);
}

template <typename Label>
RowArrays<Label> checked_arrays(const Marks& marks, Array row_ends, Array indices, Array values, Array label_ends,
                                Array labels) {
  const auto with_room = [](const auto& vector, int64_t n) {
    if (vector.size() < n) vector.fail("must have room for " + std::to_string(n) + " entries");
    return vector.data();
  };
  return {with_room(Vector<int64_t>(row_ends, "row_ends"), marks.lines),
          with_room(Vector<int32_t>(indices, "indices"), marks.colons),
          with_room(Vector<float>(values, "values"), marks.colons),
          with_room(Vector<int64_t>(label_ends, "label_ends"), marks.lines),
          with_room(Vector<Label>(labels, "labels"), marks.commas + marks.lines)};
}

template <typename Label>
using Parser = ParsedRows (*)(const char*, int64_t, int64_t, const RowRules&, const RowArrays<Label>&, int);

template <typename Label>
py::tuple parse(Parser<Label> parser, Array text, int64_t first_line, const RowRules& rules, Array row_ends,
                Array indices, Array values, Array label_ends, Array labels, int threads) {
  Vector<const uint8_t> text_(text, "text");
  const char* begin = checked_text(text_);
  checked_threads(threads);
  const Marks marks = count_marks(begin, text_.size());
  const auto out = checked_arrays<Label>(marks, row_ends, indices, values, label_ends, labels);
  ParsedRows done;
  {
    Released released;
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
  using namespace py::literals;
  core.def("count_marks", bind_count_marks, "text"_a);
  core.def("parse_xmc", bind_parse_xmc, "text"_a, "first_line"_a, "last_line"_a, "n_features"_a, "n_labels"_a,
           "row_ends"_a, "indices"_a, "values"_a, "label_ends"_a, "labels"_a, "threads"_a);
  core.def("parse_svmlight", bind_parse_svmlight, "text"_a, "first_line"_a, "first_feature"_a, "end_feature"_a,
           "n_labels"_a, "one_label"_a, "row_ends"_a, "indices"_a, "values"_a, "label_ends"_a, "labels"_a, "threads"_a);
}

}  // namespace sparsenet
