// Bindings of text/features.h, text/scorer.h and text/vocabulary.h.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "../text/features.h"
#include "../text/scorer.h"
#include "../text/vocabulary.h"
#include "arrays.h"

namespace sparsenet {
namespace {

UnicodeTable table_argument(Array pages, Array entries) {
  const Vector<const uint16_t> pages_(pages, "pages");
  const Vector<const int32_t> entries_(entries, "entries");
  pages_.require(0, kPages, "pages of Unicode");
  uint16_t last = 0;
  for (int64_t i = 0; i < kPages; ++i) last = std::max(last, pages_.data()[i]);
  if (entries_.size() < (int64_t{last} + 1) << kPageBits) entries_.fail("is too short for its pages");
  return {pages_.data(), entries_.data()};
}

TextRules rules_argument(int word_ngrams, int char_low, int char_high, int bits) {
  require_between("word_ngrams", word_ngrams, 1, kMaxWords);
  require_between("char_low", char_low, 1, kMaxCharacters);
  if (char_high != 0) require_between("char_high", char_high, char_low, kMaxCharacters);
  require_between("bits", bits, 2, 30);
  return {word_ngrams, char_low, char_high, bits};
}

// Joins texts as UTF-8. Most texts are ASCII and are copied directly from Python's own buffer.
py::tuple join_texts(const py::list& texts) {
  const int64_t n = static_cast<int64_t>(texts.size());
  py::array_t<int64_t> offsets(n + 1);
  int64_t* ends = offsets.mutable_data();
  std::vector<const char*> begins(n);
  std::vector<py::object> encoded;
  ends[0] = 0;
  for (int64_t i = 0; i < n; ++i) {
    PyObject* text = PyList_GET_ITEM(texts.ptr(), i);
    if (!PyUnicode_Check(text))
      throw py::type_error("texts must hold str, got " + std::string(py::str(py::type::handle_of(text))));
    if (PyUnicode_IS_COMPACT_ASCII(text)) {
      begins[i] = static_cast<const char*>(PyUnicode_DATA(text));
      ends[i + 1] = ends[i] + PyUnicode_GET_LENGTH(text);
      continue;
    }
    PyObject* utf8 = PyUnicode_AsEncodedString(text, "utf-8", "replace");
    if (utf8 == nullptr) throw py::error_already_set();
    encoded.push_back(py::reinterpret_steal<py::object>(utf8));
    begins[i] = PyBytes_AS_STRING(utf8);
    ends[i + 1] = ends[i] + PyBytes_GET_SIZE(utf8);
  }
  py::array_t<uint8_t> joined(ends[n]);
  for (int64_t i = 0; i < n; ++i) std::memcpy(joined.mutable_data() + ends[i], begins[i], ends[i + 1] - ends[i]);
  return py::make_tuple(joined, offsets);
}

// Requires that the offsets of texts ascend and lie within `size` bytes.
void require_offsets(const Vector<const int64_t>& offsets, int64_t size) {
  if (offsets.data()[0] < 0) offsets.fail("must not be negative");
  for (int64_t i = 1; i < offsets.size(); ++i)
    if (offsets.data()[i] < offsets.data()[i - 1]) offsets.fail("must not fall");
  if (offsets.data()[offsets.size() - 1] > size) offsets.fail("must not exceed the size of text");
}

void bind_text_features(Array text, Array offsets, Array pages, Array entries, int word_ngrams, int char_low,
                        int char_high, int bits, Array ends, Array slots, Array counts, int threads) {
  const Vector<const uint8_t> text_(text, "text");
  const Vector<const int64_t> offsets_(offsets, "offsets");
  const Vector<int64_t> ends_(ends, "ends");
  const Vector<int32_t> slots_(slots, "slots");
  const Vector<uint8_t> counts_(counts, "counts");
  const TextRules rules = rules_argument(word_ngrams, char_low, char_high, bits);
  const UnicodeTable table = table_argument(pages, entries);
  if (offsets_.size() < 1) offsets_.fail("must not be empty");
  ends_.require(0, offsets_.size() - 1, "texts");
  counts_.require(0, slots_.size(), "size of slots");
  require_offsets(offsets_, text_.size());
  const int64_t* o = offsets_.data();
  int64_t room = 0;
  for (int64_t i = 0; i < ends_.size(); ++i) room += max_features(o[i + 1] - o[i], rules);
  slots_.require_room(room);
  require_threads(threads);
  GilRelease release;
  text_features(text_.data(), o, ends_.size(), table, rules, ends_.data(), slots_.data(), counts_.data(), threads);
}

int64_t bind_text_room(Array offsets, int word_ngrams, int char_low, int char_high, int bits) {
  const Vector<const int64_t> offsets_(offsets, "offsets");
  const TextRules rules = rules_argument(word_ngrams, char_low, char_high, bits);
  int64_t room = 0;
  for (int64_t i = 1; i < offsets_.size(); ++i)
    room += max_features(offsets_.data()[i] - offsets_.data()[i - 1], rules);
  return room;
}

// Checks that `ranks` counts the bits of `used`; returns the number of features.
int64_t require_numbering(const Vector<const uint64_t>& used, const Vector<const int32_t>& ranks, int64_t words) {
  used.require(0, words, "slots / 64");
  ranks.require(0, words, "size of used");
  int64_t found = 0;
  for (int64_t i = 0; i < words; ++i) {
    if (ranks.data()[i] != found) ranks.fail("must count the bits of used");
    found += __builtin_popcountll(used.data()[i]);
  }
  return found;
}

Vocabulary vocabulary_argument(TextRules rules, Array used, Array ranks, Array weights, Array log_counts) {
  const Vector<const uint64_t> used_(used, "used");
  const Vector<const int32_t> ranks_(ranks, "ranks");
  const Vector<const float> weights_(weights, "weights"), log_counts_(log_counts, "log_counts");
  log_counts_.require(0, kCounts, "number of different counts");
  weights_.require(0, require_numbering(used_, ranks_, ((int64_t{1} << rules.bits) + 63) / 64), "bits of used");
  return {{used_.data(), ranks_.data()}, weights_.data(), log_counts_.data()};
}

// Requires that the ends of texts ascend and do not exceed the number of slots.
void require_ends(const Vector<const int64_t>& ends, int64_t n_slots) {
  int64_t last = 0;
  for (int64_t i = 0; i < ends.size(); ++i) {
    if (ends.data()[i] < last) ends.fail("must not fall");
    last = ends.data()[i];
  }
  if (last > n_slots) ends.fail("must not exceed the size of slots");
}

void require_below(const Vector<const int32_t>& numbers, int64_t end, const char* what) {
  bool inside = true;
  for (int64_t i = 0; i < numbers.size(); ++i) inside &= numbers.data()[i] >= 0 && numbers.data()[i] < end;
  if (!inside) numbers.fail(std::string("must be below the ") + what);
}

void bind_count_slots(Array slots, Array texts) {
  const Vector<const int32_t> slots_(slots, "slots");
  const Vector<int32_t> texts_(texts, "texts");
  require_below(slots_, texts_.size(), "size of texts");
  GilRelease release;
  count_slots(slots_.data(), slots_.size(), texts_.data());
}

void bind_count_labels(Array ends, Array slots, Array counts, Array labels, Array used, Array ranks, int first,
                       Array out) {
  const Vector<const int64_t> ends_(ends, "ends");
  const Vector<const int32_t> slots_(slots, "slots"), labels_(labels, "labels"), ranks_(ranks, "ranks");
  const Vector<const uint8_t> counts_(counts, "counts");
  const Vector<const uint64_t> used_(used, "used");
  const Matrix<int32_t> out_(out, "out");
  counts_.require(0, slots_.size(), "size of slots");
  labels_.require(0, ends_.size(), "size of ends");
  require_numbering(used_, ranks_, used_.size());
  require_ends(ends_, slots_.size());
  require_below(slots_, used_.size() << 6, "number of slots");
  require_below(labels_, out_.cols(), "columns of out");
  GilRelease release;
  count_labels({used_.data(), ranks_.data()}, ends_.data(), ends_.size(), slots_.data(), counts_.data(), labels_.data(),
               first, out_.rows(), out_.cols(), out_.data());
}

void bind_text_points(Array ends, Array slots, Array counts, int char_high, int bits, Array used, Array ranks,
                      Array weights, Array log_counts, Array out_ends, Array rows, Array values, int threads) {
  const Vector<const int64_t> ends_(ends, "ends");
  const Vector<const int32_t> slots_(slots, "slots");
  const Vector<const uint8_t> counts_(counts, "counts");
  const Vector<int64_t> out_ends_(out_ends, "out_ends");
  const Vector<int32_t> rows_(rows, "rows");
  const Vector<float> values_(values, "values");
  const TextRules rules = rules_argument(1, 1, char_high, bits);
  const Vocabulary vocabulary = vocabulary_argument(rules, used, ranks, weights, log_counts);
  counts_.require(0, slots_.size(), "size of slots");
  rows_.require(0, slots_.size(), "size of slots");
  values_.require(0, slots_.size(), "size of slots");
  out_ends_.require(0, ends_.size(), "size of ends");
  require_ends(ends_, slots_.size());
  require_threads(threads);
  GilRelease release;
  text_points(vocabulary, rules, ends_.data(), ends_.size(), slots_.data(), counts_.data(), out_ends_.data(),
              rows_.data(), values_.data(), threads);
}

// Holds references to the arrays of a model and checks them once, because checking them again would take longer than
// scoring a short text. The caller must not change them.
class TextScorer {
 public:
  TextScorer(Array pages, Array entries, int word_ngrams, int char_low, int char_high, int bits, Array used,
             Array ranks, Array weights, Array log_counts, Array matrix, Array factors, Array bias,
             const py::object& indptr, const py::object& columns)
      : arrays_(
            py::make_tuple(pages, entries, used, ranks, weights, log_counts, matrix, factors, bias, indptr, columns)),
        rules_(rules_argument(word_ngrams, char_low, char_high, bits)),
        table_(table_argument(pages, entries)),
        vocabulary_(vocabulary_argument(rules_, used, ranks, weights, log_counts)) {
    const Vector<const float> factors_(factors, "factors"), bias_(bias, "bias");
    factors_.require(0, weights.shape(0), "size of weights");
    if (indptr.is_none()) {
      const Matrix<const int8_t> matrix_(matrix, "matrix");
      matrix_.require(0, weights.shape(0), "size of weights").require(1, bias_.size(), "size of bias");
      model_ = {matrix_.data(), nullptr, nullptr, factors_.data(), bias_.data(), bias_.size()};
      return;
    }
    const py::array indptr_array = indptr.cast<py::array>(), columns_array = columns.cast<py::array>();
    const Vector<const int8_t> matrix_(matrix, "matrix");
    const Vector<const int64_t> indptr_(indptr_array, "indptr");
    const Vector<const int32_t> columns_(columns_array, "columns");
    indptr_.require(0, weights.shape(0) + 1, "size of weights, and 1");
    columns_.require(0, matrix_.size(), "size of matrix");
    const int64_t* p = indptr_.data();
    if (p[0] != 0 || p[weights.shape(0)] != matrix_.size()) indptr_.fail("must go from 0 to the size of matrix");
    for (int64_t i = 0; i < weights.shape(0); ++i)
      if (p[i + 1] < p[i]) indptr_.fail("must not fall");
    for (int64_t k = 0; k < columns_.size(); ++k)
      if (columns_.data()[k] < 0 || columns_.data()[k] >= bias_.size()) columns_.fail("must be below the size of bias");
    model_ = {matrix_.data(), p, columns_.data(), factors_.data(), bias_.data(), bias_.size()};
    full_ = FullRows(model_, weights.shape(0));
  }

