// aarch64, whose baseline includes NEON.
#define SPARSENET_LEVEL "neon"
#define SPARSENET_TABLE neon_table

namespace sparsenet {
namespace {
// Of 32 registers, 24 are for sums and three for columns of B.
constexpr int kLanes = 4, kTileRows = 8, kTileVectors = 3;
struct ByLane;
using Column = ByLane;
struct Rounded;
using Bfloat16 = Rounded;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
