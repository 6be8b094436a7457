// Texts to features: Unicode case folding and word boundaries, n-grams of words, n-grams of characters inside words,
// hashed into a fixed number of slots without a dictionary.
//
// Integers only: features are bit-identical on every CPU, and equal to those of the twin in kernels/numba/numba_text.py.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace sparsenet {

// What there is to know of each code point, in two stages: entries[pages[c >> 7] * 128 + (c & 127)] is
// (folded - c) * 8 + its class. Made by tools/unicode_tables.py.
struct UnicodeTable {
  const uint16_t* pages;
  const int32_t* entries;
};
constexpr int kPageBits = 7;
constexpr int64_t kPages = 0x110000 >> kPageBits;

struct TextRules {
  int word_ngrams;          // n-grams of 1 to so many words
  int char_low, char_high;  // lengths of the n-grams of characters; none where char_high is 0
  int bits;                 // of a slot; the upper half of all slots is for characters
};
constexpr int kMostWords = 8;     // of an n-gram
constexpr int kLongestWord = 64;  // characters of a word whose n-grams are taken

// A word of ASCII letters and digits, at most `kPlainLength` of them, since features were last counted. Where it occurs
// again its features count once more, and are not made again: of a long text half of the words are repeats.
struct PlainWord {
  uint64_t letters[2];  // folded, eight to a number
  uint64_t hash;
  int32_t begin, end;  // of those that wait: the word itself and its n-grams of characters
  int32_t repeats;
  int32_t place;  // in the table
};
constexpr int kPlainLength = 15;
constexpr int kMostCounted = 255;  // more occurrences count as so many

// Slots that have a number, those whose bit is set in `used`: s has ranks[s >> 6] + (bits below s in used[s >> 6]).
struct Numbering {
  const uint64_t* used;
  const int32_t* ranks;
};

// The distinct features of one text and how often each occurs, up to 255 times, in order of first appearance, written
// to room that the caller has. Kept for the next text, so that short ones cost no allocation.
class TextFeatures {
 public:
  // With a numbering, features are the numbers of their slots, and those without one are left out.
  TextFeatures(UnicodeTable table, TextRules rules, Numbering numbering = {nullptr, nullptr});

  // Returns how many features there are; `features` and `counts` have room for `most_features(size)`.
  int64_t extract(const uint8_t* text, int64_t size, int32_t* features, uint8_t* counts);

 private:
  const uint8_t* read_between_words(const uint8_t* at, const uint8_t* end);
  const uint8_t* read_plain_word(const uint8_t* at, const uint8_t* end);
  const uint8_t* read_ascii_word(const uint8_t* at, const uint8_t* end);
  void add_plain_word(uint64_t low, uint64_t high, int64_t length);
  void read(uint32_t code);
  void append(uint32_t code);
  void add_symbol(uint32_t code);
  void end_word();
  void add_token(uint64_t hash, bool alone);
  void add_characters(int64_t length);
  void add(uint64_t hash);
  void count_waiting();
  int64_t weigh_waiting();
  void grow();

  UnicodeTable table_;
  TextRules rules_;
  Numbering numbering_;
  uint8_t ascii_[256];  // folded, of those bytes that are a letter or digit by themselves; of others 0
  bool separates_[256], ends_word_[256];  // whether a byte is a separator by itself; a separator or a symbol
  int32_t* features_ = nullptr;
  uint8_t* counts_ = nullptr;
  int64_t found_ = 0;
  // Slots that are still to be numbered and counted, many at a time, and how often each occurs.
  std::unique_ptr<int32_t[]> waiting_;
  std::unique_ptr<uint8_t[]> times_;
  int64_t n_waiting_ = 0;
  std::unique_ptr<PlainWord[]> words_;
  int64_t n_words_ = 0;
  std::vector<int16_t> word_places_;  // by hash of the letters: 1 + the number of the word, or 0
  // By hash of a feature: 1 + its position + `before_`. What is no more than that is of earlier texts, and counts as
  // empty, so that a new text need not clear it.
  std::vector<uint32_t> places_ = std::vector<uint32_t>(4096, 0);
  uint32_t before_ = 0;
  uint64_t history_[kMostWords] = {};  // hashes of the last n-grams, of 1, 2, ... words
  int64_t n_history_ = 0;
  bool empty_ = true;  // no token so far
  uint64_t word_ = 0;  // hash of the word that is being read
  int64_t length_ = 0;
  uint32_t pending_ = 0;              // an apostrophe that may turn out to be inside a word; 0: none
  bool single_ = false;               // the word is a character of a script that has no spaces
  uint32_t codes_[kLongestWord + 2];  // of that word, between its boundaries
};

// Of a text of so many bytes, the most features that there can be.
int64_t most_features(int64_t size, TextRules rules);

// Texts text[offsets[i] : offsets[i + 1]] to rows: ends[i] features up to the end of row i, entries one after another.
void text_features(const uint8_t* text, const int64_t* offsets, int64_t n, UnicodeTable table, TextRules rules,
                   int64_t* ends, int32_t* slots, uint8_t* counts, int threads);

}  // namespace sparsenet
