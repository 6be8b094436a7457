#include "neighbors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "../core/threads.h"
#include "../core/top_k.h"
#include "../kernels/kernel_table.h"
#include "block_maxima.h"

namespace sparsenet {
namespace {

constexpr int64_t kGrain = 8;  // points per task

// Returns `count` numbers that every caller leaves at zero after each point.
float* zeros(std::vector<float>& buffer, int64_t count) {
  if (static_cast<int64_t>(buffer.size()) < count) buffer.resize(static_cast<size_t>(count));
  return buffer.data();
}

void add_row(const Csr& rows, int64_t row, float x, float* sums) {
  for (int64_t j = rows.indptr[row]; j < rows.indptr[row + 1]; ++j) sums[rows.indices[j]] += x * rows.data[j];
}

// Looks up the features of a point in the index, but only as many as a limit on index entries allows.
class BoundedLookup {
 public:
  // Adds the products of point i with all indexed points. If memory runs out, throws before the first addition.
  void add(const Csr& points, int64_t i, const Csr& index, int64_t max_entries, float* products) {
    const int64_t begin = points.indptr[i], end = points.indptr[i + 1];
    int64_t total = 0;
    for (int64_t j = begin; j < end; ++j) total += entries(index, points.indices[j]);
    if (total <= max_entries) {
      for (int64_t j = begin; j < end; ++j) add_row(index, points.indices[j], points.data[j], products);
      return;
    }
    candidates_.clear();
    for (int64_t j = begin; j < end; ++j) {
      const float magnitude = std::abs(points.data[j]);
      const int64_t count = entries(index, points.indices[j]);
      candidates_.push_back(
          {magnitude >= 0 ? magnitude / static_cast<float>(std::max<int64_t>(count, 1)) : 0, count, j});
    }
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.strength != b.strength ? a.strength > b.strength : a.at < b.at;
    });
    for (const Candidate& own : candidates_) {
      max_entries -= own.count;
      if (max_entries < 0) return;
      add_row(index, points.indices[own.at], points.data[own.at], products);
    }
  }

 private:
  struct Candidate {
    float strength;  // value per index entry
    int64_t count, at;
  };
  static int64_t entries(const Csr& index, int32_t feature) {
    return index.indptr[feature + 1] - index.indptr[feature];
  }
  std::vector<Candidate> candidates_;
};

// Moves the k largest positive products to `best` and resets all products to zero.
void take_best(float* products, int64_t count, int64_t k, std::vector<float>& buffer, TopK& best) {
  int32_t positions[BlockMaxima::kMaxBlock];
  const BlockMaxima maxima(products, count, k, buffer);
  best.set_threshold(std::max(maxima.bound(), 0.0f));
  maxima.each_above(best.threshold(), [&](int64_t first, int64_t block) {
    const int64_t found = kernels().above(products + first, block, best.threshold(), positions);
    for (int64_t f = 0; f < found; ++f)
      best.add({products[first + positions[f]], static_cast<int32_t>(first + positions[f])});
  });
  best.cut();
  std::memset(products, 0, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace

void nearest_points(const Csr& points, int64_t n, const Csr& index, int64_t n_others, int64_t max_entries, int64_t k,
                    int32_t* out_points, float* out_products, int threads) {
  parallel_blocks(n, kGrain, threads, [&](int64_t first, int64_t last) {
    static thread_local std::vector<float> sums, buffer;
    static thread_local TopK best;
    static thread_local BoundedLookup lookup;
    float* products = zeros(sums, n_others);
    BlockMaxima::prepare(n_others, buffer);
    for (int64_t i = first; i < last; ++i) {
      best.reset(k);  // like `prepare`, it may run out of memory, so it comes before `products` is written
      lookup.add(points, i, index, max_entries, products);
      take_best(products, n_others, k, buffer, best);
      std::sort(best.entries().begin(), best.entries().end(), better);
      best.entries().resize(static_cast<size_t>(k), ScoredLabel{0.0f, 0});
      for (int64_t c = 0; c < k; ++c) {
        out_points[i * k + c] = best.entries()[static_cast<size_t>(c)].label;
        out_products[i * k + c] = best.entries()[static_cast<size_t>(c)].score;
      }
    }
  });
}

void neighbor_votes(const Csr& neighbors, int64_t n, const Csr& labels, int64_t n_labels, const int32_t* wanted,
                    int64_t size, float* out, int threads) {
  parallel_blocks(n, kGrain, threads, [&](int64_t first, int64_t last) {
    static thread_local std::vector<float> buffer;
    float* sums = zeros(buffer, n_labels);
    for (int64_t i = first; i < last; ++i) {
      const int64_t from = neighbors.indptr[i], to = neighbors.indptr[i + 1];
      for (int64_t j = from; j < to; ++j) add_row(labels, neighbors.indices[j], neighbors.data[j], sums);
      for (int64_t c = i * size; c < (i + 1) * size; ++c) out[c] = sums[wanted[c]];
      for (int64_t j = from; j < to; ++j)
        for (int64_t l = labels.indptr[neighbors.indices[j]]; l < labels.indptr[neighbors.indices[j] + 1]; ++l)
          sums[labels.indices[l]] = 0.0f;
    }
  });
}

}  // namespace sparsenet
