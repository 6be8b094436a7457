// Scores of rows whose columns are coded in 4 bits a group. A group's products with the query are a table of 16 bytes,
// which fits into a register. So one instruction looks up the same group of 16 rows.
//
// A block holds 32 rows: 16 bytes a group, rows 0 to 15 in the lower halves of the bytes, rows 16 to 31 in the upper.

constexpr int64_t kRowsOfBlock = 32, kBytesOfGroup = 16;

#if defined(__AVX512BW__) || defined(__AVX2__) || defined(__aarch64__)

#if defined(__AVX512BW__)
constexpr int64_t kGroupsAbreast = 4;
#elif defined(__AVX2__)
constexpr int64_t kGroupsAbreast = 2;
#else
constexpr int64_t kGroupsAbreast = 1;
#endif
constexpr int64_t kLookups = kGroupsAbreast * kBytesOfGroup;
typedef uint8_t Bytes __attribute__((vector_size(kLookups), aligned(1), may_alias));
typedef uint16_t Words __attribute__((vector_size(kLookups), aligned(1), may_alias));
typedef uint16_t EightWords __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint32_t EightInts __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint16_t RowWords __attribute__((vector_size(32), aligned(1), may_alias));
typedef int32_t RowInts __attribute__((vector_size(64), aligned(1), may_alias));
typedef float RowFloats __attribute__((vector_size(64), aligned(1), may_alias));

// Looks up each code in the table of its 16 bytes.
inline Bytes lookup(Bytes tables, Bytes codes) {
#if defined(__AVX512BW__)
  return reinterpret_cast<Bytes>(
      _mm512_shuffle_epi8(reinterpret_cast<__m512i>(tables), reinterpret_cast<__m512i>(codes)));
#elif defined(__AVX2__)
  return reinterpret_cast<Bytes>(
      _mm256_shuffle_epi8(reinterpret_cast<__m256i>(tables), reinterpret_cast<__m256i>(codes)));
#else
  return reinterpret_cast<Bytes>(vqtbl1q_u8(reinterpret_cast<uint8x16_t>(tables), reinterpret_cast<uint8x16_t>(codes)));
#endif
}

// A word has the bytes of two rows. Whole words are added up, and their upper bytes apart.
struct RowPairs {
  Words both = {}, upper = {};
  void add(Bytes sums) {
    const Words words = reinterpret_cast<Words>(sums);
    both += words;
    upper += words >> 8;
  }
  // Writes the scores of 16 rows.
  void write(float unit, float base, float* out) const {
    const Words lower = both - (upper << 8);
    EightWords even = {}, odd = {};
    for (int64_t a = 0; a < kGroupsAbreast; ++a) {
      even += reinterpret_cast<const EightWords*>(&lower)[a];
      odd += reinterpret_cast<const EightWords*>(&upper)[a];
    }
    const EightInts pairs = __builtin_convertvector(even, EightInts) | __builtin_convertvector(odd, EightInts) << 16;
    const RowInts sums = __builtin_convertvector(reinterpret_cast<RowWords>(pairs), RowInts);
    *reinterpret_cast<RowFloats*>(out) = __builtin_convertvector(sums, RowFloats) * unit + base;
  }
};

// Four lookups of 6 bits are added as bytes.
template <int64_t n_lookups>
inline void add_groups(const uint8_t* tables, const uint8_t* block, RowPairs& first, RowPairs& second) {
  Bytes low = {}, high = {};
  for (int64_t i = 0; i < n_lookups; ++i) {
    const Bytes table = *reinterpret_cast<const Bytes*>(tables + i * kLookups);
    const Bytes codes = *reinterpret_cast<const Bytes*>(block + i * kLookups);
    low += lookup(table, codes & 15);
    high += lookup(table, codes >> 4);
  }
  first.add(low);
  second.add(high);
}

inline void score_block(const uint8_t* tables, const uint8_t* block, int64_t n_groups, float unit, float base,
                        float* out) {
  RowPairs first, second;
  const int64_t size = n_groups * kBytesOfGroup;
  int64_t at = 0;
  for (; at + 4 * kLookups <= size; at += 4 * kLookups) add_groups<4>(tables + at, block + at, first, second);
  for (; at < size; at += kLookups) add_groups<1>(tables + at, block + at, first, second);
  first.write(unit, base, out);
  second.write(unit, base, out + kRowsOfBlock / 2);
}

#else

inline void score_block(const uint8_t* tables, const uint8_t* block, int64_t n_groups, float unit, float base,
                        float* out) {
  int32_t sums[kRowsOfBlock] = {};
  for (int64_t g = 0; g < n_groups; ++g, tables += 16, block += kBytesOfGroup)
    for (int64_t i = 0; i < kBytesOfGroup; ++i) {
      sums[i] += tables[block[i] & 15];
      sums[kBytesOfGroup + i] += tables[block[i] >> 4];
    }
  for (int64_t i = 0; i < kRowsOfBlock; ++i) out[i] = static_cast<float>(sums[i]) * unit + base;
}

#endif

// The unit is a power of two, so products with it are exact.
void code_scores(const uint8_t* tables, const uint8_t* blocks, const uint8_t* const* ahead, int64_t n_groups,
                 int64_t n_blocks, float unit, float base, float* out) {
  constexpr int64_t kLine = 64;
  const int64_t size = n_groups * kBytesOfGroup;
  for (int64_t b = 0; b < n_blocks; ++b, blocks += size, out += kRowsOfBlock) {
    for (int64_t at = 0; at < size; at += kLine) prefetch(static_cast<const void*>(ahead[b] + at));
    score_block(tables, blocks, n_groups, unit, base, out);
  }
}
