// The baseline of the architecture, compiled without extra flags, so it runs anywhere.
#define SPARSENET_LEVEL "scalar"
#define SPARSENET_TABLE scalar_table

namespace sparsenet {
namespace {
// On x86-64, half of the 16 registers of four lanes are for sums. Other architectures emulate the vectors.
constexpr int kLanes = 4, kTileRows = 4, kTileVectors = 2;
struct Broadcast;
using Column = Broadcast;
struct Rounded;
using Bfloat16 = Rounded;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
