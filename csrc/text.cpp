#include "text.h"

#include <algorithm>
#include <cstring>

#include "close_gaps.h"
#include "kernel_table.h"
#include "threads.h"

namespace sparsenet {
namespace {

enum Class { kSeparator, kWord, kMark, kSymbol, kSingle, kIgnored, kInner };

constexpr uint32_t kReplacement = 0xFFFD;
constexpr uint64_t kStart = 0x243F6A8885A308D3u;  // digits of pi
constexpr uint64_t kTextStart = 0x13198A2E03707344u;
constexpr uint64_t kTextEnd = 0xA4093822299F31D0u;
constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u, kMixer = 0xD6E8FEB86659FD93u;

uint64_t chain(uint64_t hash, uint64_t next) { return (hash ^ next) * kMultiplier; }

uint64_t mixed(uint64_t hash) {
  hash = (hash ^ (hash >> 32)) * kMixer;
  return hash ^ (hash >> 32);
}

// The upper `bits` of what `mixed` returns, at most 32: those that its last step leaves as they are.
int32_t upper_bits(uint64_t hash, int bits) {
  return static_cast<int32_t>((hash ^ (hash >> 32)) * kMixer >> (64 - bits));
}

// Reads one code point at `at`, which moves on. What is no UTF-8 becomes U+FFFD, one for each maximal piece of a
// sequence, as the Unicode standard recommends and Python does.
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

uint64_t home(int32_t feature) { return static_cast<uint32_t>(feature) * kMultiplier >> 32; }

constexpr uint32_t kPageSize = 1 << kPageBits;
constexpr int kClassBits = 3;
constexpr int32_t kClassMask = (1 << kClassBits) - 1;
constexpr uint32_t kWordStart = 0x110000, kWordEnd = 0x110001;  // no code points
constexpr int64_t kTextsPerTask = 32;
constexpr int64_t kWaiting = 4096;          // slots that are looked up together, so that they wait for memory together
constexpr int64_t kRoomOfFeature = 4;       // places for each, so that most find theirs empty
constexpr uint32_t kMostBefore = 1u << 31;  // to which one text adds less than that
constexpr int kPlaceBits = 11;
constexpr int64_t kPlainWords = 512;  // so that most find their place empty

// Of a token: n-grams that end with it, and of its characters.
int64_t most_of_token(TextRules rules) {
  return kMostWords + (kLongestWord + 2) * int64_t{rules.char_high > 0 ? rules.char_high - rules.char_low + 1 : 0};
}

// The bytes of a number, from the lowest on, are characters one after another.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "texts are read eight bytes at a time");
constexpr uint64_t kEach = 0x0101010101010101u, kTop = kEach * 0x80;

// Of eight bytes below 0x80: the top bit of those that are at least `low` and at most `high`.
constexpr uint64_t within(uint64_t bytes, uint64_t low, uint64_t high) {
  return (bytes + kEach * (0x80 - low)) & ~(bytes + kEach * (0x7F - high)) & kTop;
}

// What is behind the end is 0, which no word contains.
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
  int length;  // of the letters and digits that they begin with
};

EightLetters letters_of(uint64_t bytes) {
  const uint64_t seven_bits = bytes & ~kTop;
  const uint64_t letters = within(seven_bits | kEach * 0x20, 'a', 'z') & ~bytes;
  const uint64_t others = ~(letters | (within(seven_bits, '0', '9') & ~bytes)) & kTop;
  const int length = others == 0 ? 8 : __builtin_ctzll(others) / 8;
  const uint64_t kept = length == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * length) - 1;
  return {(bytes | letters >> 2) & kept, length};
}

// The slots of the n-grams of `low` to `high` of the codes, except of all, which as a word is a feature already.
// Inlined where lengths are constants, a beginning with n-grams of all lengths has no loop.
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

