// Products with sparse operands.

// A row of the product is computed a chunk of entries at a time. The sums of a block of columns stay in registers over
// the chunk, because in memory they would be read and written for each entry. A chunk is short, so its rows of `dense`
// are still in the cache for the next block of columns. Sums use 16 registers of 32, or 8 of 16.
constexpr int kSumVectors = kTileRows * kTileVectors >= 16 ? 16 : 8;
constexpr int64_t kChunkEntries = 32, kEntriesAhead = 16;

struct Chunk {
  int64_t first, stop;  // the entries to add
  int64_t last;         // prefetch rows of entries before this one
  bool begins;          // the sums start at zero
};

template <int kVectors>
inline void sum_columns(Csr csr, Chunk chunk, const float* dense, int64_t width, int64_t c, float* out) {
  Lanes sum[kVectors] = {};
  if (!chunk.begins) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[v] = *reinterpret_cast<const Lanes*>(out + c + v * kLanes);
  }
  // Not unrolled: many rows have one or two entries, and the prologue and epilogue would take longer than these.
#pragma GCC unroll 1
  for (int64_t j = chunk.first; j < chunk.stop; ++j) {
    if (j + kEntriesAhead < chunk.last)  // rows of `dense` are scattered over a large table
      prefetch(dense + csr.indices[j + kEntriesAhead] * width + c, kVectors * kLanes);
    const float* row = dense + csr.indices[j] * width + c;
    const float x = csr.data[j];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[v] += x * *reinterpret_cast<const Lanes*>(row + v * kLanes);
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) *reinterpret_cast<Lanes*>(out + c + v * kLanes) = sum[v];
}

// Sums columns from c on, in blocks of kVectors vectors, then of half as many, and so on; returns the next column.
template <int kVectors>
inline int64_t sum_blocks(Csr csr, Chunk chunk, const float* dense, int64_t width, int64_t c, float* out) {
  for (; c + kVectors * kLanes <= width; c += kVectors * kLanes)
    sum_columns<kVectors>(csr, chunk, dense, width, c, out);
  if constexpr (kVectors > 1) return sum_blocks<kVectors / 2>(csr, chunk, dense, width, c, out);
  return c;
}

// Computes row i of the product. Prefetches rows of `dense` for entries before `last`; none if `last` is 0.
inline void sum_row(Csr csr, int64_t i, const float* dense, int64_t width, int64_t last, float* sums) {
  const int64_t first = csr.indptr[i], stop = csr.indptr[i + 1];
  int64_t done = 0, j = first;
  do {
    const int64_t next = stop - j < kChunkEntries ? stop : j + kChunkEntries;
    done = sum_blocks<kSumVectors>(csr, {j, next, last, j == first}, dense, width, 0, sums);
    j = next;
  } while (j < stop);
  if (done == width) return;
  if (width > kLanes) {  // a last vector that overlaps columns already summed
    sum_columns<1>(csr, {first, stop, last, true}, dense, width, width - kLanes, sums);
    return;
  }
  for (int64_t c = 0; c < width; ++c) sums[c] = 0;  // narrower than a vector
  for (j = first; j < stop; ++j) {
    const float* row = dense + csr.indices[j] * width;
    if (j + kEntriesAhead < last) prefetch(dense + csr.indices[j + kEntriesAhead] * width);
    for (int64_t c = 0; c < width; ++c) sums[c] += csr.data[j] * row[c];
  }
}

void csr_matmul(Csr csr, const float* dense, int64_t width, float* out, int64_t begin, int64_t end) {
  const int64_t last = csr.indptr[end];
  for (int64_t i = begin; i < end; ++i) sum_row(csr, i, dense, width, last, out + i * width);
}

void widen_row(const int8_t* __restrict codes, float step, int64_t count, float* __restrict out) {
  for (int64_t j = 0; j < count; ++j) out[j] = step * static_cast<float>(codes[j]);
}

