// The register block of both aarch64 instruction sets with bfloat16, in NEON. Included inside their namespace.

// See neon.cpp. For bfloat16, 24 registers hold 2 x 2 sums each, and six hold columns of B.
constexpr int kLanes = 4, kTileRows = 8, kTileVectors = 3;
static_assert(kLanes == 4 && kTileRows % 2 == 0, "a vector holds two words of each of two rows");

// bfmmla computes twice as many products as bfdot at the same instruction rate on Neoverse V1 and V2 (bench/mca.py).
struct Instructions {
  static float32x4_t add_square_products(float32x4_t sum, float32x4_t a, float32x4_t b) {
    return vbfmmlaq_f32(sum, vreinterpretq_bf16_f32(a), vreinterpretq_bf16_f32(b));
  }
  static float32x4_t upper_rows(float32x4_t left, float32x4_t right) {
    return vcombine_f32(vget_low_f32(left), vget_low_f32(right));
  }
  static float32x4_t lower_rows(float32x4_t left, float32x4_t right) {
    return vcombine_f32(vget_high_f32(left), vget_high_f32(right));
  }
};
struct ByLane;
using Column = ByLane;
template <typename>
struct Squares;
using Bfloat16 = Squares<Instructions>;
