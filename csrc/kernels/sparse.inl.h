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

void wide_forward(const int64_t* touched_indptr, const int64_t* touched, const int32_t* indices, const float* weights,
                  Postings postings, float* out, int64_t n, int64_t begin, int64_t end) {
  for (int64_t a = begin; a < end; ++a) {
    float* scores = out + a * n;
    for (int64_t t = touched_indptr[a]; t < touched_indptr[a + 1]; ++t) {
      const int64_t slot = postings.slots[indices[touched[t]]];
      const float w = weights[touched[t]];
      for (int64_t j = postings.starts[slot]; j < postings.starts[slot + 1]; ++j)
        scores[postings.rows[j]] += w * postings.values[j];
    }
  }
}

void wide_gradient(const int64_t* touched_indptr, const int64_t* touched, const int32_t* indices, Postings postings,
                   const float* grad, int64_t n, float* out, int64_t begin, int64_t end) {
  for (int64_t a = begin; a < end; ++a) {
    const float* g = grad + a * n;
    for (int64_t t = touched_indptr[a]; t < touched_indptr[a + 1]; ++t) {
      const int64_t slot = postings.slots[indices[touched[t]]];
      float sum = 0;
      for (int64_t j = postings.starts[slot]; j < postings.starts[slot + 1]; ++j)
        sum += g[postings.rows[j]] * postings.values[j];
      out[t] = sum;
    }
  }
}
