// The grammar of a row in XMC and svmlight format: parses the lines of one chunk into arrays.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "decimal.h"
#include "reader.h"

namespace sparsenet {

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Reads an id. Returns its end, or nullptr if there is none. Saturates far above all valid ids instead of wrapping
// around to a valid one.
SPARSENET_INLINE const char* read_id(const char* p, const char* end, int64_t& id) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  uint64_t value = 0;
  const char* stop = read_digits(p, end, value);
  id = static_cast<int64_t>(value);
  if (stop - p > 10) {
    const char* first = p;
    while (*first == '0') ++first;
    if (stop - first > 10) id = kHuge;
  }
  return stop == p ? nullptr : stop;
}

// Sets bit i if character i of the 32 characters at p is not a digit.
SPARSENET_INLINE uint32_t mask_others(const char* p) {
#if defined(__SSE2__)
  const auto digits = [](const char* q) {
    const __m128i above = _mm_sub_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q)), _mm_set1_epi8('0'));
    return static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(above, _mm_set1_epi8(9)), above)));
  };
  return ~(digits(p) | digits(p + 16) << 16);
#else
  constexpr uint64_t kGather = 0x0002040810204081;  // gathers the top bits of all bytes in the top byte
  const auto others = [](const char* q) { return static_cast<uint32_t>((mark_others(load_eight(q)) * kGather) >> 56); };
  return others(p) | others(p + 8) << 8 | others(p + 16) << 16 | others(p + 24) << 24;
#endif
}

// Reads a feature of the usual form `id:whole.fraction` with up to eight digits each. Returns nullptr for any other
// form, which may still be a valid feature. One mask gives all three lengths.
SPARSENET_INLINE const char* read_usual_feature(const char* p, const char* end, int64_t& id, float& value) {
  // Three numbers of eight digits, the characters after the first two, and eight more because loads read eight.
  constexpr int kReach = 8 + 1 + 8 + 1 + 8 + 8;
  if (end - p < kReach) return nullptr;
  // 27 characters matter; setting the bits above them makes all three searches succeed.
  uint32_t others = mask_others(p) | 0xF8000000;
  const int colon = __builtin_ctz(others);
  const int dot = __builtin_ctz(others &= others - 1);
  const int stop = __builtin_ctz(others & (others - 1));
  const int n_whole = dot - colon - 1, n_fraction = stop - dot - 1;
  const auto is_usual = [](int n) { return static_cast<unsigned>(n - 1) < 8; };
  if (p[colon] != ':' || p[dot] != '.' || !(is_blank(p[stop]) || p[stop] == '\n')) return nullptr;
  if (!is_usual(colon) || !is_usual(n_whole) || !is_usual(n_fraction)) return nullptr;
  id = static_cast<int64_t>(join_digits(load_eight(p), colon));
  const uint64_t whole = n_whole == 1 ? p[colon + 1] - '0' : join_digits(load_eight(p + colon + 1), n_whole);
  const uint64_t fraction = join_digits(load_eight(p + dot + 1), n_fraction);
  const Decimal decimal{static_cast<int64_t>(whole * kIntegerPowersOfTen[n_fraction] + fraction), -n_fraction, true};
  return round_fast(decimal, value) ? p + stop : nullptr;
}

struct XmcFormat {
  using Label = int32_t;
  static constexpr bool kEveryLineIsARow = true;
  static bool is_end(char c) { return c == '\n'; }
  static const char* read_label(const char* p, const char* end, const RowRules& rules, Label& label) {
    int64_t id;
    const char* stop = read_id(p, end, id);
    if (stop == nullptr || id >= rules.end_label) return nullptr;
    label = static_cast<Label>(id);
    return stop;
  }
};

struct SvmlightFormat {
  using Label = double;
  static constexpr bool kEveryLineIsARow = false;
  static bool is_end(char c) { return c == '\n' || c == '#'; }
  static const char* read_label(const char* p, const char* end, const RowRules& rules, Label& label) {
    constexpr int kIdDigits = 10;  // read_id does not saturate up to this length
    int64_t id;
    const char* stop = read_id(p, end, id);
    if (stop != nullptr && stop - p <= kIdDigits && (*stop == ',' || is_blank(*stop)))
      label = static_cast<Label>(id);
    else
      stop = read_number(p, end, label);
    if (stop == nullptr || (rules.end_label < 0 && is_exact(p, stop, label))) return stop;
    const bool is_id = label >= 0 && label < static_cast<double>(rules.end_label) && label == std::floor(label);
    return is_id ? stop : nullptr;
  }
  // Rejects integers from 2^53 on, because two of them may map to one double. A number written with a point or exponent
  // is accepted as the double it maps to.
  static bool is_exact(const char* p, const char* stop, double label) {
    return std::fabs(label) < 9007199254740992.0 ||
           std::any_of(p, stop, [](char c) { return c == '.' || c == 'e' || c == 'E'; });
  }
};

// Parses the lines of one chunk.
template <typename Format>
class ChunkParser {
 public:
  using Label = typename Format::Label;

  ChunkParser(const char* text, const RowRules& rules, const RowArrays<Label>& out)
      : text_(text), rules_(rules), out_(out) {}

  ParsedRows parse(const char* begin, const char* end, int64_t first_line) {
    done_.line = first_line;
    end_ = end;
    for (p_ = begin; p_ != end_ && parse_line();) ++done_.line;
    return done_;
  }

