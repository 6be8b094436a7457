// Products with sparse operands.

void csr_matmul(Csr csr, const float* dense, int64_t width, float* out, int64_t begin, int64_t end) {
  // The rows of `dense` lie anywhere in a large table: without prefetch this loop waits for memory.
  constexpr int64_t kAhead = 12;
  for (int64_t i = begin; i < end; ++i) {
    float* sum = out + i * width;
    memset(sum, 0, static_cast<size_t>(width) * sizeof(float));
    const int64_t stop = csr.indptr[i + 1];
    for (int64_t j = csr.indptr[i]; j < stop; ++j) {
      if (j + kAhead < csr.indptr[end]) {
        const float* next = dense + csr.indices[j + kAhead] * width;
        for (int64_t c = 0; c < width; c += 16) __builtin_prefetch(next + c);
      }
      const float* row = dense + csr.indices[j] * width;
      const float x = csr.data[j];
      for (int64_t c = 0; c < width; ++c) sum[c] += x * row[c];
    }
  }
}

// The support of the next label, which lies anywhere in a large table.
inline void prefetch_support(Support support, int64_t a, int64_t end) {
  if (a >= end) return;
  const int64_t stop = support.indptr[support.active[a] + 1];
  for (int64_t j = support.indptr[support.active[a]]; j < stop; j += 16) __builtin_prefetch(support.features + j);
}

void wide_touch(Support support, const int32_t* slots, int64_t* positions, int32_t* touched_slots, int64_t* counts,
                int64_t begin, int64_t end) {
  for (int64_t a = begin; a < end; ++a) {
    prefetch_support(support, a + 1, end);
    const int64_t first = support.indptr[support.active[a]], stop = support.indptr[support.active[a] + 1];
    counts[a] = find_present(support.features + first, stop - first, slots, first, positions, touched_slots);
    positions += counts[a];
    touched_slots += counts[a];
  }
}

// What a touched weight meets lies anywhere in tables that no L1 cache holds, and is fetched ahead.
constexpr int64_t kWeightsAhead = 32, kStripsAhead = 8;

inline void prefetch_strips(const Strips& batch, const Touched& touched, int64_t t, int64_t end) {
  if (t < end) __builtin_prefetch(batch.strips + batch.lists[touched.slots[t]].first);
}

// Two of three lists have one posting, and three of four at most two: whether a list has one strip is foreseen, where
// its number of postings is not. Points of a strip may repeat those of the one before, so a strip is plain arithmetic.
inline void add_strips(const Strip* strip, int32_t count, float factor, float* scores) {
#pragma GCC unroll 1
  for (int32_t j = 0; j < count; ++j, ++strip)
    for (int32_t k = 0; k < kStrip; ++k) scores[strip->points[k]] += factor * strip->values[k];
}

inline float dot_strips(const Strip* strip, int32_t count, const float* dense) {
  static_assert(kStrip == 4, "there is a sum for each posting of a strip");
  float sums[kStrip] = {};
#pragma GCC unroll 1
  for (int32_t j = 0; j < count; ++j, ++strip)
    for (int32_t k = 0; k < kStrip; ++k) sums[k] += strip->values[k] * dense[strip->points[k]];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void wide_forward(Touched touched, const float* weights, Strips batch, float* __restrict out, int64_t n, int64_t begin,
                  int64_t end) {
  const int64_t last = touched.indptr[end];
  for (int64_t a = begin; a < end; ++a) {
    float* __restrict scores = out + a * n;
    for (int64_t t = touched.indptr[a]; t < touched.indptr[a + 1]; ++t) {
      if (t + kWeightsAhead < last) __builtin_prefetch(weights + touched.positions[t + kWeightsAhead]);
      prefetch_strips(batch, touched, t + kStripsAhead, last);
      const StripList list = batch.lists[touched.slots[t]];
      const float weight = weights[touched.positions[t]];
      if (list.count < 0) {
        const float* __restrict row = batch.dense + list.first * n;
        for (int64_t i = 0; i < n; ++i) scores[i] += weight * row[i];
      } else {
        add_strips(batch.strips + list.first, list.count, weight, scores);
      }
    }
  }
}

void wide_gradient(Touched touched, Strips batch, const float* grad, int64_t n, float* out, int64_t begin,
                   int64_t end) {
  const int64_t last = touched.indptr[end];
  for (int64_t a = begin; a < end; ++a) {
    const float* g = grad + a * n;
    for (int64_t t = touched.indptr[a]; t < touched.indptr[a + 1]; ++t) {
      prefetch_strips(batch, touched, t + kStripsAhead, last);
      const StripList list = batch.lists[touched.slots[t]];
      out[t] = list.count < 0 ? dot(g, batch.dense + list.first * n, n)
                              : dot_strips(batch.strips + list.first, list.count, g);
    }
  }
}
