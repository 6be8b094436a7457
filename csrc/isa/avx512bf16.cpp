// x86 with AVX-512 and its instructions for bfloat16.
#include <immintrin.h>

#define SPARSENET_LEVEL "avx512bf16"
#define SPARSENET_TABLE avx512bf16_table

namespace sparsenet {
namespace {
// See avx512.cpp.
constexpr int kLanes = 16, kTileRows = 12, kTileVectors = 2;

struct Instructions {
  static __m512 add_pair_products(__m512 sum, float pair, __m512 pairs) {
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_ps(pair), (__m512bh)pairs);
  }
};
struct Broadcast;
using Column = Broadcast;
template <typename>
struct Pairs;
using Bfloat16 = Pairs<Instructions>;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
