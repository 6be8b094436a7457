// The dense matrix product: a block of the result stays in registers over the whole depth.
// One source for every precision: a word of a packed panel holds one float, or two consecutive elements in bfloat16.

constexpr int64_t kPackDepth = 512;  // words of a row that are packed at a time
constexpr int64_t kRowsAhead = 12;   // rows to prefetch from a table that is larger than the caches

// Converts `depth` consecutive elements of a row to words, padded with zeros.
template <typename Precision>
void make_words(const float* row, int64_t depth, float* words) {
  constexpr int64_t step = Precision::kDepthOfWord;
  int64_t used = depth / step;
  for (int64_t p = Precision::pairs(row, used, words); p < used; ++p)
    words[p] = Precision::word(row[p * step], row[p * step + step - 1]);
  if (depth % step != 0) words[used++] = Precision::word(row[depth - 1], 0.0f);
  for (; used % kWordsPaddedTo<Precision> != 0; ++used) words[used] = 0.0f;
}

inline const float* row_of(Operand source, int64_t i) {
  return source.data + (source.gather != nullptr ? source.gather[i] : i) * source.stride;
}

// Packs a panel of rows of the operand: reads each row whole and scatters its words over the panel. Prefetches rows up
// to `end`, which belong to the panels that follow.
template <typename Precision, int64_t kPanel, int64_t kAbreast>
void pack_rows(Operand source, int64_t first, int64_t count, int64_t end, int64_t depth_first, int64_t depth,
               float* out) {
  constexpr int64_t step = Precision::kDepthOfWord;
  const int64_t n_words = words_of<Precision>(depth);
  static_assert(kPackDepth % kWordsPaddedTo<Precision> == 0, "a panel must not end within words side by side");
  float words[kPackDepth];
  for (int64_t i = 0; i < count; ++i) {
    if (first + i + kRowsAhead < end) prefetch(row_of(source, first + i + kRowsAhead) + depth_first, depth);
    const float* row = row_of(source, first + i) + depth_first;
    for (int64_t begin = 0; begin < n_words; begin += kPackDepth) {
      const int64_t n = n_words - begin < kPackDepth ? n_words - begin : kPackDepth;
      const int64_t left = depth - begin * step;
      make_words<Precision>(row + begin * step, left < n * step ? left : n * step, words);
      for (int64_t p = 0; p < n; p += kAbreast)
        memcpy(out + place<kAbreast, kPanel>(begin + p, i), words + p, kAbreast * sizeof(float));
    }
  }
}

// Packs panels of columns of the operand: a word joins the elements of `step` rows, with zeros after the last row.
template <typename Precision, int64_t kPanel, int64_t kAbreast>
void pack_columns(Operand source, int64_t first, int64_t count, int64_t depth_first, int64_t depth, float* out) {
  constexpr int64_t step = Precision::kDepthOfWord;
  const int64_t n_words = words_of<Precision>(depth), size = kPanel * n_words;
  constexpr int64_t kColumns = 8 * kPanel;  // packed at a time, in one vector loop even if panels are narrow
  static const float zeros[kColumns] = {};
  for (int64_t p = 0; p < depth && p < kRowsAhead; ++p) prefetch(row_of(source, depth_first + p) + first, count);
  for (int64_t begin = 0; begin < count; begin += kColumns, out += 8 * size) {
    float words[kAbreast][kColumns] = {};
    const int64_t columns = count - begin < kColumns ? count - begin : kColumns;
    const auto row_at = [&](int64_t p) { return p < depth ? row_of(source, depth_first + p) + first + begin : zeros; };
    for (int64_t p = 0; p < n_words * step; p += step * kAbreast) {
      for (int64_t later = p + kRowsAhead; later < p + kRowsAhead + step * kAbreast && later < depth; ++later)
        prefetch(row_of(source, depth_first + later) + first + begin, columns);
      for (int64_t w = 0; w < kAbreast; ++w) {
        const float *row = row_at(p + w * step), *next = row_at(p + w * step + step - 1);
        for (int64_t i = 0; i < columns; ++i) words[w][i] = Precision::word(row[i], next[i]);
      }
      float* target = out + p / step * kPanel;
      for (int64_t i = 0; i < columns; i += kPanel, target += size)
        for (int64_t c = 0; c < kPanel; ++c)
          for (int64_t w = 0; w < kAbreast; ++w) target[c * kAbreast + w] = words[w][i + c];
    }
  }
}

template <typename Precision, int64_t kPanel, int64_t kAbreast>
void pack(Operand source, bool along_rows, int64_t first, int64_t count, int64_t depth_first, int64_t depth,
          float* out) {
  const int64_t size = kPanel * words_of<Precision>(depth);
  if (!along_rows) return pack_columns<Precision, kPanel, kAbreast>(source, first, count, depth_first, depth, out);
  for (int64_t i = 0; i < count && i < kRowsAhead; ++i) prefetch(row_of(source, first + i) + depth_first, depth);
  for (int64_t q = 0; q < count; q += kPanel, out += size) {
    const int64_t used = count - q < kPanel ? count - q : kPanel;
    if (used < kPanel) memset(out, 0, static_cast<size_t>(size) * sizeof(float));
    pack_rows<Precision, kPanel, kAbreast>(source, first + q, used, first + count, depth_first, depth, out);
  }
}

