// x86 with AMX, whose tiles multiply bfloat16 several times faster than vector instructions; otherwise like avx512bf16.
#include <immintrin.h>

#define SPARSENET_LEVEL "amxbf16"
#define SPARSENET_TABLE amxbf16_table

namespace sparsenet {
namespace {
// See avx512.cpp.
constexpr int kLanes = 16, kTileRows = 12, kTileVectors = 2;
struct Broadcast;
using Column = Broadcast;
struct Tiles;
using Bfloat16 = Tiles;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
