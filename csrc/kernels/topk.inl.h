// Selection of the few best out of very many scores.

int64_t above(const float* scores, int64_t n, float threshold, int32_t* positions) {
  // Nearly every block of scores holds nothing of interest: look at 64 at a time, then at each. Whether any is above is
  // an OR of flags, which the compiler makes vectors of; of a maximum it would not, for fear of NaN.
  constexpr int64_t kBlock = 64;
  int64_t found = 0;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    int32_t any = 0;
    for (int64_t j = 0; j < kBlock; ++j) any |= scores[i + j] > threshold;
    if (!any) continue;
    for (int64_t j = i; j < i + kBlock; ++j)
      if (scores[j] > threshold) positions[found++] = static_cast<int32_t>(j);
  }
  for (; i < n; ++i)
    if (scores[i] > threshold) positions[found++] = static_cast<int32_t>(i);
  return found;
}
