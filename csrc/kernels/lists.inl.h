// Lists of distinct ids, such as the supports of labels, some with values; their length is between a few and a
// thousand. CPUs mispredict the end of a loop over a short list. With masked vectors, a step handles eight or sixteen
// ids and the end of the list is a mask, not a branch.

#ifdef __AVX512VL__

constexpr int64_t kEntries = 8, kIds = 16;

inline __mmask8 first_entries(int64_t count) {
  return static_cast<__mmask8>((1u << (count < kEntries ? count : kEntries)) - 1);
}

// The sum of values[j] * dense[ids[j]].
float sparse_dot(const int32_t* ids, const float* values, int64_t count, const float* dense) {
  __m256 sums = _mm256_setzero_ps();
  for (int64_t j = 0; j < count; j += kEntries) {
    const __mmask8 there = first_entries(count - j);
    const __m256i places = _mm256_maskz_loadu_epi32(there, ids + j);
    const __m256 found = _mm256_mmask_i32gather_ps(_mm256_setzero_ps(), there, places, dense, sizeof(float));
    sums += _mm256_maskz_loadu_ps(there, values + j) * found;
  }
  __m128 sum = _mm256_castps256_ps128(sums) + _mm256_extractf128_ps(sums, 1);
  sum += _mm_movehl_ps(sum, sum);
  return sum[0] + sum[1];
}

// The slots of up to sixteen ids; -1 for an id without a slot.
inline __m512i slots_of(const int32_t* ids, int64_t count, const int32_t* slots) {
  const auto there = static_cast<__mmask16>((1u << (count < kIds ? count : kIds)) - 1);
  return _mm512_mask_i32gather_epi32(_mm512_set1_epi32(-1), there, _mm512_maskz_loadu_epi32(there, ids), slots,
                                     sizeof(int32_t));
}

inline __mmask16 have_slots(__m512i slots) { return _mm512_cmpge_epi32_mask(slots, _mm512_setzero_si512()); }

// For each id j with a slot, writes its slot and `first` + j; returns the number of such ids.
inline int64_t find_present(const int32_t* ids, int64_t count, const int32_t* slots, int64_t first, int64_t* positions,
                            int32_t* found) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int64_t at = 0;
  for (int64_t j = 0; j < count; j += kIds) {
    const __m512i own = slots_of(ids + j, count - j, slots);
    const __mmask16 present = have_slots(own);
    const int n = __builtin_popcount(present);
    const auto kept = static_cast<__mmask16>((1u << n) - 1);
    _mm512_mask_storeu_epi32(found + at, kept, _mm512_maskz_compress_epi32(present, own));
    const __m512i where = _mm512_maskz_compress_epi32(present, lanes), begin = _mm512_set1_epi64(first + j);
    const __m512i low = _mm512_maskz_cvtepi32_epi64(0xff, _mm512_maskz_extracti64x4_epi64(0xf, where, 0));
    const __m512i high = _mm512_maskz_cvtepi32_epi64(0xff, _mm512_maskz_extracti64x4_epi64(0xf, where, 1));
    _mm512_mask_storeu_epi64(positions + at, static_cast<__mmask8>(kept), begin + low);
    _mm512_mask_storeu_epi64(positions + at + 8, static_cast<__mmask8>(kept >> 8), begin + high);
    at += n;
  }
  return at;
}

#else

// The sum of values[j] * dense[ids[j]].
float sparse_dot(const int32_t* ids, const float* values, int64_t count, const float* dense) {
  float sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += values[j] * dense[ids[j]];
  return sum;
}

// For each id j with a slot, writes its slot and `first` + j; returns the number of such ids.
inline int64_t find_present(const int32_t* ids, int64_t count, const int32_t* slots, int64_t first, int64_t* positions,
                            int32_t* found) {
  int64_t at = 0;
  // Whether an id has a slot is hard to predict: write each, and advance only if it has one.
  for (int64_t j = 0; j < count; ++j) {
    const int32_t slot = slots[ids[j]];
    positions[at] = first + j;
    found[at] = slot;
    at += slot >= 0;
  }
  return at;
}

#endif
