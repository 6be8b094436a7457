// aarch64 with SVE and instructions for bfloat16: plain loops use the vector width of the machine, the register block
// uses NEON.
#include <arm_neon.h>

#define SPARSENET_LEVEL "svebf16"
#define SPARSENET_TABLE svebf16_table

namespace sparsenet {
namespace {
#include "bfmmla.inl.h"
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
