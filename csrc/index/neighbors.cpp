#include "neighbors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "../core/threads.h"
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

template <typename Point>
void add_narrow(const Point* points, const int8_t* codes, int64_t count, float step, float x, float* __restrict sums) {
  for (int64_t j = 0; j < count; ++j) sums[points[j]] += x * (step * static_cast<float>(codes[j]));
}

void add_list(const Postings& lists, int64_t feature, float x, float* sums) {
  const int64_t begin = lists.indptr[feature], count = lists.indptr[feature + 1] - begin;
  if (lists.narrow.codes == nullptr) return add_row({lists.indptr, lists.points, lists.values}, feature, x, sums);
  const float step = from_bfloat16(lists.narrow.steps[feature]);
  const int8_t* codes = lists.narrow.codes + begin;
  if (lists.points != nullptr)
    add_narrow(lists.points + begin, codes, count, step, x, sums);
  else
    add_narrow(lists.short_points + begin, codes, count, step, x, sums);
}

int64_t entries(const Postings& index, int32_t feature) { return index.indptr[feature + 1] - index.indptr[feature]; }

}  // namespace

void NearestSearch::find(const Csr& points, int64_t i, const Postings& index, int64_t n_others, int64_t max_entries,
                         int64_t k, int32_t* out_points, float* out_products) {
  // All that may run out of memory comes before `products_` is written.
  zeros(products_, n_others);
  BlockMaxima::prepare(n_others, buffer_);
  features_.reserve(static_cast<size_t>(points.indptr[i + 1] - points.indptr[i]));
  best_.reset(k);
  add_products(points, i, index, max_entries);
  take_best(n_others, k);
  std::sort(best_.entries().begin(), best_.entries().end(), better);
  best_.entries().resize(static_cast<size_t>(k), ScoredLabel{0.0f, 0});
  for (int64_t c = 0; c < k; ++c) {
    out_points[c] = best_.entries()[static_cast<size_t>(c)].label;
    out_products[c] = best_.entries()[static_cast<size_t>(c)].score;
  }
}

void NearestSearch::add_products(const Csr& points, int64_t i, const Postings& index, int64_t max_entries) {
  const int64_t begin = points.indptr[i], end = points.indptr[i + 1];
  int64_t total = 0;
  for (int64_t j = begin; j < end; ++j) total += entries(index, points.indices[j]);
  if (total <= max_entries) {
    for (int64_t j = begin; j < end; ++j) add_list(index, points.indices[j], points.data[j], products_.data());
    return;
  }
  features_.clear();
  for (int64_t j = begin; j < end; ++j) {
    const float magnitude = std::abs(points.data[j]);
    const int64_t count = entries(index, points.indices[j]);
    features_.push_back({magnitude >= 0 ? magnitude / static_cast<float>(std::max<int64_t>(count, 1)) : 0, count, j});
  }
  std::sort(features_.begin(), features_.end(), [](const Feature& a, const Feature& b) {
    return a.strength != b.strength ? a.strength > b.strength : a.at < b.at;
  });
  for (const Feature& own : features_) {
    max_entries -= own.count;
    if (max_entries < 0) return;
    add_list(index, points.indices[own.at], points.data[own.at], products_.data());
  }
}

void NearestSearch::take_best(int64_t n_others, int64_t k) {
  float* products = products_.data();
  int32_t positions[BlockMaxima::kMaxBlock];
  const BlockMaxima maxima(products, n_others, k, buffer_);
  best_.set_threshold(std::max(maxima.bound(), 0.0f));
  maxima.each_above(best_.threshold(), [&](int64_t first, int64_t block) {
    const int64_t found = kernels().above(products + first, block, best_.threshold(), positions);
    for (int64_t f = 0; f < found; ++f)
      best_.add({products[first + positions[f]], static_cast<int32_t>(first + positions[f])});
  });
  best_.cut();
  std::memset(products, 0, static_cast<size_t>(n_others) * sizeof(float));
}

void nearest_points(const Csr& points, int64_t n, const Postings& index, int64_t n_others, int64_t max_entries,
                    int64_t k, int32_t* out_points, float* out_products, int threads) {
  parallel_blocks(n, kGrain, threads, [&](int64_t first, int64_t last) {
    static thread_local const auto search = std::make_unique<NearestSearch>();
    for (int64_t i = first; i < last; ++i)
      search->find(points, i, index, n_others, max_entries, k, out_points + i * k, out_products + i * k);
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
