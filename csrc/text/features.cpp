#include "features.h"

#include <algorithm>
#include <cstring>

#include "../core/close_gaps.h"
#include "../core/threads.h"
#include "../kernels/kernel_table.h"

namespace sparsenet {
namespace {

enum Class { kSeparator, kWord, kMark, kSymbol, kSingle, kIgnored, kInner };

constexpr uint32_t kReplacement = 0xFFFD;
constexpr uint64_t kStart = 0x243F6A8885A308D3u;  // digits of pi
constexpr uint64_t kTextStart = 0x13198A2E03707344u;
constexpr uint64_t kTextEnd = 0xA4093822299F31D0u;
constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u, kMixer = 0xD6E8FEB86659FD93u;

uint64_t chain(uint64_t hash, uint64_t next) { return (hash ^ next) * kMultiplier; }

uint64_t finalize(uint64_t hash) {
  hash = (hash ^ (hash >> 32)) * kMixer;
  return hash ^ (hash >> 32);
}

// Returns the upper `bits` of finalize(hash), at most 32. Its last step leaves these bits unchanged.
int32_t upper_bits(uint64_t hash, int bits) {
  return static_cast<int32_t>((hash ^ (hash >> 32)) * kMixer >> (64 - bits));
}

// Reads one code point and advances `at`. Each maximal invalid piece of UTF-8 becomes one U+FFFD, as the Unicode
// standard recommends and Python does.
uint32_t read_code(const uint8_t*& at, const uint8_t* end) {
  const uint32_t lead = *at++;
  if (lead < 0x80) return lead;
  if (lead < 0xC2 || lead > 0xF4) return kReplacement;
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  uint32_t code = lead & (0x3F >> more);
  uint32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint32_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (int i = 0; i < more; ++i, low = 0x80, high = 0xBF) {
    if (at == end || *at < low || *at > high) return kReplacement;
    code = code << 6 | (*at++ & 0x3F);
  }
  return code;
}

uint64_t hash_feature(int32_t feature) { return static_cast<uint32_t>(feature) * kMultiplier >> 32; }

constexpr uint32_t kPageSize = 1 << kPageBits;
constexpr int kClassBits = 3;
constexpr int32_t kClassMask = (1 << kClassBits) - 1;
constexpr uint32_t kWordStart = 0x110000, kWordEnd = 0x110001;  // not code points
constexpr int64_t kTextsPerTask = 32;
constexpr int64_t kQueue = 4096;           // slots looked up together, so that their cache misses overlap
constexpr int64_t kPlacesPerFeature = 4;   // of the hash table, so that collisions are rare
constexpr uint32_t kMaxBefore = 1u << 31;  // leaves room in 32 bits for the features of one more text
constexpr int kPlaceBits = 11;
constexpr int64_t kPlainWords = 512;  // a quarter of the places, so that collisions are rare

// Returns the maximum number of features of one token: n-grams that end with it and n-grams of its characters.
int64_t max_per_token(TextRules rules) {
  return kMaxWords + (kMaxCharacters + 2) * int64_t{rules.char_high > 0 ? rules.char_high - rules.char_low + 1 : 0};
}

// The bytes of a 64-bit number are eight consecutive characters, the first one in the lowest byte.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "texts are read eight bytes at a time");
constexpr uint64_t kEveryByte = 0x0101010101010101u, kTopBits = kEveryByte * 0x80;

// Sets the top bit of each byte from `low` to `high`; all eight bytes must be below 0x80.
constexpr uint64_t within(uint64_t bytes, uint64_t low, uint64_t high) {
  return (bytes + kEveryByte * (0x80 - low)) & ~(bytes + kEveryByte * (0x7F - high)) & kTopBits;
}

// Loads eight bytes; those after the end are 0, which no word contains.
uint64_t eight_bytes(const uint8_t* at, const uint8_t* end) {
  uint64_t bytes = 0;
  if (end - at >= 8)
    std::memcpy(&bytes, at, 8);
  else
    std::memcpy(&bytes, at, end - at);
  return bytes;
}

struct EightLetters {
  uint64_t folded;
  int length;  // the number of leading letters and digits
};

EightLetters letters_of(uint64_t bytes) {
  const uint64_t seven_bits = bytes & ~kTopBits;
  const uint64_t letters = within(seven_bits | kEveryByte * 0x20, 'a', 'z') & ~bytes;
  const uint64_t others = ~(letters | (within(seven_bits, '0', '9') & ~bytes)) & kTopBits;
  const int length = others == 0 ? 8 : __builtin_ctzll(others) / 8;
  const uint64_t kept = length == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * length) - 1;
  return {(bytes | letters >> 2) & kept, length};
}

// Appends the slots of the n-grams of `low` to `high` codes. Omits the n-gram of all codes, because the whole word is a
// feature already. Inlined with constant lengths, the inner loop is unrolled.
inline int32_t* character_ngrams(const uint32_t* codes, int64_t n, int low, int high, int bits, int32_t* next) {
  const auto add_all = [&](int64_t begin, int64_t longest) {
    uint64_t hash = kTextStart;
    for (int64_t k = 0; k < low - 1; ++k) hash = chain(hash, codes[begin + k]);
    for (int64_t k = low - 1; k < longest; ++k) {
      hash = chain(hash, codes[begin + k]);
      *next++ = upper_bits(hash, bits) | 1 << bits;
    }
  };
  int64_t begin = 0;
  if (n <= high) add_all(begin++, n - 1);
  for (; begin + high <= n; ++begin) add_all(begin, high);
  for (; begin + low <= n; ++begin) add_all(begin, n - begin);
  return next;
}

int32_t entry_of(const UnicodeTable& table, uint32_t code) {
  return table.entries[(table.pages[code >> kPageBits] << kPageBits) + (code & (kPageSize - 1))];
}

}  // namespace

