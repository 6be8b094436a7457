// Selection of the few best out of very many scores.

float sparse_dot(const int32_t* ids, const float* values, int64_t count, const float* dense) {
  float sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += values[j] * dense[ids[j]];
  return sum;
}

int64_t above(const float* scores, int64_t n, float threshold, int32_t* positions) {
  // Nearly every block of scores holds nothing of interest: look at 64 at a time, then at each.
  constexpr int64_t kBlock = 64;
  int64_t found = 0;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    float highest = scores[i];
    for (int64_t j = 1; j < kBlock; ++j) highest = scores[i + j] > highest ? scores[i + j] : highest;
    if (!(highest > threshold)) continue;
    for (int64_t j = i; j < i + kBlock; ++j)
      if (scores[j] > threshold) positions[found++] = static_cast<int32_t>(j);
  }
  for (; i < n; ++i)
    if (scores[i] > threshold) positions[found++] = static_cast<int32_t>(i);
  return found;
}
