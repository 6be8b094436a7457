// The dense matrix product: a register block of kTileRows x kTileCols, held in vector registers over the whole depth.
// One source for every precision: a word of a packed panel holds one float or, where the level multiplies them, two
// neighbours in depth as bfloat16, and a `Precision` says how words are made and how two of them are multiplied.

typedef float Lanes __attribute__((vector_size(kLanes * 4), aligned(4)));
constexpr int64_t kTileCols = kTileVectors * kLanes;
constexpr int64_t kPackDepth = 512;  // words of a row that are made at a time

// An element of A's column, of which a register block multiplies every one by a vector of B. NEON multiplies by one
// lane of a vector: two registers hold the whole column there. Loaded one by one, its elements took a register each,
// and four of the sums had to go through memory in every step.
#if defined(__ARM_NEON)
struct Element {
  Lanes four;
  int lane;
};
inline float value(Element a) { return a.four[a.lane]; }
#else
typedef float Element;
inline float value(Element a) { return a; }
#endif

struct Single {
  static constexpr int64_t kDepthOfWord = 1;
  static float word(float x, float) { return x; }
  static Lanes multiply_add(Lanes sum, Element a, Lanes b) { return sum + value(a) * b; }
};

// The upper 16 bits of the nearest bfloat16, ties to even, as bits of a float; the lower half is not cleared. Carrying
// out of the mantissa is right: it gives the next power of two and, beyond the largest number, infinity.
inline uint32_t bfloat16_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  const uint32_t is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return (bits + (1 - is_nan) * (0x7fffu + ((bits >> 16) & 1u))) | (is_nan << 22);
}

inline float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

#if defined(SPARSENET_BF16)
struct Half {  // add_pair_products is the level's own; on Arm it takes a vector and the number of a lane
  static constexpr int64_t kDepthOfWord = 2;
  static float word(float x, float next) {
    return float_of_bits((bfloat16_bits(x) >> 16) | (bfloat16_bits(next) & 0xffff0000u));
  }
#if defined(__ARM_NEON)
  static Lanes multiply_add(Lanes sum, Element a, Lanes b) { return add_pair_products(sum, a.four, a.lane, b); }
#else
  static Lanes multiply_add(Lanes sum, Element a, Lanes b) { return add_pair_products(sum, a, b); }
#endif
};
#else
struct Half {  // no instruction for it: the same numbers, at the speed of floats
  static constexpr int64_t kDepthOfWord = 1;
  static float word(float x, float) { return float_of_bits(bfloat16_bits(x) & 0xffff0000u); }
  static Lanes multiply_add(Lanes sum, Element a, Lanes b) { return sum + value(a) * b; }
};
#endif

// Words of `depth` neighbours of a row, one beside the other.
template <typename Precision>
void make_words(const float* row, int64_t depth, float* words) {
  constexpr int64_t step = Precision::kDepthOfWord;
  const int64_t whole = depth / step;
  for (int64_t p = 0; p < whole; ++p) words[p] = Precision::word(row[p * step], row[p * step + step - 1]);
  if (depth % step != 0) words[whole] = Precision::word(row[depth - 1], 0.0f);
}

inline const float* row_of(Operand source, int64_t i) {
  return source.data + (source.gather != nullptr ? source.gather[i] : i) * source.stride;
}

// Panels along the operand's rows: its rows are read whole and strewn over their panel.
template <typename Precision, int64_t kPanel>
void pack_rows(Operand source, int64_t first, int64_t count, int64_t depth_first, int64_t depth, float* out) {
  constexpr int64_t step = Precision::kDepthOfWord;
  const int64_t n_words = (depth + step - 1) / step;
  constexpr int64_t kAhead = 2;  // gathered rows lie anywhere in a large table
  float words[kPackDepth];
  for (int64_t i = 0; i < count; ++i) {
    if (source.gather != nullptr && i + kAhead < count) {
      const float* later = row_of(source, first + i + kAhead) + depth_first;
      for (int64_t c = 0; c < depth; c += 16) __builtin_prefetch(later + c);
    }
    const float* row = row_of(source, first + i) + depth_first;
    for (int64_t begin = 0; begin < n_words; begin += kPackDepth) {
      const int64_t n = n_words - begin < kPackDepth ? n_words - begin : kPackDepth;
      const int64_t left = depth - begin * step;
      make_words<Precision>(row + begin * step, left < n * step ? left : n * step, words);
      for (int64_t p = 0; p < n; ++p) out[(begin + p) * kPanel + i] = words[p];
    }
  }
}

// Panels along the operand's columns: a word joins neighbours of `step` rows; beyond the last row there are zeros.
template <typename Precision, int64_t kPanel>
void pack_columns(Operand source, int64_t first, int64_t count, int64_t depth_first, int64_t depth, float* out) {
  constexpr int64_t step = Precision::kDepthOfWord;
  const int64_t size = kPanel * ((depth + step - 1) / step);
  constexpr int64_t kColumns =
      8 * kPanel;  // whose words are made at a time: in one vector loop, however narrow panels are
  static const float zeros[kColumns] = {};
  for (int64_t begin = 0; begin < count; begin += kColumns, out += 8 * size) {
    float words[kColumns] = {};
    const int64_t columns = count - begin < kColumns ? count - begin : kColumns;
    for (int64_t p = 0; p < depth; p += step) {
      const float* row = row_of(source, depth_first + p) + first + begin;
      const float* next = p + step > depth ? zeros : row_of(source, depth_first + p + step - 1) + first + begin;
      for (int64_t i = 0; i < columns; ++i) words[i] = Precision::word(row[i], next[i]);
      float* target = out + p / step * kPanel;
      for (int64_t i = 0; i < columns; i += kPanel, target += size) memcpy(target, words + i, kPanel * sizeof(float));
    }
  }
}

