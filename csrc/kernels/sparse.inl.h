// Products with sparse operands.

// The sums of some columns stay in registers over the entries of a turn: were they in memory, each entry would read and
// write them. What a turn takes of `dense` is near when the next columns take it, and what is fetched ahead still
// there. Sums have 16 registers of 32, or 8 of 16.
constexpr int kSumVectors = kTileRows * kTileVectors >= 16 ? 16 : 8;
constexpr int64_t kEntriesOfTurn = 32, kEntriesAhead = 16;

struct Turn {
  int64_t first, stop;  // the entries that are added
  int64_t last;         // up to which entries rows are fetched ahead
  bool begins;          // the sums, at zero
};

template <int kVectors>
inline void sum_columns(Csr csr, Turn turn, const float* dense, int64_t width, int64_t c, float* out) {
  Lanes sum[kVectors] = {};
  if (!turn.begins) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[v] = *reinterpret_cast<const Lanes*>(out + c + v * kLanes);
  }
  // Many rows have one or two entries: what an unrolled loop begins and ends with would take longer than these.
#pragma GCC unroll 1
  for (int64_t j = turn.first; j < turn.stop; ++j) {
    if (j + kEntriesAhead < turn.last)  // rows of `dense` lie anywhere in a large table
      fetch(dense + csr.indices[j + kEntriesAhead] * width + c, kVectors * kLanes);
    const float* row = dense + csr.indices[j] * width + c;
    const float x = csr.data[j];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[v] += x * *reinterpret_cast<const Lanes*>(row + v * kLanes);
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) *reinterpret_cast<Lanes*>(out + c + v * kLanes) = sum[v];
}

// From column c on, as many as make whole blocks of so many vectors, and then of half as many; returns where these end.
template <int kVectors>
inline int64_t sum_blocks(Csr csr, Turn turn, const float* dense, int64_t width, int64_t c, float* out) {
  for (; c + kVectors * kLanes <= width; c += kVectors * kLanes) sum_columns<kVectors>(csr, turn, dense, width, c, out);
  if constexpr (kVectors > 1) return sum_blocks<kVectors / 2>(csr, turn, dense, width, c, out);
  return c;
}

// Row i of the product. Rows of `dense` are fetched ahead for entries before `last`, for none if it is 0.
inline void sum_row(Csr csr, int64_t i, const float* dense, int64_t width, int64_t last, float* sums) {
  const int64_t first = csr.indptr[i], stop = csr.indptr[i + 1];
  int64_t done = 0, j = first;
  do {
    const int64_t next = stop - j < kEntriesOfTurn ? stop : j + kEntriesOfTurn;
    done = sum_blocks<kSumVectors>(csr, {j, next, last, j == first}, dense, width, 0, sums);
    j = next;
  } while (j < stop);
  if (done == width) return;
  if (width > kLanes) {  // a last vector, of which some columns are summed once more
    sum_columns<1>(csr, {first, stop, last, true}, dense, width, width - kLanes, sums);
    return;
  }
  for (int64_t c = 0; c < width; ++c) sums[c] = 0;  // less than a vector
  for (j = first; j < stop; ++j) {
    const float* row = dense + csr.indices[j] * width;
    if (j + kEntriesAhead < last) fetch(dense + csr.indices[j + kEntriesAhead] * width);
    for (int64_t c = 0; c < width; ++c) sums[c] += csr.data[j] * row[c];
  }
}

void csr_matmul(Csr csr, const float* dense, int64_t width, float* out, int64_t begin, int64_t end) {
  const int64_t last = csr.indptr[end];
  for (int64_t i = begin; i < end; ++i) sum_row(csr, i, dense, width, last, out + i * width);
}

// The support of the next label, which lies anywhere in a large table.
inline void prefetch_support(Support support, int64_t a, int64_t end) {
  if (a >= end) return;
  const int64_t stop = support.indptr[support.active[a] + 1];
  for (int64_t j = support.indptr[support.active[a]]; j < stop; j += 16) fetch(support.features + j);
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
  if (t < end) fetch(batch.strips + batch.lists[touched.slots[t]].first);
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

// Weights of a label whose features have dense rows, put off until there are enough to add up in registers.
struct PutOff {
  int32_t rows[kEntriesOfTurn];
  float weights[kEntriesOfTurn];
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
    PutOff frequent;
    for (int64_t t = touched.indptr[a]; t < touched.indptr[a + 1]; ++t) {
      if (t + kWeightsAhead < last) fetch(weights + touched.positions[t + kWeightsAhead]);
      prefetch_strips(batch, touched, t + kStripsAhead, last);
      const StripList list = batch.lists[touched.slots[t]];
      const float weight = weights[touched.positions[t]];
      if (list.count < 0) {
        frequent.rows[frequent.count] = list.first;
        frequent.weights[frequent.count++] = weight;
        if (frequent.count == kEntriesOfTurn) frequent.add_to(scores, batch.dense, n);
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
