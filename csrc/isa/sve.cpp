// aarch64 with SVE: plain loops use the vector width of the machine, the register block uses NEON.
#define SPARSENET_LEVEL "sve"
#define SPARSENET_TABLE sve_table

namespace sparsenet {
namespace {
// A register block needs a width that is known at compile time; every SVE machine has NEON.
constexpr int kLanes = 4, kTileRows = 8, kTileVectors = 3;
struct ByLane;
using Column = ByLane;
struct Rounded;
using Bfloat16 = Rounded;
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
