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

void wide_count(Support support, const int32_t* slots, int64_t* counts, int64_t begin, int64_t end) {
  for (int64_t a = begin; a < end; ++a) {
    prefetch_support(support, a + 1, end);
    const int64_t first = support.indptr[support.active[a]], stop = support.indptr[support.active[a] + 1];
    counts[a] = count_present(support.features + first, stop - first, slots);
  }
}

void wide_touch(Support support, const int32_t* slots, Touched touched, int64_t begin, int64_t end) {
  for (int64_t a = begin; a < end; ++a) {
    prefetch_support(support, a + 1, end);
    const int64_t first = support.indptr[support.active[a]], stop = support.indptr[support.active[a] + 1];
    const int64_t at = touched.indptr[a], room = touched.indptr[a + 1] - at;
    find_present(support.features + first, stop - first, slots, first, room, touched.positions + at,
                 touched.slots + at);
  }
}

// The posting list of a touched weight. The loops below fetch the next list's ends before they walk through this one:
// where its own end is guessed wrongly (see lists.inl.h), that much is not thrown away. A list that is long has its
// points in a dense row as well, and that goes faster.
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
        sparse_add(postings.rows + list.from, postings.values + list.from, list.to - list.from, weight, scores);
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
