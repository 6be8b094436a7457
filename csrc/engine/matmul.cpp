#include "matmul.h"

#include <algorithm>

#include "../core/machine.h"
#include "../core/scratch.h"
#include "../core/threads.h"

namespace sparsenet {
namespace {

// The depth of a block determines the order of sums, so it is the same on every machine. A panel of B (kWords x
// tile_cols words, 12 to 32 KiB) is read again for every register block of A, from the first-level cache or, if it just
// fits there, partly from the second-level cache. A block of packed A takes 48 or 64 KiB, which fits every second-level
// cache.
constexpr int64_t kWords = 256;
constexpr int64_t kBlockRows = 48;
constexpr int64_t kBlockCols = 128;
// The number of columns whose packed block of B takes three quarters of the second-level cache.
int64_t max_columns() {
  return std::max(kBlockCols, second_level_cache() * 3 / 4 / (kWords * static_cast<int64_t>(sizeof(float))));
}
constexpr int64_t kEnoughTasks = 64;  // to keep any number of threads busy
// A small and deep product is split along its depth. The partial results, summed at the end, take little memory.
constexpr int64_t kDeepChunk = 1024, kSmall = 1 << 18;

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }
int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

struct Product {
  const MatmulKernels& kernel;
  Operand a, b;
  MatmulShape shape;
  const float* start;  // initial sums of the rows, or null

  int64_t words(int64_t depth) const { return round_up(ceil_div(depth, kernel.depth_of_word), kernel.words_padded_to); }
  int64_t block_depth() const { return kWords * kernel.depth_of_word; }
  int64_t block_rows() const { return round_up(kBlockRows, kernel.tile_rows); }
  float start_of(int64_t i) const { return start != nullptr ? start[i] : 0.0f; }

  void pack_b(int64_t j, int64_t cols, int64_t p, int64_t depth, float* packed) const {
    kernel.pack_b(b, shape.transpose_b, j, cols, p, depth, packed);
  }
  // Multiplies rows [i, i + rows) at depths [p, p + depth) by packed columns: out = begin + product, or out += product.
  void multiply(int64_t i, int64_t rows, int64_t p, int64_t depth, const float* packed_b, int64_t cols, float* out,
                const float* begin, bool accumulate) const {
    static thread_local Scratch scratch;
    float* packed_a = scratch.floats(block_rows() * kWords);
    kernel.pack_a(a, !shape.transpose_a, i, rows, p, depth, packed_a);
    kernel.multiply(packed_a, packed_b, rows, cols, depth, out, shape.n, begin, accumulate);
  }
};

// One task for each block of the result, summed over the whole depth. B is packed once, for all tasks.
void multiply_by_blocks(const Product& product, float* out, int threads) {
  const MatmulKernels& kernel = product.kernel;
  const int64_t m = product.shape.m, n = product.shape.n, depth = product.shape.depth;
  const int64_t step = kernel.depth_of_word, block_depth = product.block_depth(), block_rows = product.block_rows();
  const int64_t pack_cols = round_up(kBlockCols, kernel.tile_cols), padded_n = round_up(n, kernel.tile_cols);
  const int64_t row_blocks = ceil_div(m, block_rows);
  // Each block of columns packs A again, so there are several only if the rows alone give too few tasks.
  const int64_t max_cols = round_up(max_columns(), kernel.tile_cols);
  const int64_t block_cols = row_blocks >= kEnoughTasks ? std::min(max_cols, padded_n) : pack_cols;
  const int64_t col_blocks = ceil_div(n, block_cols), pack_blocks = ceil_div(n, pack_cols);

  static thread_local Scratch scratch;
  float* packed_b = scratch.floats(padded_n * product.words(depth));
  const auto packed_at = [&](int64_t p, int64_t j, int64_t used) {
    return packed_b + p / step * padded_n + j * product.words(used);
  };
  parallel_for(ceil_div(depth, block_depth) * pack_blocks, threads, [&](int64_t task) {
    const int64_t p = task / pack_blocks * block_depth, j = task % pack_blocks * pack_cols;
    const int64_t used = std::min(block_depth, depth - p);
    product.pack_b(j, std::min(pack_cols, n - j), p, used, packed_at(p, j, used));
  });
  parallel_for(row_blocks * col_blocks, threads, [&](int64_t task) {
    const int64_t i = task / col_blocks * block_rows, j = task % col_blocks * block_cols;
    const int64_t rows = std::min(block_rows, m - i), cols = std::min(block_cols, n - j);
    for (int64_t r = i; depth == 0 && r < i + rows; ++r) std::fill_n(out + r * n + j, cols, product.start_of(r));
    const float* start = product.start != nullptr ? product.start + i : nullptr;
    for (int64_t p = 0; p < depth; p += block_depth) {
      const int64_t used = std::min(block_depth, depth - p);
      product.multiply(i, rows, p, used, packed_at(p, j, used), cols, out + i * n + j, start, p > 0);
    }
  });
}

// One task for each chunk of the depth. This is for results of few blocks, where a task for each block would read whole
// operands. The chunks depend on the sizes alone and are summed in order, so the result does not depend on the number
// of threads.
void multiply_by_depth(const Product& product, float* out, int threads) {
  const int64_t m = product.shape.m, n = product.shape.n, depth = product.shape.depth;
  const int64_t block_depth = product.block_depth(), block_rows = product.block_rows();
  const int64_t chunks = ceil_div(depth, kDeepChunk);
  static thread_local Scratch sums_scratch;
  float* sums = sums_scratch.floats(chunks * m * n);
  parallel_for(chunks, threads, [&](int64_t chunk) {
    static thread_local Scratch scratch;
    float* packed_b = scratch.floats(round_up(n, product.kernel.tile_cols) * kWords);
    const int64_t first = chunk * kDeepChunk, last = std::min(depth, first + kDeepChunk);
    for (int64_t p = first; p < last; p += block_depth) {
      const int64_t used = std::min(block_depth, last - p);
      product.pack_b(0, n, p, used, packed_b);
      for (int64_t i = 0; i < m; i += block_rows)
        product.multiply(i, std::min(block_rows, m - i), p, used, packed_b, n, sums + (chunk * m + i) * n, nullptr,
                         p > first);
    }
  });
  parallel_blocks(m * n, 1 << 14, threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float sum = product.start_of(i / n);
      for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += sums[chunk * m * n + i];
      out[i] = sum;
    }
  });
}

}  // namespace

void matmul(Operand a, Operand b, MatmulShape shape, const float* start, float* out, int threads) {
  if (shape.m == 0 || shape.n == 0) return;
  const Product product = {shape.bfloat16 ? kernels().bfloat16 : kernels().float32, a, b, shape, start};
  if (shape.m * shape.n <= kSmall && shape.depth > 2 * kDeepChunk)
    multiply_by_depth(product, out, threads);
  else
    multiply_by_blocks(product, out, threads);
}

}  // namespace sparsenet
