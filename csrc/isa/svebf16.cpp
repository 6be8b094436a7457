// aarch64 with SVE and products of bfloat16: plain loops at the machine's own width, the register block in NEON.
#include <arm_neon.h>

#define SPARSENET_LEVEL "svebf16"
#define SPARSENET_TABLE svebf16_table
#define SPARSENET_BF16

namespace sparsenet {
namespace {
// As in sve.cpp.
constexpr int kLanes = 4, kTileRows = 8, kTileVectors = 3;

// Each lane: sum += both products of a pair of bfloat16 by another.
inline float32x4_t add_pair_products(float32x4_t sum, float pair, float32x4_t pairs) {
  return vbfdotq_f32(sum, vreinterpretq_bf16_f32(vdupq_n_f32(pair)), vreinterpretq_bf16_f32(pairs));
}
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
