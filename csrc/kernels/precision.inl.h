// What the elements of a matrix product are to a register block: floats, or bfloat16 where the level multiplies them.
// A `Precision` says how words of a packed panel are made and where they stand, what a register of sums holds, and how
// two words are multiplied.

typedef float Lanes __attribute__((vector_size(kLanes * 4), aligned(4)));
constexpr int64_t kTileCols = kTileVectors * kLanes;

// How a block gets at the elements of A's column, each of which it multiplies by vectors of B; a level names one of the
// two `Column`. Where products take one lane of a vector, few registers hold the whole column: loaded one by one, its
// elements took a register each, and four of the sums had to go through memory in every step. Where elements are taken
// one by one, the words of each stand side by side, a cache line of them: strewn over their panel they took a quarter
// as long to make as to multiply.
struct Broadcast {
  static constexpr int64_t kWordsAbreast = 16;
  typedef float Element;
  static Element at(const float* column, int i) { return column[i * kWordsAbreast]; }
  static float value(Element a) { return a; }
};
struct ByLane {
  static constexpr int64_t kWordsAbreast = 1;
  struct Element {
    Lanes lanes;
    int lane;
  };
  static Element at(const float* column, int i) {
    return {*reinterpret_cast<const Lanes*>(column + i / kLanes * kLanes), i % kLanes};
  }
  static float value(Element a) { return a.lanes[a.lane]; }
};

// A block whose sums are held in vector registers; what tiles of sums have in its place is in tiles.inl.h.
struct InVectors {
  static constexpr int64_t kBlockRows = kTileRows, kBlockCols = kTileCols;
  struct Setup {};  // what a thread does before it multiplies, and after
  template <typename Precision>
  static void multiply_block(const float* a, const float* b, int64_t n_words, float* out, int64_t ld,
                             const float* start, bool accumulate);
};

// Words of a row, one beside the other, of as many pairs of neighbours in depth: none that have a faster way.
struct OneByOne {
  static int64_t pairs(const float*, int64_t, float*) { return 0; }
};

// A register block whose sums are vectors of the result's rows, and that takes a word of each element in a step.
struct RowSums : InVectors, OneByOne {
  static constexpr bool kInMatrices = false;
  static constexpr int64_t kWordsAbreastInA = Column::kWordsAbreast, kWordsAbreastInB = 1, kWordsOfStep = 1;
  static constexpr int kSumRows = kTileRows, kSumCols = kTileVectors;
  static Column::Element left(const float* a, int i) { return Column::at(a, i); }
  static Lanes result(const Lanes (&sum)[kSumRows][kSumCols], int i, int v) { return sum[i][v]; }
};

struct Single : RowSums {
  static constexpr int64_t kDepthOfWord = 1;
  static float word(float x, float) { return x; }
  static Lanes multiply_add(Lanes sum, Column::Element a, Lanes b) { return sum + Column::value(a) * b; }
};

// The upper 16 bits of the nearest bfloat16, ties to even, as bits of a float; the lower half is not cleared. Carrying
// out of the mantissa is right: it gives the next power of two and, beyond the largest number, infinity.
inline uint32_t bfloat16_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  const uint32_t is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return (bits + (1 - is_nan) * (0x7fffu + ((bits >> 16) & 1u))) | (is_nan << 22);
}

inline float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

inline float pair_of_bfloat16(float x, float next) {
  return float_of_bits((bfloat16_bits(x) >> 16) | (bfloat16_bits(next) & 0xffff0000u));
}

// A level names one of these three `Half`, or has its own. No instruction for bfloat16: the same numbers, at the speed
// of floats.
struct Rounded : RowSums {
  static constexpr int64_t kDepthOfWord = 1;
  static float word(float x, float) { return float_of_bits(bfloat16_bits(x) & 0xffff0000u); }
  static Lanes multiply_add(Lanes sum, Column::Element a, Lanes b) { return sum + Column::value(a) * b; }
};

// Each lane adds both products of a pair by a pair.
template <typename Instructions>
struct Pairs : RowSums {
  static constexpr int64_t kDepthOfWord = 2;
  static float word(float x, float next) { return pair_of_bfloat16(x, next); }
  static Lanes multiply_add(Lanes sum, float a, Lanes b) { return Instructions::add_pair_products(sum, a, b); }
};

// A register of sums is two rows by two columns, and takes four neighbours in depth at a time: a vector of A holds two
// words of one row and two of the next, one of B likewise of columns.
template <typename Instructions>
struct Squares : InVectors, OneByOne {
  static constexpr bool kInMatrices = true;
  static constexpr int64_t kDepthOfWord = 2, kWordsAbreastInA = 2, kWordsAbreastInB = 2, kWordsOfStep = 2;
  static constexpr int kSumRows = kTileRows / 2, kSumCols = kTileCols / 2;
  static float word(float x, float next) { return pair_of_bfloat16(x, next); }
  static Lanes left(const float* a, int i) {
    // Loaded no earlier than used: all vectors of A at once would send sums through memory in every step.
    __asm__ volatile("" ::: "memory");
    return *reinterpret_cast<const Lanes*>(a + i * kLanes);
  }
  static Lanes multiply_add(Lanes sum, Lanes a, Lanes b) { return Instructions::add_square_products(sum, a, b); }
  static Lanes result(const Lanes (&sum)[kSumRows][kSumCols], int i, int v) {
    const Lanes left = sum[i / 2][2 * v], right = sum[i / 2][2 * v + 1];
    return i % 2 == 0 ? Instructions::upper_rows(left, right) : Instructions::lower_rows(left, right);
  }
};

// The words of an element are padded to a multiple of as many as stand side by side.
template <typename Precision>
constexpr int64_t kWordsPaddedTo =
    Precision::kWordsAbreastInA > Precision::kWordsAbreastInB ? Precision::kWordsAbreastInA
                                                              : Precision::kWordsAbreastInB;
template <typename Precision>
constexpr int64_t words_of(int64_t depth) {
  constexpr int64_t unit = Precision::kDepthOfWord * kWordsPaddedTo<Precision>;
  return (depth + unit - 1) / unit * kWordsPaddedTo<Precision>;
}

// Where word p of element i stands in a panel, in which `kAbreast` words of an element stand side by side.
template <int64_t kAbreast, int64_t kPanel>
constexpr int64_t place(int64_t p, int64_t i) {
  return (p / kAbreast * kPanel + i) * kAbreast + p % kAbreast;
}
