// Bindings of the text kernels; what they mean is in text.h.
#include <algorithm>

#include "arrays.h"
#include "text.h"

namespace sparsenet {
namespace {

using Array = const py::array&;

UnicodeTable checked_table(Array pages, Array entries) {
  Vector<const uint16_t> pages_(pages, "pages");
  Vector<const int32_t> entries_(entries, "entries");
  pages_.require(0, kPages, "pages of Unicode");
  uint16_t last = 0;
  for (int64_t i = 0; i < kPages; ++i) last = std::max(last, pages_.data()[i]);
  if (entries_.size() < (int64_t{last} + 1) << kPageBits) entries_.fail("is too short for its pages");
  return {pages_.data(), entries_.data()};
}

void require_between(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    throw py::value_error(std::string(name) + " must be from " + std::to_string(low) + " to " + std::to_string(high) +
                          ", got " + std::to_string(value));
}

TextRules checked_rules(int word_ngrams, int char_low, int char_high, int bits) {
  require_between("word_ngrams", word_ngrams, 1, kMostWords);
  require_between("char_low", char_low, 1, kLongestWord);
  if (char_high != 0) require_between("char_high", char_high, char_low, kLongestWord);
  require_between("bits", bits, 2, 30);
  return {word_ngrams, char_low, char_high, bits};
}

void bind_text_features(Array text, Array offsets, Array pages, Array entries, int word_ngrams, int char_low,
                        int char_high, int bits, Array ends, Array slots, Array counts, int threads) {
  Vector<const uint8_t> text_(text, "text");
  Vector<const int64_t> offsets_(offsets, "offsets");
  Vector<int64_t> ends_(ends, "ends");
  Vector<int32_t> slots_(slots, "slots"), counts_(counts, "counts");
  const TextRules rules = checked_rules(word_ngrams, char_low, char_high, bits);
  const UnicodeTable table = checked_table(pages, entries);
  if (offsets_.size() < 1) offsets_.fail("must have at least one entry");
  ends_.require(0, offsets_.size() - 1, "texts");
  counts_.require(0, slots_.size(), "size of slots");
  const int64_t* o = offsets_.data();
  int64_t room = 0;
  if (o[0] < 0) offsets_.fail("must not be negative");
  for (int64_t i = 0; i < ends_.size(); ++i) {
    if (o[i + 1] < o[i]) offsets_.fail("must not fall");
    room += most_features(o[i + 1] - o[i], rules);
  }
  if (o[ends_.size()] > text_.size()) offsets_.fail("must not exceed the size of text");
  if (slots_.size() < room) slots_.fail("must have room for " + std::to_string(room) + " features");
  checked_threads(threads);
  Released released;
  text_features(text_.data(), o, ends_.size(), table, rules, ends_.data(), slots_.data(), counts_.data(), threads);
}

int64_t bind_most_features(Array offsets, int word_ngrams, int char_low, int char_high, int bits) {
  Vector<const int64_t> offsets_(offsets, "offsets");
  const TextRules rules = checked_rules(word_ngrams, char_low, char_high, bits);
  int64_t room = 0;
  for (int64_t i = 1; i < offsets_.size(); ++i)
    room += most_features(offsets_.data()[i] - offsets_.data()[i - 1], rules);
  return room;
}

}  // namespace

void bind_text(py::module_& core) {
  using namespace py::literals;
  core.def("text_room", bind_most_features, "offsets"_a, "word_ngrams"_a, "char_low"_a, "char_high"_a, "bits"_a);
  core.def("text_features", bind_text_features, "text"_a, "offsets"_a, "pages"_a, "entries"_a, "word_ngrams"_a,
           "char_low"_a, "char_high"_a, "bits"_a, "ends"_a, "slots"_a, "counts"_a, "threads"_a);
}

}  // namespace sparsenet
