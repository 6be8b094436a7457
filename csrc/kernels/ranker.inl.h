// A ranker with one hidden layer for a few candidates, which learns by Adagrad. The exponential of losses is in
// loss.inl.h.

// log2(1 + x) for x >= 0, with an absolute error below 1e-6 relative to 1 + |result|: the exponent of a float, and
// twice the artanh of (m - 1) / (m + 1) for a mantissa m in [sqrt(1/2), sqrt(2)].
void log2_of_one_plus(float* x, int64_t n) {
  constexpr float kTwoLog2E = 2.88539008f;
  for (int64_t i = 0; i < n; ++i) {
    const float value = 1.0f + x[i];
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const uint32_t shifted = bits - 0x3f3504f3u;  // sqrt(1/2)
    const int32_t exponent = static_cast<int32_t>(shifted) >> 23;
    const uint32_t own = (shifted & 0x007fffffu) + 0x3f3504f3u;
    float mantissa;
    memcpy(&mantissa, &own, sizeof(mantissa));
    const float s = (mantissa - 1.0f) / (mantissa + 1.0f), q = s * s;
    float p = 1.0f / 9.0f;
    p = p * q + 1.0f / 7.0f;
    p = p * q + 1.0f / 5.0f;
    p = p * q + 1.0f / 3.0f;
    p = p * q + 1.0f;
    x[i] = static_cast<float>(exponent) + kTwoLog2E * s * p;
  }
}

// One vector of hidden units, or one unit, of `kRows` candidates, whose sums stay in registers.
template <typename Units, int kRows>
inline void hidden_block(const float* features, int64_t n_features, const float* weights, int64_t n_units,
                         float* hidden) {
  Units sums[kRows], row;
  memcpy(&row, weights + n_features * n_units, sizeof(row));
  for (int r = 0; r < kRows; ++r) sums[r] = row;
  for (int64_t f = 0; f < n_features; ++f) {
    memcpy(&row, weights + f * n_units, sizeof(row));
    for (int r = 0; r < kRows; ++r) sums[r] += features[r * n_features + f] * row;
  }
  for (int r = 0; r < kRows; ++r) {
    const Units zero = {};
    const Units units = sums[r] > zero ? sums[r] : zero;
    memcpy(hidden + r * n_units, &units, sizeof(units));
  }
}

template <int kRows>
inline void hidden_rows(const float* features, int64_t n_features, const float* weights, int64_t n_units,
                        float* hidden) {
  int64_t u = 0;
  for (; u + kLanes <= n_units; u += kLanes)
    hidden_block<Lanes, kRows>(features, n_features, weights + u, n_units, hidden + u);
  for (; u < n_units; ++u) hidden_block<float, kRows>(features, n_features, weights + u, n_units, hidden + u);
}

void ranker_forward(const float* features, int64_t count, int64_t n_features, const float* weights, int64_t n_units,
                    float* hidden, float* scores) {
  int64_t c = 0;
  for (; c + 8 <= count; c += 8)
    hidden_rows<8>(features + c * n_features, n_features, weights, n_units, hidden + c * n_units);
  for (; c + 3 <= count; c += 3)
    hidden_rows<3>(features + c * n_features, n_features, weights, n_units, hidden + c * n_units);
  for (; c < count; ++c) hidden_rows<1>(features + c * n_features, n_features, weights, n_units, hidden + c * n_units);
  const float* out = weights + (n_features + 1) * n_units;
  for (c = 0; c < count; ++c) {
    float total = 0;
    for (int64_t u = 0; u < n_units; ++u) total += hidden[c * n_units + u] * out[u];
    scores[c] = total;
  }
}

void softmax_row(float* scores, int64_t count) {
  float highest = scores[0], total = 0;
  for (int64_t c = 0; c < count; ++c) highest = scores[c] > highest ? scores[c] : highest;
  for (int64_t c = 0; c < count; ++c) {
    scores[c] = exp_negative(scores[c] - highest);
    total += scores[c];
  }
  for (int64_t c = 0; c < count; ++c) scores[c] /= total;
}

void ranker_step(const float* features, const float* hidden, const float* errors, int64_t count, int64_t n_features,
                 int64_t n_units, RankerStep step, float* __restrict weights, float* __restrict squares,
                 float* __restrict gradient, float* __restrict slope) {
  const int64_t size = (n_features + 2) * n_units;
  memset(gradient, 0, static_cast<size_t>(size) * sizeof(float));
  const float* out = weights + (n_features + 1) * n_units;
  float *of_bias = gradient + n_features * n_units, *of_out = of_bias + n_units;
  for (int64_t c = 0; c < count; ++c) {
    const float error = errors[c];
    if (error < step.negligible && error > -step.negligible) continue;
    const float *x = features + c * n_features, *units = hidden + c * n_units;
    for (int64_t u = 0; u < n_units; ++u) {
      of_out[u] += error * units[u];
      slope[u] = units[u] > 0 ? error * out[u] : 0.0f;
      of_bias[u] += slope[u];
    }
    for (int64_t f = 0; f < n_features; ++f)
      for (int64_t u = 0; u < n_units; ++u) gradient[f * n_units + u] += x[f] * slope[u];
  }
  for (int64_t i = 0; i < size; ++i) {
    const float g = gradient[i];
    squares[i] += g * g;
    weights[i] -= step.rate * g / __builtin_sqrtf(squares[i] + 1.0f);
  }
}
