// Lazy optimizers: only the rows with a gradient are read or written.

// Calls update(position in the parameter, position in grads) for each element of rows [begin, end). A width of one
// (biases, wide weights) gets a loop of its own: the set-up of a vector loop would cost more than its work, and
// prefetch(position) is called for elements to come.
template <typename Update, typename Prefetch>
inline void for_each_element(int64_t width, const int64_t* rows, int64_t begin, int64_t end, Update update,
                             Prefetch prefetch) {
  if (width == 1) {
    constexpr int64_t kAhead = 16;
    for (int64_t r = begin; r < end; ++r) {
      if (r + kAhead < end) prefetch(rows[r + kAhead]);
      update(rows[r], r);
    }
    return;
  }
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = rows[r] * width, from = r * width;
    for (int64_t c = 0; c < width; ++c) update(at + c, from + c);
  }
}

void sgd_rows(float* __restrict value, int64_t width, const int64_t* rows, const float* __restrict grads, float rate,
              float decay, int64_t begin, int64_t end) {
  for_each_element(
      width, rows, begin, end, [=](int64_t at, int64_t from) { value[at] -= rate * (grads[from] + decay * value[at]); },
      [=](int64_t at) { __builtin_prefetch(value + at, 1); });
}

void adagrad_rows(float* __restrict value, float* __restrict squares, int64_t width, const int64_t* rows,
                  const float* __restrict grads, float rate, float epsilon, float decay, int64_t begin, int64_t end) {
  const auto update = [=](int64_t at, int64_t from) {
    const float g = grads[from] + decay * value[at];
    squares[at] += g * g;
    value[at] -= rate * g / (__builtin_sqrtf(squares[at]) + epsilon);
  };
  for_each_element(width, rows, begin, end, update, [=](int64_t at) {
    __builtin_prefetch(value + at, 1);
    __builtin_prefetch(squares + at, 1);
  });
}

inline float power(float base, int32_t exponent) {
  float result = 1.0f;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

void adam_rows(float* __restrict value, float* __restrict first, float* __restrict second, int32_t* last_step,
               int64_t width, const int64_t* rows, const float* __restrict grads, AdamStep adam, int64_t begin,
               int64_t end) {
  const float rate = adam.rate / (1.0f - power(adam.beta1, adam.step));
  const float unbias = 1.0f / (1.0f - power(adam.beta2, adam.step));
  const float shrink = 1.0f - adam.rate * adam.decay;
  constexpr int64_t kAhead = 4;  // rows lie anywhere in three large tables
  for (int64_t r = begin; r < end; ++r) {
    if (r + kAhead < end) {
      const int64_t later = rows[r + kAhead] * width;
      for (int64_t c = 0; c < width; c += 16) {
        __builtin_prefetch(first + later + c, 1);
        __builtin_prefetch(second + later + c, 1);
        __builtin_prefetch(value + later + c, 1);
      }
      __builtin_prefetch(last_step + rows[r + kAhead], 1);
    }
    const int32_t skipped = adam.step - last_step[rows[r]] - 1;
    const float keep1 = adam.beta1 * power(adam.beta1, skipped), keep2 = adam.beta2 * power(adam.beta2, skipped);
    const auto update = [=](int64_t at, int64_t from) {
      const float g = grads[from];
      const float m = keep1 * first[at] + (1.0f - adam.beta1) * g;
      const float v = keep2 * second[at] + (1.0f - adam.beta2) * g * g;
      first[at] = m;
      second[at] = v;
      value[at] = shrink * value[at] - rate * m / (__builtin_sqrtf(v * unbias) + adam.epsilon);
    };
    for_each_element(width, rows, r, r + 1, update, [](int64_t) {});
    last_step[rows[r]] = adam.step;
  }
}
