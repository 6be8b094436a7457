#include "centroids.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "../core/close_gaps.h"
#include "../core/sparse_sum.h"
#include "../core/threads.h"

namespace sparsenet {
namespace {

// A bit set with a second-level bit set over its words. Visits its numbers in ascending order in time proportional to
// their count; sorting them would take several times as long as the sum itself.
class SortedSet {
 public:
  explicit SortedSet(int64_t n) : bits_(n / 64 + 1), words_(n / 4096 + 1) {}

  void insert(int32_t i) {
    bits_[i >> 6] |= uint64_t{1} << (i & 63);
    words_[i >> 12] |= uint64_t{1} << (i >> 6 & 63);
  }

  // Calls `visit` with each number in ascending order and empties the set.
  template <typename Visit>
  void drain(const Visit& visit) {
    for (size_t w = 0; w < words_.size(); ++w)
      for (uint64_t words = std::exchange(words_[w], 0); words != 0; words &= words - 1) {
        const int64_t word = static_cast<int64_t>(w) * 64 + __builtin_ctzll(words);
        for (uint64_t bits = std::exchange(bits_[word], 0); bits != 0; bits &= bits - 1)
          visit(static_cast<int32_t>(word * 64 + __builtin_ctzll(bits)));
      }
  }

 private:
  std::vector<uint64_t> bits_, words_;  // one bit for each number, and for each word of `bits_` that is not zero
};

// Inserts the `budget` features with the largest sums by magnitude, ties to the smaller feature.
void insert_largest(const SparseSum& sum, int64_t budget, std::vector<int32_t>& order, SortedSet& kept) {
  order.assign(sum.begin(), sum.end());
  if (static_cast<int64_t>(order.size()) > budget) {
    const auto larger = [&](int32_t a, int32_t b) {
      const float x = std::fabs(sum[a]), y = std::fabs(sum[b]);
      return x != y ? x > y : a < b;
    };
    std::nth_element(order.begin(), order.begin() + budget, order.end(), larger);
    order.resize(static_cast<size_t>(budget));
  }
  for (const int32_t feature : order) kept.insert(feature);
}

}  // namespace

void label_centroids(const int64_t* label_indptr, const int32_t* label_points, int64_t n_labels, Csr points,
                     int64_t n_features, const int64_t* budget, CentroidsOut out, int threads) {
  // One task per thread, each with every `workers`-th label: accumulators are as long as the number of features and are
  // set up once, and frequent labels that are adjacent in the label order are spread over the tasks.
  const int64_t workers = std::min<int64_t>(threads, n_labels);
  parallel_for(workers, threads, [&](int64_t worker) {
    SparseSum total(n_features);
    SortedSet kept(n_features);
    std::vector<int32_t> order;
    for (int64_t l = worker; l < n_labels; l += workers) {
      for (int64_t j = label_indptr[l]; j < label_indptr[l + 1]; ++j) total.add(points, label_points[j]);
      int64_t at = out.starts[l];
      insert_largest(total, budget[l], order, kept);
      kept.drain([&](int32_t feature) {
        out.indices[at] = feature;
        out.data[at++] = total[feature];
      });
      out.ends[l] = at - out.starts[l];
      total.clear();
    }
  });
  close_gaps(n_labels, [&](int64_t l) { return out.starts[l]; }, out.ends, out.indices, out.data);
}

}  // namespace sparsenet