  void scores(Array text, Array offsets, Array out, int threads) const {
    const Vector<const uint8_t> text_(text, "text");
    const Vector<const int64_t> offsets_(offsets, "offsets");
    const Matrix<float> out_(out, "out");
    out_.require(1, model_.n_columns, "columns of the model");
    offsets_.require(0, out_.rows() + 1, "rows of out, and 1");
    require_offsets(offsets_, text_.size());
    require_threads(threads);
    GilRelease release;
    text_scores(table_, rules_, vocabulary_, model_, full_, text_.data(), offsets_.data(), out_.rows(), out_.data(),
                threads);
  }

  py::tuple best(const py::str& text) const {
    Py_ssize_t size = 0;
    const char* utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (utf8 == nullptr) throw py::error_already_set();
    const int64_t offsets[2] = {0, size};
    static thread_local std::vector<float> scores;
    scores.resize(model_.n_columns);
    text_scores(table_, rules_, vocabulary_, model_, full_, reinterpret_cast<const uint8_t*>(utf8), offsets, 1,
                scores.data(), 1);
    if (model_.n_columns == 1) return py::make_tuple(scores[0] > 0 ? 1 : 0, std::abs(scores[0]));
    const auto best = std::max_element(scores.begin(), scores.end());
    return py::make_tuple(best - scores.begin(), *best);
  }