// A column is summed in the order of entries, as in `csr_matmul`. The floats of a row go through memory, so that the
// compiler cannot multiply in another order, which would change the last bits.
void csr_matmul_narrow(Csr csr, NarrowRows dense, int64_t width, float* __restrict row, float* __restrict out,
                       int64_t begin, int64_t end) {
  constexpr int64_t kLine = 64;
  const int64_t last = csr.indptr[end];
  for (int64_t i = begin; i < end; ++i) {
    float* __restrict sums = out + i * width;
    for (int64_t c = 0; c < width; ++c) sums[c] = 0;
    for (int64_t j = csr.indptr[i]; j < csr.indptr[i + 1]; ++j) {
      if (j + kEntriesAhead < last)
        for (int64_t b = 0; b < width; b += kLine) prefetch(dense.codes + csr.indices[j + kEntriesAhead] * width + b);
      const int64_t id = csr.indices[j];
      widen_row(dense.codes + id * width, from_bfloat16(dense.steps[id]), width, row);
      const float x = csr.data[j];
      for (int64_t c = 0; c < width; ++c) sums[c] += x * row[c];
    }
  }
}

// Prefetches the support of the next label, which may be anywhere in a large table.
inline void prefetch_support(Support support, int64_t a, int64_t end) {
  if (a >= end) return;
  const int64_t stop = support.indptr[support.active[a] + 1];
  for (int64_t j = support.indptr[support.active[a]]; j < stop; j += 16) prefetch(support.features + j);
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

// Weights and strips are scattered over tables larger than the first-level cache, so they are prefetched.
constexpr int64_t kWeightsAhead = 32, kStripsAhead = 8;

inline void prefetch_strips(const Strips& batch, const Touched& touched, int64_t t, int64_t end) {
  if (t < end) prefetch(batch.strips + batch.lists[touched.slots[t]].first);
}

// Two of three lists have one posting, and three of four have at most two. A CPU predicts well whether a list has one
// strip, but not how many postings it has. Adding a strip needs no branch.
inline void add_strips(const Strip* strip, int32_t count, float factor, float* scores) {
#pragma GCC unroll 1
  for (int32_t j = 0; j < count; ++j, ++strip)
    for (int32_t k = 0; k < kStrip; ++k) scores[strip->points[k]] += factor * strip->values[k];
}

inline float dot_strips(const Strip* strip, int32_t count, const float* dense) {
  static_assert(kStrip == 4, "the sums below are written out");
  float sums[kStrip] = {};
#pragma GCC unroll 1
  for (int32_t j = 0; j < count; ++j, ++strip)
    for (int32_t k = 0; k < kStrip; ++k) sums[k] += strip->values[k] * dense[strip->points[k]];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Weights of a label whose features have dense rows, collected until there are enough to sum them in registers.
struct DeferredWeights {
  int32_t rows[kChunkEntries];
  float weights[kChunkEntries];
  int64_t count = 0;

  void add_to(float* scores, const float* dense, int64_t n) {
    const Csr entries = {nullptr, rows, weights};
    const int64_t done = sum_blocks<kSumVectors>(entries, {0, count, count, false}, dense, n, 0, scores);
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = done; i < n; ++i) scores[i] += weights[j] * dense[rows[j] * n + i];
    count = 0;
  }
};

void wide_forward(Touched touched, const float* weights, Strips batch, float* __restrict out, int64_t n, int64_t begin,
                  int64_t end) {
  const int64_t last = touched.indptr[end];
  for (int64_t a = begin; a < end; ++a) {
    float* __restrict scores = out + a * n;
    DeferredWeights frequent;
    for (int64_t t = touched.indptr[a]; t < touched.indptr[a + 1]; ++t) {
      if (t + kWeightsAhead < last) prefetch(weights + touched.positions[t + kWeightsAhead]);
      prefetch_strips(batch, touched, t + kStripsAhead, last);
      const StripList list = batch.lists[touched.slots[t]];
      const float weight = weights[touched.positions[t]];
      if (list.count < 0) {
        frequent.rows[frequent.count] = list.first;
        frequent.weights[frequent.count++] = weight;
        if (frequent.count == kChunkEntries) frequent.add_to(scores, batch.dense, n);
      } else {
        add_strips(batch.strips + list.first, list.count, weight, scores);
      }
    }
    if (frequent.count > 0) frequent.add_to(scores, batch.dense, n);
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
