// aarch64 with SVE and products of bfloat16: plain loops at the machine's own width, the register block in NEON.
#include <arm_neon.h>

#define SPARSENET_LEVEL "svebf16"
#define SPARSENET_TABLE svebf16_table
#define SPARSENET_BF16

namespace sparsenet {
namespace {
// As in sve.cpp.
constexpr int kLanes = 4, kTileRows = 8, kTileVectors = 3;

// Each lane: sum += both products of a pair of bfloat16 by another, which is one of `four`. `lane` is a constant once
// the loop around is unrolled; the instruction has no other form.
inline float32x4_t add_pair_products(float32x4_t sum, float32x4_t four, int lane, float32x4_t pairs) {
  const bfloat16x8_t a = vreinterpretq_bf16_f32(four), b = vreinterpretq_bf16_f32(pairs);
  switch (lane) {
    case 0:
      return vbfdotq_laneq_f32(sum, b, a, 0);
    case 1:
      return vbfdotq_laneq_f32(sum, b, a, 1);
    case 2:
      return vbfdotq_laneq_f32(sum, b, a, 2);
    default:
      return vbfdotq_laneq_f32(sum, b, a, 3);
  }
}
}  // namespace
}  // namespace sparsenet

#include "../kernels/kernels.inl.h"
