// bfloat16 products with AMX: four tiles of 16 x 16 sums, two tiles of A and two of B, each with 16 rows of 64 bytes.
// A row of an A tile is 16 words of one element. A row of a B tile is one word of each of 16 elements.

struct Tiles {
  static constexpr bool kInMatrices = true;
  static constexpr int64_t kDepthOfWord = 2, kWordsAbreastInA = 16, kWordsAbreastInB = 1;
  static constexpr int64_t kSide = 16, kBlockRows = 2 * kSide, kBlockCols = 2 * kSide;

  // Configures the tiles of a thread, and releases them afterwards: until then the system saves their state at every
  // context switch.
  struct Setup {
    Setup() {
      struct alignas(64) {
        uint8_t palette = 1, first_row = 0, reserved[14] = {};
        uint16_t bytes_of_row[16] = {};
        uint8_t rows[16] = {};
      } shape;
      for (int tile = 0; tile < 8; ++tile) {
        shape.bytes_of_row[tile] = 64;
        shape.rows[tile] = kSide;
      }
      // Headers of older compilers declare that 8 of the 64 bytes are read, so the compiler would drop the other
      // writes.
      __asm__ volatile("" ::"r"(&shape) : "memory");
      _tile_loadconfig(&shape);
    }
    ~Setup() { _tile_release(); }
    Setup(const Setup&) = delete;
    Setup& operator=(const Setup&) = delete;
  };

  static float word(float x, float next) { return pair_of_bfloat16(x, next); }

  // Converts sixteen words at a time. Unlike `word`, it turns subnormal numbers into zero. Products of a subnormal are
  // zero in both cases, except for one that `word` rounds up to the smallest normal number.
  static int64_t pairs(const float* row, int64_t count, float* words) {
    int64_t p = 0;
    for (; p + kSide <= count; p += kSide) {
      const float* from = row + 2 * p;
      _mm512_storeu_ps(words + p, (__m512)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + kSide), _mm512_loadu_ps(from)));
    }
    return p;
  }

  template <typename>
  static void multiply_block(const float* a, const float* b, int64_t n_words, float* out, int64_t ld,
                             const float* start, bool accumulate) {
    constexpr int64_t kTileRowBytes = kSide * sizeof(float), kPanelRowBytes = 2 * kTileRowBytes;
    __asm__ volatile("" ::: "memory");  // the compiler does not know which memory tile loads read
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t p = 0; p < n_words; p += kSide, a += kBlockRows * kSide, b += kBlockCols * kSide) {
      _tile_loadd(4, a, kTileRowBytes);
      _tile_loadd(6, b, kPanelRowBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + kSide, kPanelRowBytes);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, a + kSide * kSide, kTileRowBytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    alignas(64) float sums[kBlockRows * kBlockCols];
    const bool via_buffer = accumulate || start != nullptr;
    float* target = via_buffer ? sums : out;
    const int64_t stride = via_buffer ? kBlockCols : ld, bytes = stride * static_cast<int64_t>(sizeof(float));
    _tile_stored(0, target, bytes);
    _tile_stored(1, target + kSide, bytes);
    _tile_stored(2, target + kSide * stride, bytes);
    _tile_stored(3, target + kSide * stride + kSide, bytes);
    if (!via_buffer) return;
    for (int64_t i = 0; i < kBlockRows; ++i)
      for (int64_t j = 0; j < kBlockCols; ++j)
        out[i * ld + j] = (accumulate ? out[i * ld + j] : start[i]) + sums[i * kBlockCols + j];
  }
};
