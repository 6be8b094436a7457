// aarch64 with instructions for bfloat16 but without SVE: AmpereOne, Apple's M2 and later.
#include <arm_neon.h>

#define SPARSENET_LEVEL "neonbf16"
#define SPARSENET_TABLE neonbf16_table

namespace sparsenet {
namespace {
#include "bfmmla.inl.h"
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
