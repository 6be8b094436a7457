// Rows of 8-bit numbers with a step for each row, and lists of points with such numbers.
#pragma once

#include <cstdint>
#include <cstring>

namespace sparsenet {
namespace {  // each instruction set has its own copy: see kernels.inl.h

// The float whose upper half has these bits: a bfloat16 number.
inline float from_bfloat16(uint16_t upper) {
  const uint32_t bits = static_cast<uint32_t>(upper) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

// A number is code * step. The product is exact, since a step has 8 bits of precision.
struct NarrowRows {
  const int8_t* codes;    // null for none
  const uint16_t* steps;  // of each row, in bfloat16
};

// Lists of points by feature, with values as floats or narrow ones, and numbers of 32 bits or, if all fit, of 16.
struct Postings {
  const int64_t* indptr;
  const int32_t* points;  // null if `short_points` is not
  const uint16_t* short_points;
  const float* values;  // null if `narrow` is not
  NarrowRows narrow;
};

}  // namespace sparsenet
