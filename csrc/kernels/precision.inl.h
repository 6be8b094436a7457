// The element types of a matrix product: float32, or bfloat16 if the instruction set multiplies it. A `Precision` class
// defines the layout of words in a packed panel, the contents of a register of sums, and the product of two words.

typedef float Lanes __attribute__((vector_size(kLanes * 4), aligned(4)));
constexpr int64_t kTileCols = kTileVectors * kLanes;

// Two ways to load the elements of a column of A, to multiply each by vectors of B. An instruction set names one of
// them `Column`.
//
// Broadcast loads elements one by one. A cache line holds the words of one element side by side: scattered over the
// panel, they took a quarter of the time of the product to pack.
//
// ByLane is for instructions that multiply by one lane of a vector, so that few registers hold the whole column. With
// one register for each element, four of the sums went through memory in every step.
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

// A block whose sums are in vector registers. The counterpart for AMX tiles is in tiles.inl.h.
struct InVectors {
  static constexpr int64_t kBlockRows = kTileRows, kBlockCols = kTileCols;
  struct Setup {};  // its constructor and destructor run before and after a thread's products
  template <typename Precision>
  static void multiply_block(const float* a, const float* b, int64_t n_words, float* out, int64_t ld,
                             const float* start, bool accumulate);
};

// `pairs` converts leading pairs of elements to words in a faster way and returns their number: here none.
struct OneByOne {
  static int64_t pairs(const float*, int64_t, float*) { return 0; }
};

// A register block whose sums are vectors of rows of the result. One step consumes one word of each element.
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

// Rounds to the nearest bfloat16, ties to even. Returns the bits of a float whose upper half is the result; the lower
// half is not cleared. A carry out of the mantissa correctly gives the next power of two, or infinity at the end.
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

// An instruction set names one of the following three classes, or its own, `Bfloat16`. This one is for those without
// instructions for bfloat16: the same numbers, at the speed of float32.
struct Rounded : RowSums {
  static constexpr int64_t kDepthOfWord = 1;
  static float word(float x, float) { return float_of_bits(bfloat16_bits(x) & 0xffff0000u); }
  static Lanes multiply_add(Lanes sum, Column::Element a, Lanes b) { return sum + Column::value(a) * b; }
};

// Each lane multiplies two pairs and adds both products.
template <typename Instructions>
struct Pairs : RowSums {
  static constexpr int64_t kDepthOfWord = 2;
  static float word(float x, float next) { return pair_of_bfloat16(x, next); }
  static Lanes multiply_add(Lanes sum, float a, Lanes b) { return Instructions::add_pair_products(sum, a, b); }
};

// A register of sums holds two rows by two columns, and one step adds four elements in depth. A vector of A holds two
// words of one row and two of the next; a vector of B holds the same of two columns.
template <typename Instructions>
struct Squares : InVectors, OneByOne {
  static constexpr bool kInMatrices = true;
  static constexpr int64_t kDepthOfWord = 2, kWordsAbreastInA = 2, kWordsAbreastInB = 2, kWordsOfStep = 2;
  static constexpr int kSumRows = kTileRows / 2, kSumCols = kTileCols / 2;
  static float word(float x, float next) { return pair_of_bfloat16(x, next); }
  static Lanes left(const float* a, int i) {
    // Keeps the compiler from loading all vectors of A early, which would spill sums to memory in every step.
    __asm__ volatile("" ::: "memory");
    return *reinterpret_cast<const Lanes*>(a + i * kLanes);
  }
  static Lanes multiply_add(Lanes sum, Lanes a, Lanes b) { return Instructions::add_square_products(sum, a, b); }
  static Lanes result(const Lanes (&sum)[kSumRows][kSumCols], int i, int v) {
    const Lanes left = sum[i / 2][2 * v], right = sum[i / 2][2 * v + 1];
    return i % 2 == 0 ? Instructions::upper_rows(left, right) : Instructions::lower_rows(left, right);
  }
};

// The words of an element are padded to a multiple of the number of words side by side.
template <typename Precision>
constexpr int64_t kWordsPaddedTo =
    Precision::kWordsAbreastInA > Precision::kWordsAbreastInB ? Precision::kWordsAbreastInA
                                                              : Precision::kWordsAbreastInB;
template <typename Precision>
constexpr int64_t words_of(int64_t depth) {
  constexpr int64_t unit = Precision::kDepthOfWord * kWordsPaddedTo<Precision>;
  return (depth + unit - 1) / unit * kWordsPaddedTo<Precision>;
}

// The position of word p of element i in a panel with `kAbreast` words of an element side by side.
template <int64_t kAbreast, int64_t kPanel>
constexpr int64_t place(int64_t p, int64_t i) {
  return (p / kAbreast * kPanel + i) * kAbreast + p % kAbreast;
}