 private:
  bool parse_line() {
    row_feature_ = n_features_;
    row_label_ = n_labels_;
    const char* start = p_;
    skip_blanks();
    if (Format::is_end(*p_)) {
      if (Format::kEveryLineIsARow && done_.line <= rules_.last_line) end_row();
      return next_line();
    }
    if (Format::kEveryLineIsARow && done_.line > rules_.last_line) return fail(RowError::kSurplusRow, p_);
    // In XMC format an indented row has no labels.
    const bool labelled = !Format::kEveryLineIsARow || p_ == start;
    if (labelled && !starts_with_feature() && !parse_labels()) return false;
    if (rules_.one_label && n_labels_ != row_label_ + 1) return fail(RowError::kLabelCount, start);
    if (!Format::kEveryLineIsARow && !skip_query()) return false;
    if (!parse_features() || !order_features() || !order_labels()) return false;
    end_row();
    return next_line();
  }

  // The first token is a feature if it has a colon before any comma; otherwise it is a list of labels.
  bool starts_with_feature() const {
    const char* p = p_;
    while (*p != ':' && *p != ',' && !ends_token(*p)) ++p;
    return *p == ':';
  }

  bool parse_labels() {
    for (const char* p = p_;; ++p) {
      const char* token = p;
      p = Format::read_label(token, end_, rules_, out_.labels[n_labels_]);
      if (p == nullptr) return fail(RowError::kLabel, token);
      ++n_labels_;
      if (*p == ',') continue;
      p_ = p;
      return ends_token(*p) || fail(RowError::kLabel, token);
    }
  }

  // Skips `qid:n`, the query id that svmlight uses for ranking.
  bool skip_query() {
    skip_blanks();
    if (std::strncmp(p_, "qid:", 4) != 0) return true;
    const char* token = p_;
    int64_t query;
    p_ = read_id(token + 4 + (token[4] == '-'), end_, query);
    return (p_ != nullptr && ends_token(*p_)) || fail(RowError::kFeature, token);
  }

  bool parse_features() {
    int64_t previous = -1;
    rising_ = true;
    const char* p = p_;
    for (;; ++n_features_) {
      while (is_blank(*p)) ++p;
      if (Format::is_end(*p)) break;
      const char* token = p;
      int64_t id;
      float& value = out_.values[n_features_];
      p = read_usual_feature(token, end_, id, value);
      if (p == nullptr) p = read_feature(token, id, value);
      if (p == nullptr || !ends_token(*p) || id < rules_.first_feature || id >= rules_.end_feature)
        return fail(RowError::kFeature, token);
      out_.indices[n_features_] = static_cast<int32_t>(id);
      rising_ &= id > previous;
      previous = id;
    }
    p_ = p;
    return true;
  }

  const char* read_feature(const char* p, int64_t& id, float& value) {
    p = read_id(p, end_, id);
    return p != nullptr && *p == ':' ? read_number(p + 1, end_, value) : nullptr;
  }

  bool order_features() {
    if (rising_) return true;
    sort_features();
    const int32_t* end = out_.indices + n_features_;
    const int32_t* twin = std::adjacent_find<const int32_t*>(out_.indices + row_feature_, end);
    return twin == end || fail_repeated(RowError::kRepeatedFeature, *twin);
  }

  // Sorts (id, value) pairs as integers with the id in the upper half.
  void sort_features() {
    pairs_.resize(static_cast<size_t>(n_features_ - row_feature_));
    for (size_t i = 0; i < pairs_.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, out_.values + row_feature_ + i, sizeof bits);
      pairs_[i] = static_cast<uint64_t>(out_.indices[row_feature_ + i]) << 32 | bits;
    }
    std::sort(pairs_.begin(), pairs_.end());
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const uint32_t bits = static_cast<uint32_t>(pairs_[i]);
      std::memcpy(out_.values + row_feature_ + i, &bits, sizeof bits);
      out_.indices[row_feature_ + i] = static_cast<int32_t>(pairs_[i] >> 32);
    }
  }

  bool order_labels() {
    Label* begin = out_.labels + row_label_;
    Label* end = out_.labels + n_labels_;
    if (std::adjacent_find(begin, end, std::greater_equal<Label>()) == end) return true;
    std::sort(begin, end);
    const Label* twin = std::adjacent_find(begin, end);
    return twin == end || fail_repeated(RowError::kRepeatedLabel, *twin);
  }

  void end_row() {
    out_.row_ends[done_.rows] = n_features_;
    out_.label_ends[done_.rows] = n_labels_;
    ++done_.rows;
    done_.features = n_features_;
    done_.labels = n_labels_;
  }

  static bool ends_token(char c) { return is_blank(c) || Format::is_end(c); }

  void skip_blanks() {
    while (is_blank(*p_)) ++p_;
  }

  bool next_line() {
    if (*p_ != '\n') p_ = static_cast<const char*>(std::memchr(p_, '\n', static_cast<size_t>(end_ - p_)));
    ++p_;
    return true;
  }

  // Records an error at `token`, which ends before the next blank or, in a list of labels, the next comma.
  bool fail(RowError error, const char* token) {
    const char* end = token;
    while (!ends_token(*end) && !(error == RowError::kLabel && *end == ',')) ++end;
    done_.error = error;
    done_.begin = token - text_;
    done_.end = end - text_;
    return false;
  }

  bool fail_repeated(RowError error, double id) {
    done_.error = error;
    done_.repeated = id;
    return false;
  }

  const char* text_;
  const RowRules& rules_;
  RowArrays<Label> out_;
  ParsedRows done_;
  const char* p_ = nullptr;                  // the next character
  const char* end_ = nullptr;                // the end of the chunk
  int64_t n_features_ = 0, n_labels_ = 0;    // written so far
  int64_t row_feature_ = 0, row_label_ = 0;  // where the current row starts
  bool rising_ = true;                       // the features of the current row are in ascending order
  std::vector<uint64_t> pairs_;
};

}  // namespace sparsenet