int64_t max_features(int64_t size, TextRules rules) {
  // A word of c characters has c + 2 <= 3 c with its boundaries, and an n-gram of each length may begin at each of
  // them.
  const int64_t lengths = rules.char_high > 0 ? rules.char_high - rules.char_low + 1 : 0;
  const int64_t bound = size * (rules.word_ngrams + 3 * lengths) + int64_t{2} * kMaxWords;
  return std::min(bound, int64_t{1} << rules.bits);
}

TextFeatures::TextFeatures(UnicodeTable table, TextRules rules, Numbering numbering)
    : table_(table),
      rules_(rules),
      numbering_(numbering),
      queue_(new int32_t[kQueue + max_per_token(rules)]),
      queue_counts_(new uint8_t[kQueue + max_per_token(rules)]),
      words_(new PlainWord[kPlainWords]),
      word_places_(int64_t{1} << kPlaceBits, 0) {
  for (uint32_t code = 0; code < 256; ++code) {
    const int32_t entry = code < 128 ? entry_of(table, code) : kSeparator;
    ascii_[code] = (entry & kClassMask) == kWord ? static_cast<uint8_t>(code + (entry >> kClassBits)) : 0;
    separates_[code] = code < 128 && (entry & kClassMask) == kSeparator;
    ends_word_[code] = code < 128 && ((entry & kClassMask) == kSeparator || (entry & kClassMask) == kSymbol);
  }
}

int64_t TextFeatures::extract(const uint8_t* text, int64_t size, int32_t* features, uint8_t* counts) {
  features_ = features;
  counts_ = counts;
  found_ = length_ = n_history_ = 0;
  if (before_ > kMaxBefore) {
    std::fill(places_.begin(), places_.end(), 0);
    before_ = 0;
  }
  pending_ = 0;
  empty_ = true;
  word_ = kStart;
  if (rules_.word_ngrams > 1) history_[n_history_++] = kTextStart;
  const uint8_t* end = text + size;
  for (const uint8_t* at = text; at < end;) {
    if (length_ == 0)
      at = read_between_words(at, end);
    else if (ascii_[*at] != 0 && pending_ == 0 && !single_)
      at = read_ascii_word(at, end);
    else
      read(read_code(at, end));
  }
  end_word();
  if (!empty_) add_token(kTextEnd, false);
  count_queue();
  before_ += static_cast<uint32_t>(found_);
  return found_;
}

// Equivalent to `read` and `read_ascii_word`, but reads a word at a time. Handles most of most texts.
const uint8_t* TextFeatures::read_between_words(const uint8_t* at, const uint8_t* end) {
  if (separates_[*at]) return at + 1;
  if (ascii_[*at] != 0) {
    const uint8_t* after = read_plain_word(at, end);
    return after != at ? after : read_ascii_word(at, end);
  }
  read(read_code(at, end));
  return at;
}

