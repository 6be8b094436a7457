// Conversion of decimal text to float or double, correctly rounded and independent of the locale. A fast path handles
// nearly all numbers and detects those it cannot round; std::from_chars handles these, or strtod if the library lacks
// it.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

// Apple's library and GCC's before version 11 lack from_chars for floating-point numbers. A test forces this case.
#if defined(__cpp_lib_to_chars) && !defined(SPARSENET_NO_FLOAT_FROM_CHARS)
#define SPARSENET_FLOAT_FROM_CHARS 1
#else
#include <locale.h>
#include <stdlib.h>

#include <string>
#if defined(__APPLE__)
#include <xlocale.h>
#endif
#endif

namespace sparsenet {

// Inlined, so that the position in the text stays in a register for a whole line.
#define SPARSENET_INLINE [[gnu::always_inline]] inline

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

inline constexpr uint64_t kIntegerPowersOfTen[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

// Loads eight characters, the first one in the lowest byte, and maps digits to 0 ... 9.
SPARSENET_INLINE uint64_t load_eight(const char* p) {
  uint64_t bytes;
  std::memcpy(&bytes, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  bytes = __builtin_bswap64(bytes);
#endif
  return bytes ^ 0x3030303030303030;
}

// Sets the top bit of each byte that is not a digit.
SPARSENET_INLINE uint64_t mark_others(uint64_t bytes) {
  constexpr uint64_t kTop = 0x8080808080808080;
  return (((bytes & ~kTop) + 0x7676767676767676) | bytes) & kTop;
}

// Returns the number formed by the first n of eight digits, 1 <= n <= 8.
SPARSENET_INLINE uint64_t join_digits(uint64_t bytes, int n) {
  bytes <<= 64 - 8 * n;  // as if preceded by zeros
  bytes = bytes * 10 + (bytes >> 8);
  return ((bytes & 0x000000FF000000FF) * 0x000F424000000064 +
          ((bytes >> 16) & 0x000000FF000000FF) * 0x0000271000000001) >>
         32;
}

// Appends the digits at p to `value`, modulo 2^64, and returns their end. Handles eight digits at a time if eight bytes
// can be read, so that the number of digits causes no mispredicted branch; this is faster than a loop over digits.
SPARSENET_INLINE const char* read_digits(const char* p, const char* end, uint64_t& value) {
  while (end - p >= 8) {
    const uint64_t bytes = load_eight(p);
    const uint64_t others = mark_others(bytes);
    const int n = others == 0 ? 8 : __builtin_ctzll(others) >> 3;
    if (n == 0) return p;
    value = value * kIntegerPowersOfTen[n] + join_digits(bytes, n);
    p += n;
    if (n < 8) return p;
  }
  for (; is_digit(*p); ++p) value = value * 10 + static_cast<uint64_t>(*p - '0');
  return p;
}

// The text [digits][.digits][e[+-]digits] as mantissa * 10^exponent. With more than 18 digits, including leading zeros,
// `exact` is false and `mantissa` is meaningless.
struct Decimal {
  int64_t mantissa = 0;
  int exponent = 0;
  bool exact = true;
};

// Returns the end of the number that starts at p, or nullptr if there is none. The text ends at `end`; its last
// character must not be part of a number.
SPARSENET_INLINE const char* scan_decimal(const char* p, const char* end, Decimal& out) {
  constexpr int kMaxExponent = 99999;  // far beyond any float, but sums of exponents do not overflow
  uint64_t mantissa = 0;
  const char* start = p;
  for (; is_digit(*p); ++p) mantissa = mantissa * 10 + static_cast<uint64_t>(*p - '0');
  int64_t digits = p - start;
  int64_t exponent = 0;
  if (*p == '.') {
    start = ++p;
    p = read_digits(p, end, mantissa);
    exponent = start - p;
    digits -= exponent;
  }
  if (digits == 0) return nullptr;
  if ((*p | 0x20) == 'e') {
    const bool negative = *++p == '-';
    if (*p == '-' || *p == '+') ++p;
    if (!is_digit(*p)) return nullptr;
    int written = 0;
    for (; is_digit(*p); ++p)
      if (written < kMaxExponent) written = written * 10 + (*p - '0');
    exponent += negative ? -written : written;
  }
  out.mantissa = static_cast<int64_t>(mantissa);
  out.exact = digits <= 18 && exponent >= -kMaxExponent && exponent <= kMaxExponent;
  out.exponent = out.exact ? static_cast<int>(exponent) : 0;
  return p;
}

#if defined(SPARSENET_FLOAT_FROM_CHARS)
// Rounds with std::from_chars. It returns "out of range" for overflow and for underflow, so the place of the first
// non-zero digit decides between infinity and zero.
template <typename T>
[[gnu::noinline, gnu::cold]] T round_slowly(const char* begin, const char* end) {
  T value = 0;
  if (std::from_chars(begin, end, value).ec != std::errc::result_out_of_range) return value;
  int64_t place = 0;
  const char* p = begin;
  while (*p == '0') ++p;
  while (is_digit(*p)) ++p, ++place;
  if (*p == '.') {
    ++p;
    if (place == 0)
      for (; *p == '0'; ++p) --place;
    while (is_digit(*p)) ++p;
  }
  int64_t written = 0;
  if (p != end) {
    const bool negative = *++p == '-';
    if (*p == '-' || *p == '+') ++p;
    for (; p != end && written < (int64_t{1} << 40); ++p) written = written * 10 + (*p - '0');
    if (negative) written = -written;
  }
  return place + written > 0 ? std::numeric_limits<T>::infinity() : T{0};
}
#else
// Rounds with strtod in the "C" locale, independent of the program's; it returns infinity or zero out of range. The
// text is copied, because a digit may follow it.
template <typename T>
[[gnu::noinline, gnu::cold]] T round_slowly(const char* begin, const char* end) {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", locale_t{});
  const std::string text(begin, end);
  if constexpr (std::is_same_v<T, float>) return strtof_l(text.c_str(), nullptr, plain);
  return static_cast<T>(strtod_l(text.c_str(), nullptr, plain));
}
#endif

inline constexpr int kMaxFastExponent = 22;  // powers of ten up to this one are exact
inline constexpr double kPowersOfTen[] = {
    1e-22, 1e-21, 1e-20, 1e-19, 1e-18, 1e-17, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8,
    1e-7,  1e-6,  1e-5,  1e-4,  1e-3,  1e-2,  1e-1,  1e0,   1e1,   1e2,   1e3,   1e4,   1e5,   1e6,  1e7,
    1e8,   1e9,   1e10,  1e11,  1e12,  1e13,  1e14,  1e15,  1e16,  1e17,  1e18,  1e19,  1e20,  1e21, 1e22};

// Rounds to double; returns whether the result is correct, which holds if mantissa and power of ten are both exact.
inline bool round_fast(const Decimal& decimal, double& value) {
  const double mantissa = static_cast<double>(decimal.mantissa);
  value = decimal.exponent < 0 ? mantissa / kPowersOfTen[kMaxFastExponent - decimal.exponent]
                               : mantissa * kPowersOfTen[kMaxFastExponent + decimal.exponent];
  return decimal.mantissa <= int64_t{1} << 53;
}

// Rounds to float; returns whether the result is correct: both ends of an interval around the true value round to it.
inline bool round_fast(const Decimal& decimal, float& value) {
  // The mantissa, the power and the product are rounded, with a relative error of at most 2^-53 each.
  constexpr double kSlack = 1.0 / (int64_t{1} << 50);
  const double near = static_cast<double>(decimal.mantissa) * kPowersOfTen[kMaxFastExponent + decimal.exponent];
  value = static_cast<float>(near * (1 - kSlack));
  return value == static_cast<float>(near * (1 + kSlack));
}

// Reads a finite number with an optional sign. Returns its end, or nullptr if there is none. The text ends at `end`.
template <typename T>
SPARSENET_INLINE const char* read_number(const char* p, const char* end, T& value) {
  const bool negative = *p == '-';
  p += negative || *p == '+';
  Decimal decimal;
  const char* stop = scan_decimal(p, end, decimal);
  if (stop == nullptr) return nullptr;
  const bool in_table = decimal.exponent >= -kMaxFastExponent && decimal.exponent <= kMaxFastExponent;
  T magnitude;
  if (!decimal.exact || !in_table || !round_fast(decimal, magnitude)) magnitude = round_slowly<T>(p, stop);
  value = negative ? -magnitude : magnitude;
  return std::isfinite(magnitude) ? stop : nullptr;
}

}  // namespace sparsenet
