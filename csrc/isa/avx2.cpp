// x86 with AVX2 and FMA.
#define SPARSENET_LEVEL "avx2"
#define SPARSENET_TABLE avx2_table

namespace sparsenet {
namespace {
// Of 16 registers, 12 are for sums, two for columns of B and one for an element of A.
constexpr int kLanes = 8, kTileRows = 6, kTileVectors = 2;
struct Broadcast;
using Column = Broadcast;
struct Rounded;
using Bfloat16 = Rounded;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