// Computes one register block. Uses vector types because with scalars compilers do not keep `sum` in registers.
template <typename Precision>
inline void InVectors::multiply_block(const float* a, const float* b, int64_t n_words, float* out, int64_t ld,
                                      const float* start, bool accumulate) {
  constexpr int64_t padded = kWordsPaddedTo<Precision>, step = Precision::kWordsOfStep;
  static_assert(padded % step == 0, "the last words would be skipped");
  Lanes sum[Precision::kSumRows][Precision::kSumCols] = {};
  for (int64_t p = 0; p < n_words; p += padded, a += kTileRows * padded) {
    for (int64_t q = 0; q < padded; q += step, b += kTileCols * step) {
      Lanes column[Precision::kSumCols];
#pragma GCC unroll 16
      for (int v = 0; v < Precision::kSumCols; ++v) column[v] = *reinterpret_cast<const Lanes*>(b + v * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < Precision::kSumRows; ++i) {
        const auto left = Precision::left(a + q, i);
#pragma GCC unroll 16
        for (int v = 0; v < Precision::kSumCols; ++v) sum[i][v] = Precision::multiply_add(sum[i][v], left, column[v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kTileVectors; ++v) {
      Lanes* target = reinterpret_cast<Lanes*>(out + i * ld + v * kLanes);
      const Lanes result = Precision::result(sum, i, v);
      *target = accumulate ? *target + result : start != nullptr ? start[i] + result : result;
    }
  }
}

template <typename Precision>
void multiply(const float* a, const float* b, int64_t m, int64_t n, int64_t depth, float* out, int64_t ld,
              const float* start, bool accumulate) {
  constexpr int64_t kRows = Precision::kBlockRows, kCols = Precision::kBlockCols;
  const int64_t n_words = words_of<Precision>(depth);
  [[maybe_unused]] const typename Precision::Setup setup;
  float edge[kRows * kCols];
  for (int64_t j = 0; j < n; j += kCols) {
    for (int64_t i = 0; i < m; i += kRows) {
      const float* a_panel = a + i * n_words;
      const float* b_panel = b + j * n_words;
      float* target = out + i * ld + j;
      if (i + kRows <= m && j + kCols <= n) {
        const float* own_start = start != nullptr ? start + i : nullptr;
        Precision::template multiply_block<Precision>(a_panel, b_panel, n_words, target, ld, own_start, accumulate);
        continue;
      }
      // A block that crosses the edge: the same arithmetic into a buffer, then copy the part inside.
      Precision::template multiply_block<Precision>(a_panel, b_panel, n_words, edge, kCols, nullptr, false);
      const int64_t rows = m - i < kRows ? m - i : kRows;
      const int64_t cols = n - j < kCols ? n - j : kCols;
      for (int64_t r = 0; r < rows; ++r) {
        const float begin = start != nullptr ? start[i + r] : 0.0f;
        for (int64_t c = 0; c < cols; ++c)
          target[r * ld + c] = (accumulate ? target[r * ld + c] : begin) + edge[r * kCols + c];
      }
    }
  }
}

template <typename Precision>
constexpr MatmulKernels matmul_of() {
  MatmulKernels kernels = {};
  kernels.tile_rows = Precision::kBlockRows;
  kernels.tile_cols = Precision::kBlockCols;
  kernels.depth_of_word = Precision::kDepthOfWord;
  kernels.words_padded_to = kWordsPaddedTo<Precision>;
  kernels.in_matrices = Precision::kInMatrices;
  kernels.pack_a = pack<Precision, Precision::kBlockRows, Precision::kWordsAbreastInA>;
  kernels.pack_b = pack<Precision, Precision::kBlockCols, Precision::kWordsAbreastInB>;
  kernels.multiply = multiply<Precision>;
  return kernels;
}

// Sums in several vectors: with a single one each addition would wait four cycles for the previous addition.
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

// Prefetches rows even if they are consecutive: without it Zen 5 reads 17 GB/s instead of 35.
void dot_rows(const float* x, const float* weight, int64_t width, const int32_t* ids, int64_t first, int64_t count,
              float* out) {
  constexpr int64_t kAhead = 16;
  const auto row = [=](int64_t j) { return weight + (ids != nullptr ? ids[j] : first + j) * width; };
  for (int64_t j = 0; j < count; ++j) {
    if (j + kAhead < count) prefetch(row(j + kAhead), width);
    out[j] = dot(x, row(j), width);
  }
}

void dot_bytes(const float* x, const int8_t* matrix, int64_t width, const int32_t* ids, int64_t count, float* out) {
  constexpr int64_t kAbreast = 4, kAhead = 16;  // rows: each part of x is read once for all rows abreast
  const auto row = [=](int64_t j) { return matrix + ids[j] * width; };
  int64_t j = 0;
  for (; j + kAbreast <= count; j += kAbreast) {
    for (int64_t ahead = j + kAhead; ahead < j + kAhead + kAbreast && ahead < count; ++ahead)
      for (int64_t c = 0; c < width; c += 64) prefetch(row(ahead) + c);
    const int8_t *a = row(j), *b = row(j + 1), *c = row(j + 2), *d = row(j + 3);
    float u = 0, v = 0, w = 0, y = 0;
    for (int64_t k = 0; k < width; ++k) {
      u += x[k] * static_cast<float>(a[k]);
      v += x[k] * static_cast<float>(b[k]);
      w += x[k] * static_cast<float>(c[k]);
      y += x[k] * static_cast<float>(d[k]);
    }
    out[j] = u, out[j + 1] = v, out[j + 2] = w, out[j + 3] = y;
  }
  for (; j < count; ++j) {
    const int8_t* own = row(j);
    float sum = 0;
    for (int64_t k = 0; k < width; ++k) sum += x[k] * static_cast<float>(own[k]);
    out[j] = sum;
  }
}