// Returns `at` unchanged if the word is too long or continues with anything but an ASCII letter or digit.
const uint8_t* TextFeatures::read_plain_word(const uint8_t* at, const uint8_t* end) {
  const EightLetters low = letters_of(eight_bytes(at, end));
  EightLetters high = {0, 0};
  if (low.length == 8) high = letters_of(eight_bytes(at + 8, end));
  const int length = low.length + high.length;
  const uint8_t* after = at + length;
  if (length > kPlainLength || (after < end && !ends_word_[*after])) return at;
  add_plain_word(low.folded, high.folded, length);
  return after + (after < end && separates_[*after]);
}

void TextFeatures::add_plain_word(uint64_t low, uint64_t high, int64_t length) {
  if (n_queue_ > kQueue || n_words_ == kPlainWords) count_queue();
  constexpr uint64_t mask = (uint64_t{1} << kPlaceBits) - 1;
  uint64_t place = (low ^ high * kMixer) * kMultiplier >> (64 - kPlaceBits);
  for (; word_places_[place] != 0; place = (place + 1) & mask) {
    PlainWord& word = words_[word_places_[place] - 1];
    if (word.letters[0] != low || word.letters[1] != high) continue;
    word.repeats += word.repeats < kMaxCount ? 1 : 0;
    add_token(word.hash, false);
    return;
  }
  uint8_t letters[16];
  std::memcpy(letters, &low, 8);
  std::memcpy(letters + 8, &high, 8);
  for (int64_t i = 0; i < kPlainLength; ++i) codes_[1 + i] = letters[i];
  uint64_t hash = kStart;
  for (int64_t i = 0; i < length; ++i) hash = chain(hash, letters[i]);
  PlainWord& word = words_[n_words_];
  word_places_[place] = static_cast<int16_t>(++n_words_);
  word = {{low, high}, finalize(hash), 0, 0, 0, static_cast<int32_t>(place)};
  add_token(word.hash, false);
  word.begin = static_cast<int32_t>(n_queue_);
  add(history_[0]);
  if (rules_.char_high > 0) add_characters(length);
  word.end = static_cast<int32_t>(n_queue_);
}

// Equivalent to `read` for each letter, without its branches.
const uint8_t* TextFeatures::read_ascii_word(const uint8_t* at, const uint8_t* end) {
  uint64_t word = word_;
  int64_t length = length_;
  for (; at < end && ascii_[*at] != 0; ++at, ++length) {
    word = chain(word, ascii_[*at]);
    if (length < kMaxCharacters) codes_[1 + length] = ascii_[*at];
  }
  word_ = word;
  length_ = length;
  return at;
}

void TextFeatures::read(uint32_t code) {
  const int32_t entry = entry_of(table_, code);
  const uint32_t folded = code + (entry >> kClassBits);
  const int kind = entry & kClassMask;
  if (kind == kWord || kind == kMark) {
    if (single_ && kind == kWord) end_word();
    if (pending_ != 0) append(pending_);
    pending_ = 0;
    append(folded);
  } else if (kind == kInner && length_ > 0 && pending_ == 0 && !single_) {
    pending_ = folded;
  } else if (kind != kIgnored) {
    end_word();
    if (kind == kSymbol || kind == kInner) add_symbol(folded);
    if (kind == kSingle) {
      append(folded);
      single_ = true;
    }
  }
}

void TextFeatures::append(uint32_t code) {
  word_ = chain(word_, code);
  if (length_ < kMaxCharacters) codes_[1 + length_] = code;
  ++length_;
}

void TextFeatures::end_word() {
  if (length_ > 0) {
    add_token(finalize(word_), true);
    if (rules_.char_high > 0) add_characters(length_);  // fits: add_token left room for it
    word_ = kStart;
    length_ = 0;
    single_ = false;
  }
  if (pending_ != 0) add_symbol(pending_);
  pending_ = 0;
}

void TextFeatures::add_symbol(uint32_t code) { add_token(finalize(chain(kStart, code)), true); }

// Queues the n-grams that end with this word, and the word itself if `alone`. Leaves room for its characters.
void TextFeatures::add_token(uint64_t word, bool alone) {
  if (n_queue_ > kQueue) count_queue();
  n_history_ = std::min<int64_t>(n_history_ + 1, rules_.word_ngrams);
  for (int64_t k = n_history_ - 1; k > 0; --k) {
    history_[k] = chain(history_[k - 1], word);
    add(history_[k]);
  }
  history_[0] = chain(kStart, word);
  empty_ = false;
  if (alone) add(history_[0]);
}

void TextFeatures::add(uint64_t hash) { queue_[n_queue_++] = upper_bits(hash, rules_.bits - 1); }

