// The dense matrix product: a register block of kTileRows x kTileCols, held in vector registers over the whole depth.

typedef float Lanes __attribute__((vector_size(kLanes * 4), aligned(4)));
constexpr int64_t kTileCols = kTileVectors * kLanes;

void pack(Operand source, bool along_rows, int64_t first, int64_t count, int64_t depth_first, int64_t depth,
          int64_t panel, float* out) {
  const auto row_of = [&](int64_t i) {
    return source.data + (source.gather != nullptr ? source.gather[i] : i) * source.stride;
  };
  for (int64_t q = 0; q < count; q += panel, out += panel * depth) {
    const int64_t used = count - q < panel ? count - q : panel;
    if (used < panel) memset(out, 0, static_cast<size_t>(panel * depth) * sizeof(float));
    if (along_rows) {
      for (int64_t i = 0; i < used; ++i) {
        const float* row = row_of(first + q + i) + depth_first;
        for (int64_t p = 0; p < depth; ++p) out[p * panel + i] = row[p];
      }
    } else {
      for (int64_t p = 0; p < depth; ++p)
        memcpy(out + p * panel, row_of(depth_first + p) + first + q, static_cast<size_t>(used) * sizeof(float));
    }
  }
}

// One register block. Written over vector types, not scalars, because compilers keep `sum` in registers only so.
inline void multiply_tile(const float* a, const float* b, int64_t depth, float* out, int64_t ld, bool accumulate) {
  Lanes sum[kTileRows][kTileVectors] = {};
  for (int64_t p = 0; p < depth; ++p, a += kTileRows, b += kTileCols) {
    Lanes column[kTileVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kTileVectors; ++v) column[v] = *reinterpret_cast<const Lanes*>(b + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kTileVectors; ++v) sum[i][v] += a[i] * column[v];
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

void multiply(const float* a, const float* b, int64_t m, int64_t n, int64_t depth, float* out, int64_t ld,
              bool accumulate) {
  float edge[kTileRows * kTileCols];
  for (int64_t j = 0; j < n; j += kTileCols) {
    for (int64_t i = 0; i < m; i += kTileRows) {
      const float* a_panel = a + i * depth;
      const float* b_panel = b + j * depth;
      float* target = out + i * ld + j;
      if (i + kTileRows <= m && j + kTileCols <= n) {
        multiply_tile(a_panel, b_panel, depth, target, ld, accumulate);
        continue;
      }
      // A block that sticks out over the edge: the same arithmetic into a buffer, then copy what fits.
      multiply_tile(a_panel, b_panel, depth, edge, kTileCols, false);
      const int64_t rows = m - i < kTileRows ? m - i : kTileRows;
      const int64_t cols = n - j < kTileCols ? n - j : kTileCols;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
          target[r * ld + c] = (accumulate ? target[r * ld + c] : 0.0f) + edge[r * kTileCols + c];
    }
  }
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
    float sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += x[c] * row[c];
    out[j] = sum;
  }
}