int64_t most_features(int64_t size, TextRules rules) {
  // A word of c characters has c + 2 with its boundaries, at most 3 c, and an n-gram of each length may begin at each.
  const int64_t lengths = rules.char_high > 0 ? rules.char_high - rules.char_low + 1 : 0;
  const int64_t bound = size * (rules.word_ngrams + 3 * lengths) + 2 * kMostWords;
  return std::min(bound, int64_t{1} << rules.bits);
}

TextFeatures::TextFeatures(UnicodeTable table, TextRules rules, Numbering numbering)
    : table_(table),
      rules_(rules),
      numbering_(numbering),
      waiting_(new int32_t[kWaiting + most_of_token(rules)]),
      times_(new uint8_t[kWaiting + most_of_token(rules)]),
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
  if (before_ > kMostBefore) {
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
  count_waiting();
  before_ += static_cast<uint32_t>(found_);
  return found_;
}

// The same as `read`, and `read_ascii_word` below, for most of most texts, a word at a time.
const uint8_t* TextFeatures::read_between_words(const uint8_t* at, const uint8_t* end) {
  if (separates_[*at]) return at + 1;
  if (ascii_[*at] != 0) {
    const uint8_t* after = read_plain_word(at, end);
    return after != at ? after : read_ascii_word(at, end);
  }
  read(read_code(at, end));
  return at;
}

// Returns `at` where a word is too long, or goes on with what is no letter or digit of ASCII.
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
  if (n_waiting_ > kWaiting || n_words_ == kPlainWords) count_waiting();
  constexpr uint64_t mask = (uint64_t{1} << kPlaceBits) - 1;
  uint64_t place = (low ^ high * kMixer) * kMultiplier >> (64 - kPlaceBits);
  for (; word_places_[place] != 0; place = (place + 1) & mask) {
    PlainWord& word = words_[word_places_[place] - 1];
    if (word.letters[0] != low || word.letters[1] != high) continue;
    word.repeats += word.repeats < kMostCounted ? 1 : 0;
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
  word = {{low, high}, mixed(hash), 0, 0, 0, static_cast<int32_t>(place)};
  add_token(word.hash, false);
  word.begin = static_cast<int32_t>(n_waiting_);
  add(history_[0]);
  if (rules_.char_high > 0) add_characters(length);
  word.end = static_cast<int32_t>(n_waiting_);
}

