// x86 with AVX-512 F, BW, DQ and VL.
#include <immintrin.h>

#define SPARSENET_LEVEL "avx512"
#define SPARSENET_TABLE avx512_table

namespace sparsenet {
namespace {
// 24 of 32 registers for sums, two for columns of B.
constexpr int kLanes = 16, kTileRows = 12, kTileVectors = 2;
struct Broadcast;
using Column = Broadcast;
struct Rounded;
using Half = Rounded;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
