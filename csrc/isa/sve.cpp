// aarch64 with SVE: plain loops at the machine's own width, the register block in NEON.
#define SPARSENET_LEVEL "sve"
#define SPARSENET_TABLE sve_table

namespace sparsenet {
namespace {
// A register block needs a width known when compiling; NEON's is part of every SVE machine.
constexpr int kLanes = 4, kTileRows = 8, kTileVectors = 3;
struct ByLane;
using Column = ByLane;
struct Rounded;
using Half = Rounded;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
