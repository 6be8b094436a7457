// Scores of rows whose columns are coded in 4 bits a group. A group's products with the query are a table of 16 bytes,
// which fits into a register. So one instruction looks up the same group of 16 rows.
//
// A block holds 32 rows: 16 bytes a group, rows 0 to 15 in the lower halves of the bytes, rows 16 to 31 in the upper.

constexpr int64_t kRowsOfBlock = 32, kBytesOfGroup = 16;

#if defined(__AVX512BW__) || defined(__AVX2__) || defined(__ARM_NEON)

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

// Looks up each code in the table of its 16 bytes.
inline Words lookup(Bytes tables, Bytes codes) {
#if defined(__AVX512BW__)
  return reinterpret_cast<Words>(
      _mm512_shuffle_epi8(reinterpret_cast<__m512i>(tables), reinterpret_cast<__m512i>(codes)));
#elif defined(__AVX2__)
  return reinterpret_cast<Words>(
      _mm256_shuffle_epi8(reinterpret_cast<__m256i>(tables), reinterpret_cast<__m256i>(codes)));
#else
  return reinterpret_cast<Words>(vqtbl1q_u8(reinterpret_cast<uint8x16_t>(tables), reinterpret_cast<uint8x16_t>(codes)));
#endif
}

// A word has the bytes of two rows. Words are added as they are, and their upper bytes apart.
struct RowPairs {
  Words both = {}, upper = {};
  void add(Words found) {
    both += found;
    upper += found >> 8;
  }
  // Writes the sums of 16 rows.
  void write(float* out) const {
    EightInts even = {}, odd = {};
    for (int64_t a = 0; a < kGroupsAbreast; ++a) {
      const Words lower = both - (upper << 8);
      even += __builtin_convertvector(reinterpret_cast<const EightWords*>(&lower)[a], EightInts);
      odd += __builtin_convertvector(reinterpret_cast<const EightWords*>(&upper)[a], EightInts);
    }
    for (int64_t pair = 0; pair < 8; ++pair) {
      out[2 * pair] = static_cast<float>(static_cast<int32_t>(even[pair]));
      out[2 * pair + 1] = static_cast<float>(static_cast<int32_t>(odd[pair]));
    }
  }
};

inline void score_block(const uint8_t* tables, const uint8_t* block, int64_t n_groups, float* out) {
  RowPairs first, second;
  for (int64_t g = 0; g < n_groups; g += kGroupsAbreast) {
    const Bytes table = *reinterpret_cast<const Bytes*>(tables + g * kBytesOfGroup);
    const Bytes codes = *reinterpret_cast<const Bytes*>(block + g * kBytesOfGroup);
    first.add(lookup(table, codes & 15));
    second.add(lookup(table, codes >> 4));
  }
  first.write(out);
  second.write(out + kRowsOfBlock / 2);
}

#else

inline void score_block(const uint8_t* tables, const uint8_t* block, int64_t n_groups, float* out) {
  int32_t sums[kRowsOfBlock] = {};
  for (int64_t g = 0; g < n_groups; ++g, tables += 16, block += kBytesOfGroup)
    for (int64_t i = 0; i < kBytesOfGroup; ++i) {
      sums[i] += tables[block[i] & 15];
      sums[kBytesOfGroup + i] += tables[block[i] >> 4];
    }
  for (int64_t i = 0; i < kRowsOfBlock; ++i) out[i] = static_cast<float>(sums[i]);
}

#endif

// Cells are short streams, which the CPU recognises late: hence the prefetch.
void code_scores(const uint8_t* tables, const uint8_t* blocks, int64_t n_groups, int64_t n_blocks, float* out) {
  constexpr int64_t kLine = 64, kAheadBytes = 4096;
  const int64_t size = n_groups * kBytesOfGroup;
  const uint8_t* const end = blocks + n_blocks * size;
  for (; blocks < end; blocks += size, out += kRowsOfBlock) {
    if (end - blocks > kAheadBytes + size)
      for (int64_t b = 0; b < size; b += kLine) prefetch(static_cast<const void*>(blocks + kAheadBytes + b));
    score_block(tables, blocks, n_groups, out);
  }
}
