// Products with sparse operands.

float sparse_dot(const int32_t* ids, const float* values, int64_t count, const float* dense) {
  float sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += values[j] * dense[ids[j]];
  return sum;
}

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

void wide_count(Support support, const int32_t* slots, int64_t* counts, int64_t begin, int64_t end) {
  for (int64_t a = begin; a < end; ++a) {
    prefetch_support(support, a + 1, end);
    const int64_t stop = support.indptr[support.active[a] + 1];
    int32_t count = 0;
    for (int64_t j = support.indptr[support.active[a]]; j < stop; ++j) count += slots[support.features[j]] >= 0;
    counts[a] = count;
  }
}

void wide_touch(Support support, const int32_t* slots, Touched touched, int64_t begin, int64_t end) {
  for (int64_t a = begin; a < end; ++a) {
    prefetch_support(support, a + 1, end);
    const int64_t stop = support.indptr[support.active[a] + 1], room = touched.indptr[a + 1];
    int64_t at = touched.indptr[a];
    // Whether a feature is present is hard to predict: each is written, and stays if it is. Until there is no room.
    for (int64_t j = support.indptr[support.active[a]]; j < stop && at < room; ++j) {
      const int32_t slot = slots[support.features[j]];
      touched.positions[at] = j;
      touched.slots[at] = slot;
      at += slot >= 0;
    }
  }
}

// The posting list of a touched weight. It is short and of any length, so that a CPU guesses its end wrongly and throws
// away what it had begun of the next one: the loops below fetch the next list's ends before they walk through this one.
// A list that is long has its points in a dense row as well, and that goes faster.
struct PostingList {
  int64_t from, to;
  const float* dense;  // null, or a value for each point
};

inline PostingList list_of(Postings postings, int64_t n, int64_t slot) {
  const int64_t dense = postings.dense_of[slot];
  return {postings.starts[slot], postings.starts[slot + 1], dense < 0 ? nullptr : postings.dense + dense * n};
}

constexpr int64_t kWeightsAhead = 16;  // weights lie anywhere in a large table

void wide_forward(ConstTouched touched, const float* weights, Postings postings, float* __restrict out, int64_t n,
                  int64_t begin, int64_t end) {
  int64_t t = touched.indptr[begin];
  const int64_t last = touched.indptr[end];
  if (t == last) return;
  PostingList list = list_of(postings, n, touched.slots[t]);
  float weight = weights[touched.positions[t]];
  for (int64_t a = begin; a < end; ++a) {
    float* __restrict scores = out + a * n;
    while (t < touched.indptr[a + 1]) {
      if (t + kWeightsAhead < last) __builtin_prefetch(weights + touched.positions[t + kWeightsAhead]);
      const int64_t next = ++t < last ? t : last - 1;
      const PostingList next_list = list_of(postings, n, touched.slots[next]);
      const float next_weight = weights[touched.positions[next]];
      if (list.dense != nullptr)
        for (int64_t i = 0; i < n; ++i) scores[i] += weight * list.dense[i];
      else
        for (int64_t j = list.from; j < list.to; ++j) scores[postings.rows[j]] += weight * postings.values[j];
      list = next_list;
      weight = next_weight;
    }
  }
}

void wide_gradient(ConstTouched touched, Postings postings, const float* grad, int64_t n, float* out, int64_t begin,
                   int64_t end) {
  int64_t t = touched.indptr[begin];
  const int64_t last = touched.indptr[end];
  if (t == last) return;
  PostingList list = list_of(postings, n, touched.slots[t]);
  for (int64_t a = begin; a < end; ++a) {
    const float* g = grad + a * n;
    for (; t < touched.indptr[a + 1]; ++t) {
      const PostingList next_list = list_of(postings, n, touched.slots[t + 1 < last ? t + 1 : t]);
      if (list.dense != nullptr)
        out[t] = dot(g, list.dense, n);
      else
        out[t] = sparse_dot(postings.rows + list.from, postings.values + list.from, list.to - list.from, g);
      list = next_list;
    }
  }
}
