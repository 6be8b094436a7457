// Features of texts: Unicode case folding, word boundaries, n-grams of words and n-grams of characters inside words.
// They are hashed into a fixed number of slots, without a dictionary.
//
// All arithmetic is on integers, so features are bit-identical on every CPU, and equal to the features of the Numba
// kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace sparsenet {

// The properties of code points, in a two-stage table: entries[pages[c >> 7] * 128 + (c & 127)] is (folded - c) * 8 +
// class of code point c. tools/unicode_tables.py makes it.
struct UnicodeTable {
  const uint16_t* pages;
  const int32_t* entries;
};
constexpr int kPageBits = 7;
constexpr int64_t kPages = 0x110000 >> kPageBits;

struct TextRules {
  int word_ngrams;          // the maximum number of words in an n-gram
  int char_low, char_high;  // the lengths of n-grams of characters; none if char_high is 0
  int bits;                 // of a slot; the upper half of all slots is for n-grams of characters
};
constexpr int kMaxWords = 8;        // of an n-gram
constexpr int kMaxCharacters = 64;  // of a word; n-grams ignore the rest

// A word of up to `kPlainLength` ASCII letters and digits that occurred since features were last counted. Repeated
// words only increase counts and are not hashed again: in a long text half of the words are repeats.
struct PlainWord {
  uint64_t letters[2];  // case-folded, eight per number
  uint64_t hash;
  int32_t begin, end;  // range in the queue: the word itself and its n-grams of characters
  int32_t repeats;
  int32_t place;  // in word_places_
};
constexpr int kPlainLength = 15;
constexpr int kMaxCount = 255;  // higher counts are cut to this

// Ids of the slots whose bit is set in `used`: slot s has id ranks[s >> 6] + the number of bits below s in used[s >>
// 6].
struct Numbering {
  const uint64_t* used;
  const int32_t* ranks;
};

// Extracts the distinct features of a text and their counts, in order of first appearance, to arrays of the caller.
// Keep the object for the next text, so that short texts cost no allocation.
class TextFeatures {
 public:
  // With a numbering, features are the ids of their slots, and slots without an id are dropped.
  TextFeatures(UnicodeTable table, TextRules rules, Numbering numbering = {nullptr, nullptr});

  // Returns the number of features; `features` and `counts` must have room for `max_features(size)`.
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
  void count_queue();
  int64_t prepare_queue();
  void grow();

  UnicodeTable table_;
  TextRules rules_;
  Numbering numbering_;
  uint8_t ascii_[256];   // by byte: the case-folded ASCII letter or digit, else 0
  bool separates_[256];  // by byte: an ASCII separator
  bool ends_word_[256];  // by byte: an ASCII separator or symbol
  int32_t* features_ = nullptr;
  uint8_t* counts_ = nullptr;
  int64_t found_ = 0;
  // Slots that are numbered and counted later, many at a time, and the count of each.
  std::unique_ptr<int32_t[]> queue_;
  std::unique_ptr<uint8_t[]> queue_counts_;
  int64_t n_queue_ = 0;
  std::unique_ptr<PlainWord[]> words_;
  int64_t n_words_ = 0;
  std::vector<int16_t> word_places_;  // hash table of words_: 1 + position in words_, or 0
  // Hash table of features: 1 + position in features_ + before_. Entries up to before_ are from earlier texts and count
  // as empty, so that a new text need not clear the table.
  std::vector<uint32_t> places_ = std::vector<uint32_t>(4096, 0);
  uint32_t before_ = 0;
  uint64_t history_[kMaxWords] = {};  // hashes of the last 1, 2, ... words
  int64_t n_history_ = 0;
  bool empty_ = true;                   // no token yet
  uint64_t word_ = 0;                   // hash of the current word
  int64_t length_ = 0;                  // characters of the current word
  uint32_t pending_ = 0;                // an apostrophe that is part of the word if a letter follows; 0: none
  bool single_ = false;                 // the current word is one character of a script without spaces
  uint32_t codes_[kMaxCharacters + 2];  // the current word between its boundaries
};

// Returns an upper bound of the number of features of a text of `size` bytes.
int64_t max_features(int64_t size, TextRules rules);

// Extracts the features of texts text[offsets[i] : offsets[i + 1]]. Those of text i end before slots[ends[i]].
void text_features(const uint8_t* text, const int64_t* offsets, int64_t n, UnicodeTable table, TextRules rules,
                   int64_t* ends, int32_t* slots, uint8_t* counts, int threads);

}  // namespace sparsenet
