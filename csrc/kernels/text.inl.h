// Features of texts: their ids in a vocabulary, and their rows of 8-bit weights in a linear model.

int32_t id_of(const uint64_t* used, const int32_t* ranks, int32_t slot) {
  const uint64_t below = (uint64_t{1} << (slot & 63)) - 1;
  return ranks[slot >> 6] + static_cast<int32_t>(__builtin_popcountll(used[slot >> 6] & below));
}

// No branch on whether the vocabulary has a slot, which CPUs cannot predict: if not, the next feature overwrites it.
int64_t number_features(const uint64_t* used, const int32_t* ranks, const int32_t* slots, const uint8_t* counts,
                        int64_t n, int32_t* features, uint8_t* their_counts) {
  int64_t found = 0;
  for (int64_t j = 0; j < n; ++j) {
    const int32_t slot = slots[j];
    const uint8_t count = counts[j];
    features[found] = id_of(used, ranks, slot);
    their_counts[found] = count;
    found += used[slot >> 6] >> (slot & 63) & 1;
  }
  return found;
}

// With few columns the sums stay in registers.
template <int width>
void add_narrow_rows(const int8_t* matrix, const int32_t* rows, const float* values, int64_t n, float* sums) {
  float own[width];
  for (int c = 0; c < width; ++c) own[c] = sums[c];
  for (int64_t j = 0; j < n; ++j) {
    const int8_t* row = matrix + int64_t{rows[j]} * width;
    for (int c = 0; c < width; ++c) own[c] += values[j] * static_cast<float>(row[c]);
  }
  for (int c = 0; c < width; ++c) sums[c] = own[c];
}

// Rows added at a time: sums are read and written once for all of them, and their cache misses overlap.
constexpr int64_t kRowsAbreast = 4;

void add_wide_rows(const int8_t* matrix, int64_t width, const int32_t* rows, const float* values, int64_t n,
                   float* sums) {
  int64_t j = 0;
  for (; j + kRowsAbreast <= n; j += kRowsAbreast) {
    const int8_t *a = matrix + rows[j] * width, *b = matrix + rows[j + 1] * width, *c = matrix + rows[j + 2] * width,
                 *d = matrix + rows[j + 3] * width;
    const float u = values[j], v = values[j + 1], w = values[j + 2], x = values[j + 3];
    for (int64_t k = 0; k < width; ++k)
      sums[k] = sums[k] + u * static_cast<float>(a[k]) + v * static_cast<float>(b[k]) + w * static_cast<float>(c[k]) +
                x * static_cast<float>(d[k]);
  }
  for (; j < n; ++j) {
    const int8_t* row = matrix + rows[j] * width;
    const float x = values[j];  // a copy, because the compiler cannot know that writing sums leaves values[j] unchanged
    for (int64_t k = 0; k < width; ++k) sums[k] += x * static_cast<float>(row[k]);
  }
}

void add_rows(const int8_t* matrix, int64_t width, const int32_t* rows, const float* values, int64_t n, float* sums) {
  switch (width) {
    case 1:
      return add_narrow_rows<1>(matrix, rows, values, n, sums);
    case 2:
      return add_narrow_rows<2>(matrix, rows, values, n, sums);
    case 3:
      return add_narrow_rows<3>(matrix, rows, values, n, sums);
    case 4:
      return add_narrow_rows<4>(matrix, rows, values, n, sums);
    case 5:
      return add_narrow_rows<5>(matrix, rows, values, n, sums);
    case 6:
      return add_narrow_rows<6>(matrix, rows, values, n, sums);
    default:
      return add_wide_rows(matrix, width, rows, values, n, sums);
  }
}