void TextFeatures::add_characters(int64_t length) {
  const int64_t n = std::min<int64_t>(length, kMaxCharacters) + 2;
  codes_[0] = kWordStart;
  codes_[n - 1] = kWordEnd;
  int32_t* next = queue_.get() + n_queue_;
  const TextRules r = rules_;
  if (r.char_low == 3 && r.char_high == 5)
    next = character_ngrams(codes_, n, 3, 5, r.bits - 1, next);
  else if (r.char_low == 4 && r.char_high == 4)
    next = character_ngrams(codes_, n, 4, 4, r.bits - 1, next);
  else
    next = character_ngrams(codes_, n, r.char_low, r.char_high, r.bits - 1, next);
  n_queue_ = next - queue_.get();
}

// Sets the counts of queued slots, clears words_, and drops slots without an id. Returns the number of slots left.
int64_t TextFeatures::prepare_queue() {
  std::fill_n(queue_counts_.get(), n_queue_, uint8_t{1});
  for (int64_t i = 0; i < n_words_; ++i) {
    const PlainWord& word = words_[i];
    word_places_[word.place] = 0;
    if (word.repeats > 0)
      std::fill(&queue_counts_[word.begin], &queue_counts_[word.end],
                static_cast<uint8_t>(std::min(word.repeats + 1, kMaxCount)));
  }
  n_words_ = 0;
  if (numbering_.used == nullptr) return n_queue_;
  return kernels().number_features(numbering_.used, numbering_.ranks, queue_.get(), queue_counts_.get(), n_queue_,
                                   queue_.get(), queue_counts_.get());
}

void TextFeatures::count_queue() {
  const int64_t n = prepare_queue();
  const int32_t* queue = queue_.get();
  const uint8_t* queue_counts = queue_counts_.get();
  // Local copies, which the compiler need not reload after each write.
  int32_t* features = features_;
  uint8_t* counts = counts_;
  int64_t found = found_;
  const uint32_t before = before_;
  for (int64_t i = 0; i < n;) {
    uint32_t* places = places_.data();
    const uint64_t mask = places_.size() - 1;
    const int64_t limit = static_cast<int64_t>(places_.size()) / kPlacesPerFeature;
    for (; i < n && found < limit; ++i) {
      const int32_t feature = queue[i];
      uint64_t at = hash_feature(feature) & mask;
      while (places[at] > before && features[places[at] - before - 1] != feature) at = (at + 1) & mask;
      if (places[at] > before) {
        uint8_t& count = counts[places[at] - before - 1];
        count = static_cast<uint8_t>(std::min(count + queue_counts[i], kMaxCount));
        continue;
      }
      features[found] = feature;
      counts[found] = queue_counts[i];
      places[at] = before + static_cast<uint32_t>(++found);
    }
    found_ = found;
    if (found == limit) grow();
  }
  n_queue_ = 0;
}

void TextFeatures::grow() {
  places_.assign(2 * places_.size(), 0);
  const uint64_t mask = places_.size() - 1;
  for (int64_t i = 0; i < found_; ++i) {
    uint64_t at = hash_feature(features_[i]);
    while (places_[at & mask] > before_) ++at;
    places_[at & mask] = before_ + static_cast<uint32_t>(i + 1);
  }
}

void text_features(const uint8_t* text, const int64_t* offsets, int64_t n, UnicodeTable table, TextRules rules,
                   int64_t* ends, int32_t* slots, uint8_t* counts, int threads) {
  std::vector<int64_t> starts(n + 1, 0);
  for (int64_t i = 0; i < n; ++i) starts[i + 1] = starts[i] + max_features(offsets[i + 1] - offsets[i], rules);
  parallel_for((n + kTextsPerTask - 1) / kTextsPerTask, threads, [&](int64_t task) {
    TextFeatures features(table, rules);
    // Texts of a task are written without gaps, so that the output stays in the cache; the room suffices.
    int64_t start = starts[task * kTextsPerTask];
    for (int64_t i = task * kTextsPerTask; i < std::min(n, (task + 1) * kTextsPerTask); ++i) {
      starts[i] = start;
      ends[i] = features.extract(text + offsets[i], offsets[i + 1] - offsets[i], slots + start, counts + start);
      start += ends[i];
    }
  });
  close_gaps(n, [&](int64_t i) { return starts[i]; }, ends, slots, counts);
}

}  // namespace sparsenet
