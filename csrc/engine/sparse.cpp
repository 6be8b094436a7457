#include "sparse.h"

#include <algorithm>
#include <vector>

#include "../core/prefetch.h"
#include "../core/threads.h"
#include "../kernels/kernel_table.h"

namespace sparsenet {
namespace {

constexpr int64_t kPointGrain = 16;

}  // namespace

void csr_matmul(Csr csr, int64_t n, const float* dense, int64_t width, float* out, int threads) {
  parallel_blocks(n, kPointGrain, threads,
                  [&](int64_t begin, int64_t end) { kernels().csr_matmul(csr, dense, width, out, begin, end); });
}

void csr_matmul_narrow(Csr csr, int64_t n, NarrowRows dense, int64_t width, float* out, int threads) {
  parallel_blocks(n, kPointGrain, threads, [&](int64_t begin, int64_t end) {
    static thread_local std::vector<float> row;
    row.resize(static_cast<size_t>(width));
    kernels().csr_matmul_narrow(csr, dense, width, row.data(), out, begin, end);
  });
}

int64_t transpose_batch(Csr csr, int64_t n, const int32_t* before, int64_t n_before, int32_t* slots, int32_t* features,
                        int64_t* starts, int32_t* rows, float* values) {
  constexpr int64_t kAhead = 32;  // ids are scattered over a table that the previous step evicted from the caches
  for (int64_t j = 0; j < n_before; ++j) {
    if (j + kAhead < n_before) prefetch(slots + before[j + kAhead]);
    slots[before[j]] = -1;
  }
  const int64_t nnz = csr.indptr[n];
  std::fill_n(starts, nnz + 1, 0);
  int64_t present = 0;
  for (int64_t j = 0; j < nnz; ++j) {
    const int32_t feature = csr.indices[j];
    if (j + kAhead < nnz) prefetch(slots + csr.indices[j + kAhead]);
    // No branch, since it is unpredictable whether a feature is new.
    const bool is_new = slots[feature] < 0;
    const int32_t slot = is_new ? static_cast<int32_t>(present) : slots[feature];
    slots[feature] = slot;
    features[slot] = feature;
    present += is_new;
    ++starts[slot + 1];
  }
  for (int64_t s = 0; s < present; ++s) starts[s + 1] += starts[s];
  // starts[s] is the write cursor of slot s; it ends at the start of slot s + 1.
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = csr.indptr[i]; j < csr.indptr[i + 1]; ++j) {
      const int64_t at = starts[slots[csr.indices[j]]]++;
      rows[at] = static_cast<int32_t>(i);
      values[at] = csr.data[j];
    }
  }
  for (int64_t s = present; s > 0; --s) starts[s] = starts[s - 1];
  starts[0] = 0;
  return present;
}

void take_rows(Csr csr, const int64_t* rows, int64_t count, const int64_t* out_indptr, int32_t* out_indices,
               float* out_data) {
  // Rows are scattered over a large matrix, and are too short for the hardware prefetcher.
  constexpr int64_t kAhead = 4, kLine = 16;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) {
      const int64_t later = csr.indptr[rows[i + kAhead]], stop = csr.indptr[rows[i + kAhead] + 1];
      for (int64_t j = later; j < stop; j += kLine) {
        prefetch(csr.indices + j);
        prefetch(csr.data + j);
      }
    }
    const int64_t from = csr.indptr[rows[i]], to = out_indptr[i], length = out_indptr[i + 1] - to;
    std::copy_n(csr.indices + from, length, out_indices + to);
    std::copy_n(csr.data + from, length, out_data + to);
  }
}

void spread_postings(const int64_t* starts, int64_t n_slots, const int32_t* rows, const float* values,
                     const int32_t* dense_of, float* dense, int64_t k, int64_t n) {
  std::fill_n(dense, k * n, 0.0f);
  for (int64_t s = 0; s < n_slots; ++s) {
    if (dense_of[s] < 0) continue;
    float* row = dense + dense_of[s] * n;
    for (int64_t j = starts[s]; j < starts[s + 1]; ++j) row[rows[j]] = values[j];
  }
}

void pair_dot(const int64_t* indptr, const int32_t* ids, int64_t n, const float* hidden, const float* weight,
              int64_t width, float* out, int threads) {
  parallel_blocks(n, 1, threads, [&](int64_t begin, int64_t) {
    const int64_t first = indptr[begin], count = indptr[begin + 1] - first;
    kernels().dot_rows(hidden + begin * width, weight, width, ids + first, 0, count, out + first);
  });
}

}  // namespace sparsenet
