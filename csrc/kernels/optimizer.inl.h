// Lazy optimizers: only the rows with a gradient are read or written.

// Calls update(position in the parameter, position in grads) for each element of rows [begin, end). Rows of one element
// have a separate loop, because setting up a vector loop would take longer than the work.
template <typename Update>
inline void for_each_element(int64_t width, const int64_t* rows, int64_t begin, int64_t end, Update update) {
  if (width == 1) {
    for (int64_t r = begin; r < end; ++r) update(rows[r], r);
    return;
  }
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = rows[r] * width, from = r * width;
    for (int64_t c = 0; c < width; ++c) update(at + c, from + c);
  }
}

void sgd_rows(float* __restrict value, int64_t width, const int64_t* rows, const float* __restrict grads, float rate,
              float decay, int64_t begin, int64_t end) {
  for_each_element(width, rows, begin, end,
                   [=](int64_t at, int64_t from) { value[at] -= rate * (grads[from] + decay * value[at]); });
}

void adagrad_rows(float* __restrict value, float* __restrict squares, int64_t width, const int64_t* rows,
                  const float* __restrict grads, float rate, float epsilon, float decay, int64_t begin, int64_t end) {
  const auto step_element = [=](float& x, float& sum, float grad) {
    const float g = grad + decay * x;
    sum += g * g;
    x -= rate * g / (__builtin_sqrtf(sum) + epsilon);
  };
  // Weights of the wide path are single elements, scattered over large tables: prefetch, gather, update, scatter.
  constexpr int64_t kGroup = 16, kAhead = 64;
  for (; width == 1 && begin + kGroup <= end; begin += kGroup) {
    float x[kGroup], sum[kGroup];
    for (int64_t i = 0; i < kGroup; ++i) {
      const int64_t later = rows[begin + i + kAhead < end ? begin + i + kAhead : end - 1];
      prefetch(value + later);
      prefetch(squares + later);
      x[i] = value[rows[begin + i]];
      sum[i] = squares[rows[begin + i]];
    }
    for (int64_t i = 0; i < kGroup; ++i) step_element(x[i], sum[i], grads[begin + i]);
    for (int64_t i = 0; i < kGroup; ++i) {
      value[rows[begin + i]] = x[i];
      squares[rows[begin + i]] = sum[i];
    }
  }
  for_each_element(width, rows, begin, end,
                   [=](int64_t at, int64_t from) { step_element(value[at], squares[at], grads[from]); });
}

// base^exponent for a base below 1. There is no branch on the exponent, the number of steps that a row skipped, because
// it is hard to predict.
inline float power(float log_base, int32_t exponent) { return exp_negative(log_base * static_cast<float>(exponent)); }

// The natural logarithm of a decay factor, which may be 0.
inline float log_decay(float decay) { return decay > 0 ? __builtin_logf(decay) : -87.0f; }

// Takes an Adam step for rows [begin, end); gradient_of(r) returns the gradient of row r.
template <typename Gradient>
inline void adam_each(float* __restrict value, float* __restrict first, float* __restrict second, int32_t* last_step,
                      int64_t width, const int64_t* rows, AdamStep adam, int64_t begin, int64_t end,
                      Gradient gradient_of) {
  const float log1 = log_decay(adam.beta1), log2 = log_decay(adam.beta2);
  const auto step = static_cast<float>(adam.step);
  const float rate = -adam.rate / __builtin_expm1f(log1 * step);  // divided by 1 - beta1^step
  const float unbias = -1.0f / __builtin_expm1f(log2 * step);
  const float shrink = 1.0f - adam.rate * adam.decay;
  // Rows are scattered over three large tables. Prefetch later rows line by line while others are updated: a core has
  // too few line-fill buffers for whole rows at once. Narrow rows take less time, so prefetch further ahead.
  constexpr int64_t kLine = 16;
  const int64_t ahead = width < kLine ? 32 : 4;
  const auto prefetch_line = [=](int64_t at) {
    prefetch(first + at);
    prefetch(second + at);
    prefetch(value + at);
  };
  for (int64_t r = begin; r < end && r < begin + ahead; ++r) {
    prefetch(last_step + rows[r]);
    for (int64_t c = 0; c < width; c += kLine) prefetch_line(rows[r] * width + c);
  }
  for (int64_t r = begin; r < end; ++r) {
    const int64_t later = rows[r + ahead < end ? r + ahead : end - 1];
    prefetch(last_step + later);
    const int32_t skipped = adam.step - last_step[rows[r]] - 1;
    const float keep1 = adam.beta1 * power(log1, skipped), keep2 = adam.beta2 * power(log2, skipped);
    const float* __restrict gradient = gradient_of(r);
    const int64_t row = rows[r] * width;
    const auto update = [=](int64_t c) {
      const int64_t at = row + c;
      const float g = gradient[c];
      const float m = keep1 * first[at] + (1.0f - adam.beta1) * g;
      const float v = keep2 * second[at] + (1.0f - adam.beta2) * g * g;
      first[at] = m;
      second[at] = v;
      value[at] = shrink * value[at] - rate * m / (__builtin_sqrtf(v * unbias) + adam.epsilon);
    };
    int64_t c = 0;
    for (; c + kLine <= width; c += kLine) {
      prefetch_line(later * width + c);
      for (int64_t k = c; k < c + kLine; ++k) update(k);
    }
    if (c < width) prefetch_line(later * width + c);
    for (; c < width; ++c) update(c);
    last_step[rows[r]] = adam.step;
  }
}

void adam_rows(float* __restrict value, float* __restrict first, float* __restrict second, int32_t* last_step,
               int64_t width, const int64_t* rows, const float* __restrict grads, AdamStep adam, int64_t begin,
               int64_t end) {
  adam_each(value, first, second, last_step, width, rows, adam, begin, end,
            [=](int64_t r) { return grads + r * width; });
}

// Computes each gradient as a sparse-dense product while later rows are prefetched. The rows of `dense`, one per point,
// are in the cache unless the batch is very large.
void adam_product(float* __restrict value, float* __restrict first, float* __restrict second, int32_t* last_step,
                  int64_t width, const int64_t* rows, Csr csr, const float* dense, AdamStep adam, float* sums,
                  int64_t begin, int64_t end) {
  adam_each(value, first, second, last_step, width, rows, adam, begin, end, [=](int64_t r) {
    sum_row(csr, r, dense, width, 0, sums);
    return sums;
  });
}
