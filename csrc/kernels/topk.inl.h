// Selection of the best of many scores.

// Lists the positions of scores above a threshold, and returns their number.
int64_t above(const float* scores, int64_t n, float threshold, int32_t* positions) {
  // Few blocks of 64 scores have one above the threshold. So test a whole block first, then collect a bit per score
  // and visit the bits that are set. The test is an OR of flags, which the compiler
  // vectorises; it would not vectorise a maximum, because of NaN.
  constexpr int64_t kBlock = 64;
  int64_t found = 0;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    int32_t any = 0;
    for (int64_t j = 0; j < kBlock; ++j) any |= scores[i + j] > threshold;
    if (!any) continue;
    uint64_t flags = 0;
    for (int64_t j = 0; j < kBlock; ++j) flags |= static_cast<uint64_t>(scores[i + j] > threshold) << j;
    for (; flags != 0; flags &= flags - 1) positions[found++] = static_cast<int32_t>(i + __builtin_ctzll(flags));
  }
  for (; i < n; ++i)
    if (scores[i] > threshold) positions[found++] = static_cast<int32_t>(i);
  return found;
}

// Maps floats to integers in the same order, because the compiler vectorises a maximum of integers. NaN is the lowest.
inline int32_t ordinal(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const int32_t key = bits ^ ((bits >> 31) & INT32_MAX);
  const int32_t is_nan = -static_cast<int32_t>((bits & INT32_MAX) > 0x7f800000);
  return (key & ~is_nan) | (INT32_MIN & is_nan);
}

inline float of_ordinal(int32_t key) {
  if (key == INT32_MIN) return -__builtin_inff();
  const int32_t bits = key ^ ((key >> 31) & INT32_MAX);
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Computes the maximum of each block of scores, ignoring NaN.
void block_maxima(const float* scores, int64_t n, int64_t block, float* out) {
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = begin + block < n ? begin + block : n;
    int32_t highest = INT32_MIN;
    for (int64_t i = begin; i < end; ++i) {
      const int32_t key = ordinal(scores[i]);
      highest = key > highest ? key : highest;
    }
    *out++ = of_ordinal(highest);
  }
}
