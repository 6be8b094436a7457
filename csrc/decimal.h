// Decimal text to float or double, correctly rounded and blind to the locale: a fast path that is right nearly
// always and knows when it may not be, and std::from_chars for the rest.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace sparsenet {

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

// [digits][.digits][e[+-]digits], as mantissa * 10^exponent where the text has at most 19 digits, leading zeros
// included; longer ones are not exact and `mantissa` means nothing.
struct Decimal {
  uint64_t mantissa = 0;
  int exponent = 0;
  bool exact = true;
};

// Returns the end of the number that starts at p, or nullptr if there is none. The text must end in something that
// is no part of a number.
inline const char* scan_decimal(const char* p, Decimal& out) {
  constexpr int kMaxExponent = 99999;  // far beyond any float; keeps sums of exponents from overflowing
  uint64_t mantissa = 0;
  const char* start = p;
  for (; is_digit(*p); ++p) mantissa = mantissa * 10 + static_cast<uint64_t>(*p - '0');
  int64_t digits = p - start;
  int64_t exponent = 0;
  if (*p == '.') {
    start = ++p;
    for (; is_digit(*p); ++p) mantissa = mantissa * 10 + static_cast<uint64_t>(*p - '0');
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
  out.mantissa = mantissa;
  out.exact = digits <= 19 && exponent >= -kMaxExponent && exponent <= kMaxExponent;
  out.exponent = out.exact ? static_cast<int>(exponent) : 0;
  return p;
}

// Rounds with std::from_chars. Beyond the largest value is infinity, below the smallest is zero: from_chars says
// "out of range" to both, and where the first digit stands tells which.
template <typename T>
T round_slowly(const char* begin, const char* end) {
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

inline constexpr double kPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                          1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// Tries to round with one exact power of ten. A double is then correctly rounded if the mantissa is exact too; a
// float if both ends of the interval that must hold the true value round to it.
template <typename T>
bool round_fast(const Decimal& decimal, T& value) {
  if (!decimal.exact || decimal.exponent < -22 || decimal.exponent > 22) return false;
  const double mantissa = static_cast<double>(decimal.mantissa);
  const double near =
      decimal.exponent < 0 ? mantissa / kPowersOfTen[-decimal.exponent] : mantissa * kPowersOfTen[decimal.exponent];
  if constexpr (std::is_same_v<T, double>) {
    value = near;
    return decimal.mantissa <= uint64_t{1} << 53;
  } else {
    constexpr double kSlack = 1.0 / (int64_t{1} << 50);  // the two roundings above err by less than 2^-52 each
    value = static_cast<float>(near * (1 - kSlack));
    return value == static_cast<float>(near * (1 + kSlack));
  }
}

// Reads a finite number with an optional sign and moves p past it. False, p unchanged, if there is none.
template <typename T>
bool read_number(const char*& p, T& value) {
  const bool negative = *p == '-';
  const char* start = p + (negative || *p == '+');
  Decimal decimal;
  const char* end = scan_decimal(start, decimal);
  if (end == nullptr) return false;
  if (!round_fast(decimal, value)) value = round_slowly<T>(start, end);
  if (!std::isfinite(value)) return false;
  if (negative) value = -value;
  p = end;
  return true;
}

}  // namespace sparsenet