// The same as `read` for each letter, without the ifs.
const uint8_t* TextFeatures::read_ascii_word(const uint8_t* at, const uint8_t* end) {
  uint64_t word = word_;
  int64_t length = length_;
  for (; at < end && ascii_[*at] != 0; ++at, ++length) {
    word = chain(word, ascii_[*at]);
    if (length < kLongestWord) codes_[1 + length] = ascii_[*at];
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
  if (length_ < kLongestWord) codes_[1 + length_] = code;
  ++length_;
}

void TextFeatures::end_word() {
  if (length_ > 0) {
    add_token(mixed(word_), true);
    if (rules_.char_high > 0) add_characters(length_);  // for which there is room: the token took none of it
    word_ = kStart;
    length_ = 0;
    single_ = false;
  }
  if (pending_ != 0) add_symbol(pending_);
  pending_ = 0;
}

void TextFeatures::add_symbol(uint32_t code) { add_token(mixed(chain(kStart, code)), true); }

// The n-grams that end with this word; by itself it is one if `alone`. Leaves room for its characters.
void TextFeatures::add_token(uint64_t word, bool alone) {
  if (n_waiting_ > kWaiting) count_waiting();
  n_history_ = std::min<int64_t>(n_history_ + 1, rules_.word_ngrams);
  for (int64_t k = n_history_ - 1; k > 0; --k) {
    history_[k] = chain(history_[k - 1], word);
    add(history_[k]);
  }
  history_[0] = chain(kStart, word);
  empty_ = false;
  if (alone) add(history_[0]);
}

void TextFeatures::add(uint64_t hash) { waiting_[n_waiting_++] = upper_bits(hash, rules_.bits - 1); }

void TextFeatures::add_characters(int64_t length) {
  const int64_t n = std::min<int64_t>(length, kLongestWord) + 2;
  codes_[0] = kWordStart;
  codes_[n - 1] = kWordEnd;
  int32_t* next = waiting_.get() + n_waiting_;
  const TextRules r = rules_;
  if (r.char_low == 3 && r.char_high == 5)
    next = character_ngrams(codes_, n, 3, 5, r.bits - 1, next);
  else if (r.char_low == 4 && r.char_high == 4)
    next = character_ngrams(codes_, n, 4, 4, r.bits - 1, next);
  else
    next = character_ngrams(codes_, n, r.char_low, r.char_high, r.bits - 1, next);
  n_waiting_ = next - waiting_.get();
}

// Says how often each occurs, forgets the words, and returns how many of those that wait have a number.
int64_t TextFeatures::weigh_waiting() {
  std::fill_n(times_.get(), n_waiting_, uint8_t{1});
  for (int64_t i = 0; i < n_words_; ++i) {
    const PlainWord& word = words_[i];
    word_places_[word.place] = 0;
    if (word.repeats > 0)
      std::fill(&times_[word.begin], &times_[word.end], static_cast<uint8_t>(std::min(word.repeats + 1, kMostCounted)));
  }
  n_words_ = 0;
  if (numbering_.used == nullptr) return n_waiting_;
  return kernels().number_features(numbering_.used, numbering_.ranks, waiting_.get(), times_.get(), n_waiting_,
                                   waiting_.get(), times_.get());
}

void TextFeatures::count_waiting() {
  const int64_t n = weigh_waiting();
  const int32_t* waiting = waiting_.get();
  const uint8_t* times = times_.get();
  // Their own names, which the compiler need not read again after each write.
  int32_t* features = features_;
  uint8_t* counts = counts_;
  int64_t found = found_;
  const uint32_t before = before_;
  for (int64_t i = 0; i < n;) {
    uint32_t* places = places_.data();
    const uint64_t mask = places_.size() - 1;
    const int64_t most = static_cast<int64_t>(places_.size()) / kRoomOfFeature;
    for (; i < n && found < most; ++i) {
      const int32_t feature = waiting[i];
      uint64_t at = home(feature) & mask;
      while (places[at] > before && features[places[at] - before - 1] != feature) at = (at + 1) & mask;
      if (places[at] > before) {
        uint8_t& count = counts[places[at] - before - 1];
        count = static_cast<uint8_t>(std::min(count + times[i], kMostCounted));
        continue;
      }
      features[found] = feature;
      counts[found] = times[i];
      places[at] = before + static_cast<uint32_t>(++found);
    }
    found_ = found;
    if (found == most) grow();
  }
  n_waiting_ = 0;
}

void TextFeatures::grow() {
  places_.assign(2 * places_.size(), 0);
  const uint64_t mask = places_.size() - 1;
  for (int64_t i = 0; i < found_; ++i) {
    uint64_t at = home(features_[i]);
    while (places_[at & mask] > before_) ++at;
    places_[at & mask] = before_ + static_cast<uint32_t>(i + 1);
  }
}

void text_features(const uint8_t* text, const int64_t* offsets, int64_t n, UnicodeTable table, TextRules rules,
                   int64_t* ends, int32_t* slots, uint8_t* counts, int threads) {
  std::vector<int64_t> starts(n + 1, 0);
  for (int64_t i = 0; i < n; ++i) starts[i + 1] = starts[i] + most_features(offsets[i + 1] - offsets[i], rules);
  parallel_for((n + kTextsPerTask - 1) / kTextsPerTask, threads, [&](int64_t task) {
    TextFeatures features(table, rules);
    // One behind the other, for which there is room: what is written stays in the cache.
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
