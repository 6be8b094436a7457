// Losses over a tile of logits, which their gradient replaces in place. The exponential and the logarithm are plain
// arithmetic, so that these loops vectorise for every instruction set without a vector math library.

// e^x for x <= 0, with a relative error below 1e-6; inputs below -87 count as -87.
inline float exp_negative(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  x = x < -87.0f ? -87.0f : x;
  const int32_t n = static_cast<int32_t>(x * kLog2E - 0.5f);
  const float whole = static_cast<float>(n);
  const float r = (x - whole * kLn2High) - whole * kLn2Low;
  // The Taylor series of e^r to r^7, for r in [-ln 2 / 2, ln 2 / 2].
  float p = 1.98412698e-4f;
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const uint32_t bits = (static_cast<uint32_t>(n) + 127) << 23;  // unsigned: NaN has made n negative
  float power;
  memcpy(&power, &bits, sizeof(power));
  return p * power;
}

// log(1 + e) for e in [0, 1], absolute error below 2e-7: 2 artanh(s) with s = e / (2 + e) <= 1/3.
inline float log1p_unit(float e) {
  const float s = e / (2.0f + e), q = s * s;
  float p = 1.0f / 11.0f;
  p = p * q + 1.0f / 9.0f;
  p = p * q + 1.0f / 7.0f;
  p = p * q + 1.0f / 5.0f;
  p = p * q + 1.0f / 3.0f;
  p = p * q + 1.0f;
  return 2.0f * s * p;
}

struct Logistic {
  float probability, softplus;  // 1 / (1 + e^-z) and log(1 + e^z)
};

inline Logistic logistic(float z) {
  const float magnitude = z < 0 ? -z : z;
  const float e = exp_negative(-magnitude);
  const float larger = 1.0f / (1.0f + e);  // of the two class probabilities
  return {z < 0 ? e * larger : larger, (z > 0 ? z : 0.0f) + log1p_unit(e)};
}

void bce_gradient(float* logits, int64_t n, Positives positives, const float* negative_weights, float smoothing,
                  float scale, double* losses, float* scratch, int64_t begin, int64_t end) {
  for (int64_t a = begin; a < end; ++a) {
    float* row = logits + a * n;
    memcpy(scratch, row, static_cast<size_t>(n) * sizeof(float));
    const float weight = negative_weights[a] * scale;
    float loss = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Logistic at = logistic(scratch[i]);
      row[i] = weight * (at.probability - smoothing);
      loss += at.softplus - smoothing * scratch[i];
    }
    double total = static_cast<double>(weight) * loss;
    for (int64_t j = positives.indptr[a]; j < positives.indptr[a + 1]; ++j) {
      const int64_t i = positives.points[j];
      const float z = scratch[i], target = 1.0f - smoothing, positive = positives.weights[j] * scale;
      const Logistic at = logistic(z);
      row[i] = positive * (at.probability - target);
      total += static_cast<double>(positive) * (at.softplus - target * z);
      total -= static_cast<double>(weight) * (at.softplus - smoothing * z);
    }
    losses[a] = total;
  }
}

void softmax_gradient(float* logits, int64_t a, int64_t n, Positives positives, const float* log_expected,
                      float smoothing, float scale, double* losses, int64_t begin, int64_t end) {
  constexpr int64_t kPoints = 64;
  const int64_t m = end - begin;
  float highest[kPoints], sums[kPoints], target_scores[kPoints], has_label[kPoints];
  for (int64_t i = 0; i < m; ++i) {
    highest[i] = -3.0e38f;
    sums[i] = target_scores[i] = has_label[i] = 0;
  }
  const float even = smoothing / static_cast<float>(a);
  for (int64_t l = 0; l < a; ++l) {
    float* row = logits + l * n + begin;
    for (int64_t i = 0; i < m; ++i) {
      row[i] -= log_expected[l];
      highest[i] = row[i] > highest[i] ? row[i] : highest[i];
      target_scores[i] += even * row[i];
    }
    for (int64_t j = positives.indptr[l]; j < positives.indptr[l + 1]; ++j) {
      const int64_t i = positives.points[j] - begin;
      if (i < 0 || i >= m) continue;
      has_label[i] = 1;
      target_scores[i] += (1.0f - smoothing) * positives.weights[j] * row[i];
    }
  }
  for (int64_t l = 0; l < a; ++l) {
    float* row = logits + l * n + begin;
    for (int64_t i = 0; i < m; ++i) {
      row[i] = exp_negative(row[i] - highest[i]);
      sums[i] += row[i];
    }
  }
  float factor[kPoints];
  for (int64_t i = 0; i < m; ++i) {
    const double log_sum = static_cast<double>(highest[i]) + __builtin_log(static_cast<double>(sums[i]));
    losses[begin + i] = has_label[i] != 0 ? scale * (log_sum - target_scores[i]) : 0.0;
    factor[i] = has_label[i] != 0 ? scale / sums[i] : 0.0f;
  }
  for (int64_t l = 0; l < a; ++l) {
    float* row = logits + l * n + begin;
    for (int64_t i = 0; i < m; ++i) row[i] = row[i] * factor[i] - scale * even * has_label[i];
    for (int64_t j = positives.indptr[l]; j < positives.indptr[l + 1]; ++j) {
      const int64_t i = positives.points[j] - begin;
      if (i >= 0 && i < m) row[i] -= scale * (1.0f - smoothing) * positives.weights[j];
    }
  }
}
