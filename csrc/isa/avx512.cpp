// x86 with AVX-512 F, BW, DQ and VL.
#include <immintrin.h>

#define SPARSENET_LEVEL "avx512"
#define SPARSENET_TABLE avx512_table

namespace sparsenet {
namespace {
// Of 32 registers, 24 are for sums and two for columns of B.
constexpr int kLanes = 16, kTileRows = 12, kTileVectors = 2;
struct Broadcast;
using Column = Broadcast;
struct Rounded;
using Bfloat16 = Rounded;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
