// The training points that are like a point, and what their labels say of it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine.h"
#include "running.h"
#include "threads.h"

namespace sparsenet {
namespace {

constexpr int64_t kGrain = 8;  // points of a task

// Numbers that are zero between one point and the next.
float* zeros(std::vector<float>& room, int64_t count) {
  if (static_cast<int64_t>(room.size()) < count) room.resize(static_cast<size_t>(count));
  return room.data();
}

void add_row(const Csr& rows, int64_t row, float x, float* sums) {
  for (int64_t j = rows.indptr[row]; j < rows.indptr[row + 1]; ++j) sums[rows.indices[j]] += x * rows.data[j];
}

// Which features of a point are looked up, where they have too many entries for all.
class Question {
 public:
  // Adds to the products with all others; returns before the first addition where there is no memory.
  void add(const Csr& points, int64_t i, const Csr& index, int64_t most, float* products) {
    const int64_t begin = points.indptr[i], end = points.indptr[i + 1];
    int64_t total = 0;
    for (int64_t j = begin; j < end; ++j) total += entries(index, points.indices[j]);
    if (total <= most) {
      for (int64_t j = begin; j < end; ++j) add_row(index, points.indices[j], points.data[j], products);
      return;
    }
    asked_.clear();
    for (int64_t j = begin; j < end; ++j) {
      const float size = std::abs(points.data[j]);
      const int64_t count = entries(index, points.indices[j]);
      asked_.push_back({size >= 0 ? size / static_cast<float>(std::max<int64_t>(count, 1)) : 0, count, j});
    }
    std::sort(asked_.begin(), asked_.end(),
              [](const Asked& a, const Asked& b) { return a.worth != b.worth ? a.worth > b.worth : a.at < b.at; });
    for (const Asked& own : asked_) {
      most -= own.count;
      if (most < 0) return;
      add_row(index, points.indices[own.at], points.data[own.at], products);
    }
  }

 private:
  struct Asked {
    float worth;  // an entry
    int64_t count, at;
  };
  static int64_t entries(const Csr& index, int32_t feature) {
    return index.indptr[feature + 1] - index.indptr[feature];
  }
  std::vector<Asked> asked_;
};

// Moves the best of the products above zero to `best`, and leaves zeros.
void take_best(float* products, int64_t count, int64_t k, std::vector<float>& room, Running& best) {
  int32_t positions[Maxima::kLargest];
  const Maxima maxima(products, count, k, room);
  best.start_above(std::max(maxima.bound(), 0.0f));
  maxima.each_above(best.threshold(), [&](int64_t first, int64_t block) {
    const int64_t found = kernels().above(products + first, block, best.threshold(), positions);
    for (int64_t f = 0; f < found; ++f)
      best.add({products[first + positions[f]], static_cast<int32_t>(first + positions[f])});
  });
  best.cut();
  std::memset(products, 0, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace

void nearest_points(const Csr& points, int64_t n, const Csr& index, int64_t n_others, int64_t most, int64_t k,
                    int32_t* out_points, float* out_products, int threads) {
  parallel_blocks(n, kGrain, threads, [&](int64_t first, int64_t last) {
    static thread_local std::vector<float> sums, room;
    static thread_local Running best;
    static thread_local Question question;
    float* products = zeros(sums, n_others);
    Maxima::prepare(n_others, room);
    for (int64_t i = first; i < last; ++i) {
      best.reset(k);  // as what is prepared above, this may find no memory: before there is anything to leave behind
      question.add(points, i, index, most, products);
      take_best(products, n_others, k, room, best);
      std::sort(best.entries().begin(), best.entries().end(), better);
      best.entries().resize(static_cast<size_t>(k), Best{0.0f, 0});
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
    static thread_local std::vector<float> room;
    float* sums = zeros(room, n_labels);
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