template <typename Precision, int64_t kPanel>
void pack(Operand source, bool along_rows, int64_t first, int64_t count, int64_t depth_first, int64_t depth,
          float* out) {
  constexpr int64_t step = Precision::kDepthOfWord;
  const int64_t size = kPanel * ((depth + step - 1) / step);
  if (!along_rows) return pack_columns<Precision, kPanel>(source, first, count, depth_first, depth, out);
  for (int64_t q = 0; q < count; q += kPanel, out += size) {
    const int64_t used = count - q < kPanel ? count - q : kPanel;
    if (used < kPanel) memset(out, 0, static_cast<size_t>(size) * sizeof(float));
    pack_rows<Precision, kPanel>(source, first + q, used, depth_first, depth, out);
  }
}

// One register block. Written over vector types, not scalars, because compilers keep `sum` in registers only so.
template <typename Precision>
inline void multiply_tile(const float* a, const float* b, int64_t n_words, float* out, int64_t ld, bool accumulate) {
  Lanes sum[kTileRows][kTileVectors] = {};
  for (int64_t p = 0; p < n_words; ++p, a += kTileRows, b += kTileCols) {
    Lanes column[kTileVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kTileVectors; ++v) column[v] = *reinterpret_cast<const Lanes*>(b + v * kLanes);
#if defined(__ARM_NEON)
    Lanes row[kTileRows / kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows / kLanes; ++i) row[i] = *reinterpret_cast<const Lanes*>(a + i * kLanes);
    const auto element = [&](int i) -> Element { return {row[i / kLanes], i % kLanes}; };
#else
    const auto element = [&](int i) -> Element { return a[i]; };
#endif
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kTileVectors; ++v) sum[i][v] = Precision::multiply_add(sum[i][v], element(i), column[v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kTileVectors; ++v) {
      Lanes* target = reinterpret_cast<Lanes*>(out + i * ld + v * kLanes);
      *target = accumulate ? *target + sum[i][v] : sum[i][v];
    }
  }
}

template <typename Precision>
void multiply(const float* a, const float* b, int64_t m, int64_t n, int64_t depth, float* out, int64_t ld,
              bool accumulate) {
  constexpr int64_t step = Precision::kDepthOfWord;
  const int64_t n_words = (depth + step - 1) / step;
  float edge[kTileRows * kTileCols];
  for (int64_t j = 0; j < n; j += kTileCols) {
    for (int64_t i = 0; i < m; i += kTileRows) {
      const float* a_panel = a + i * n_words;
      const float* b_panel = b + j * n_words;
      float* target = out + i * ld + j;
      if (i + kTileRows <= m && j + kTileCols <= n) {
        multiply_tile<Precision>(a_panel, b_panel, n_words, target, ld, accumulate);
        continue;
      }
      // A block that sticks out over the edge: the same arithmetic into a buffer, then copy what fits.
      multiply_tile<Precision>(a_panel, b_panel, n_words, edge, kTileCols, false);
      const int64_t rows = m - i < kTileRows ? m - i : kTileRows;
      const int64_t cols = n - j < kTileCols ? n - j : kTileCols;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
          target[r * ld + c] = (accumulate ? target[r * ld + c] : 0.0f) + edge[r * kTileCols + c];
    }
  }
}

template <typename Precision>
constexpr Matmul matmul_of() {
  return {
      kTileRows,          kTileCols, Precision::kDepthOfWord, pack<Precision, kTileRows>, pack<Precision, kTileCols>,
      multiply<Precision>};
}

// Sums in several vectors: one alone would make each step wait for the one before, four times as long as it works.
inline float dot(const float* x, const float* y, int64_t width) {
  constexpr int64_t kSums = kLanes <= 4 ? 8 : 4, kStep = kSums * kLanes;
  Lanes sum[kSums] = {};
  int64_t c = 0;
  for (; c + kStep <= width; c += kStep) {
#pragma GCC unroll 16
    for (int64_t v = 0; v < kSums; ++v)
      sum[v] +=
          *reinterpret_cast<const Lanes*>(x + c + v * kLanes) * *reinterpret_cast<const Lanes*>(y + c + v * kLanes);
  }
#pragma GCC unroll 4
  for (int64_t half = kSums / 2; half > 0; half /= 2)
#pragma GCC unroll 16
    for (int64_t v = 0; v < half; ++v) sum[v] += sum[v + half];
  float total = 0;
  for (int l = 0; l < kLanes; ++l) total += sum[0][l];
  for (; c < width; ++c) total += x[c] * y[c];
  return total;
}

void dot_rows(const float* x, const float* weight, int64_t width, const int32_t* ids, int64_t first, int64_t count,
              float* out) {
  constexpr int64_t kAhead = 8;
  for (int64_t j = 0; j < count; ++j) {
    if (ids != nullptr && j + kAhead < count) {
      const float* next = weight + ids[j + kAhead] * width;
      for (int64_t c = 0; c < width; c += 16) __builtin_prefetch(next + c);
    }
    const float* row = weight + (ids != nullptr ? ids[j] : first + j) * width;
    out[j] = dot(x, row, width);
  }
}
