#include "text.h"

#include <algorithm>

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
constexpr int64_t kWaiting = 512;  // slots that are looked up together, so that they wait for memory together

// Of a token: n-grams that end with it, and of its characters.
int64_t most_of_token(TextRules rules) {
  return kMostWords + (kLongestWord + 2) * int64_t{rules.char_high > 0 ? rules.char_high - rules.char_low + 1 : 0};
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
    : table_(table), rules_(rules), numbering_(numbering), waiting_(kWaiting + most_of_token(rules)) {
  for (uint32_t code = 0; code < 256; ++code) {
    const int32_t entry = code < 128 ? entry_of(table, code) : kSeparator;
    ascii_[code] = (entry & kClassMask) == kWord ? static_cast<uint8_t>(code + (entry >> kClassBits)) : 0;
  }
}

int64_t TextFeatures::extract(const uint8_t* text, int64_t size, int32_t* features, int32_t* counts) {
  features_ = features;
  counts_ = counts;
  found_ = length_ = n_history_ = 0;
  pending_ = 0;
  empty_ = true;
  word_ = kStart;
  if (rules_.word_ngrams > 1) history_[n_history_++] = kTextStart;
  const uint8_t* end = text + size;
  for (const uint8_t* at = text; at < end;) {
    if (ascii_[*at] != 0 && pending_ == 0 && !single_)
      at = read_ascii_word(at, end);
    else
      read(read_code(at, end));
  }
  end_word();
  if (!empty_) add_token(kTextEnd, false);
  count_waiting();
  clear_places();
  return found_;
}

// Leaves the table empty for the next text: as a whole, unless a long text before made it large for this one.
void TextFeatures::clear_places() {
  if (static_cast<int64_t>(places_.size()) <= 32 * found_) {
    std::fill(places_.begin(), places_.end(), 0);
    return;
  }
  const uint64_t mask = places_.size() - 1;
  for (int64_t i = 0; i < found_; ++i)
    for (uint64_t at = home(features_[i]); places_[at & mask] != 0; ++at) places_[at & mask] = 0;
}

// The same as `read` for each letter, without the ifs: most of most texts.
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
    if (rules_.char_high > 0) add_characters();  // for which there is room: the token took none of it
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

void TextFeatures::add_characters() {
  const int64_t n = std::min<int64_t>(length_, kLongestWord) + 2;
  codes_[0] = kWordStart;
  codes_[n - 1] = kWordEnd;
  const int low = rules_.char_low, high = rules_.char_high, bits = rules_.bits - 1;
  int32_t* next = waiting_.data() + n_waiting_;
  int64_t most = n - 1;  // the whole word is a feature already
  for (int64_t begin = 0; begin + low <= n; ++begin, most = n) {
    uint64_t hash = kTextStart;
    int64_t at = begin;
    for (; at < begin + low - 1; ++at) hash = chain(hash, codes_[at]);
    for (const int64_t end = std::min(most, begin + high); at < end; ++at) {
      hash = chain(hash, codes_[at]);
      *next++ = upper_bits(hash, bits) | 1 << bits;
    }
  }
  n_waiting_ = next - waiting_.data();
}

void TextFeatures::count_waiting() {
  int32_t* waiting = waiting_.data();
  const int64_t n = numbering_.used == nullptr
                        ? n_waiting_
                        : kernels().number_slots(numbering_.used, numbering_.ranks, waiting, n_waiting_, waiting);
  for (int64_t i = 0; i < n; ++i) {
    const int32_t feature = waiting[i];
    const uint64_t mask = places_.size() - 1;
    uint64_t at = home(feature) & mask;
    while (places_[at] != 0 && features_[places_[at] - 1] != feature) at = (at + 1) & mask;
    if (places_[at] != 0) {
      ++counts_[places_[at] - 1];
      continue;
    }
    features_[found_] = feature;
    counts_[found_] = 1;
    places_[at] = static_cast<int32_t>(++found_);
    if (4 * found_ > static_cast<int64_t>(places_.size())) grow();
  }
  n_waiting_ = 0;
}

void TextFeatures::grow() {
  places_.assign(2 * places_.size(), 0);
  const uint64_t mask = places_.size() - 1;
  for (int64_t i = 0; i < found_; ++i) {
    uint64_t at = home(features_[i]);
    while (places_[at & mask] != 0) ++at;
    places_[at & mask] = static_cast<int32_t>(i + 1);
  }
}

void text_features(const uint8_t* text, const int64_t* offsets, int64_t n, UnicodeTable table, TextRules rules,
                   int64_t* ends, int32_t* slots, int32_t* counts, int threads) {
  std::vector<int64_t> starts(n + 1, 0);
  for (int64_t i = 0; i < n; ++i) starts[i + 1] = starts[i] + most_features(offsets[i + 1] - offsets[i], rules);
  parallel_for((n + kTextsPerTask - 1) / kTextsPerTask, threads, [&](int64_t task) {
    TextFeatures features(table, rules);
    for (int64_t i = task * kTextsPerTask; i < std::min(n, (task + 1) * kTextsPerTask); ++i)
      ends[i] = features.extract(text + offsets[i], offsets[i + 1] - offsets[i], slots + starts[i], counts + starts[i]);
  });
  close_gaps(n, [&](int64_t i) { return starts[i]; }, ends, slots, counts);
}

}  // namespace sparsenet
