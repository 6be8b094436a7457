// The baseline of the architecture: no flag of its own, so it runs anywhere.
#define SPARSENET_LEVEL "scalar"
#define SPARSENET_TABLE scalar_table

namespace sparsenet {
namespace {
// Half of x86-64's 16 registers of four lanes for sums; other architectures emulate the vectors.
constexpr int kLanes = 4, kTileRows = 4, kTileVectors = 2;
struct Broadcast;
using Column = Broadcast;
struct Rounded;
using Half = Rounded;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
