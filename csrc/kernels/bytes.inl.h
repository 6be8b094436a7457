// Products with rows of bytes. Sums of integers are exact in any order, so every instruction set gives the same bits.

// Four rows at a time share the loads of x, and their sums are independent.
void dot_bytes(const int16_t* __restrict x, const int8_t* __restrict rows, int64_t width, int64_t count,
               int32_t* __restrict out) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4, rows += 4 * width) {
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (int64_t c = 0; c < width; ++c) {
      sum0 += static_cast<int32_t>(x[c]) * static_cast<int16_t>(rows[c]);
      sum1 += static_cast<int32_t>(x[c]) * static_cast<int16_t>(rows[width + c]);
      sum2 += static_cast<int32_t>(x[c]) * static_cast<int16_t>(rows[2 * width + c]);
      sum3 += static_cast<int32_t>(x[c]) * static_cast<int16_t>(rows[3 * width + c]);
    }
    out[j] = sum0;
    out[j + 1] = sum1;
    out[j + 2] = sum2;
    out[j + 3] = sum3;
  }
  for (; j < count; ++j, rows += width) {
    int32_t sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += static_cast<int32_t>(x[c]) * static_cast<int16_t>(rows[c]);
    out[j] = sum;
  }
}