 private:
  py::tuple arrays_;  // keeps the arrays alive
  TextRules rules_;
  UnicodeTable table_;
  Vocabulary vocabulary_;
  LinearModel model_;
  FullRows full_;
};

}  // namespace

void bind_text(py::module_& core) {
  core.def("join_texts", join_texts, "texts"_a);
  core.def("text_room", bind_text_room, "offsets"_a, "word_ngrams"_a, "char_low"_a, "char_high"_a, "bits"_a);
  core.def("text_features", bind_text_features, "text"_a, "offsets"_a, "pages"_a, "entries"_a, "word_ngrams"_a,
           "char_low"_a, "char_high"_a, "bits"_a, "ends"_a, "slots"_a, "counts"_a, "threads"_a);
  core.def("count_slots", bind_count_slots, "slots"_a, "texts"_a);
  core.def("count_labels", bind_count_labels, "ends"_a, "slots"_a, "counts"_a, "labels"_a, "used"_a, "ranks"_a,
           "first"_a, "out"_a);
  core.def("text_points", bind_text_points, "ends"_a, "slots"_a, "counts"_a, "char_high"_a, "bits"_a, "used"_a,
           "ranks"_a, "weights"_a, "log_counts"_a, "out_ends"_a, "rows"_a, "values"_a, "threads"_a);
  py::class_<TextScorer>(core, "TextScorer")
      .def(py::init<Array, Array, int, int, int, int, Array, Array, Array, Array, Array, Array, Array,
                    const py::object&, const py::object&>(),
           "pages"_a, "entries"_a, "word_ngrams"_a, "char_low"_a, "char_high"_a, "bits"_a, "used"_a, "ranks"_a,
           "weights"_a, "log_counts"_a, "matrix"_a, "factors"_a, "bias"_a, "indptr"_a = py::none(),
           "columns"_a = py::none())
      .def("scores", &TextScorer::scores, "text"_a, "offsets"_a, "out"_a, "threads"_a)
      .def("best", &TextScorer::best, "text"_a);
}

}  // namespace sparsenet
