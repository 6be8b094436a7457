// aarch64 with SVE and products of bfloat16: plain loops at the machine's own width, the register block in NEON.
#include <arm_neon.h>

#define SPARSENET_LEVEL "svebf16"
#define SPARSENET_TABLE svebf16_table

namespace sparsenet {
namespace {
#include "bfmmla.inl.h"
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
