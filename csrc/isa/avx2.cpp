// x86 with AVX2 and FMA.
#define SPARSENET_LEVEL "avx2"
#define SPARSENET_TABLE avx2_table

namespace sparsenet {
namespace {
// 12 of 16 registers for sums, two for columns of B, one for an element of A.
constexpr int kLanes = 8, kTileRows = 6, kTileVectors = 2;
struct Broadcast;
using Column = Broadcast;
struct Rounded;
using Half = Rounded;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
