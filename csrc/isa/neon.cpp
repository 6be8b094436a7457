// aarch64: NEON is part of its baseline.
#define SPARSENET_LEVEL "neon"
#define SPARSENET_TABLE neon_table

namespace sparsenet {
namespace {
// 24 of 32 registers for sums, three for columns of B.
constexpr int kLanes = 4, kTileRows = 8, kTileVectors = 3;
struct ByLane;
using Column = ByLane;
struct Rounded;
using Half = Rounded;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
