// The start of the wide path: for each label the sum of its points, cut to the largest entries.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine.h"
#include "sparse_sum.h"
#include "threads.h"

namespace sparsenet {
namespace {

// Returns the `budget` features with the largest sums by magnitude, ties to the smaller feature, ascending.
std::vector<int32_t> largest(const SparseSum& sum, int64_t budget) {
  std::vector<int32_t> features = sum.features();
  if (static_cast<int64_t>(features.size()) > budget) {
    const auto larger = [&](int32_t a, int32_t b) {
      const float x = std::fabs(sum[a]), y = std::fabs(sum[b]);
      return x != y ? x > y : a < b;
    };
    std::nth_element(features.begin(), features.begin() + budget, features.end(), larger);
    features.resize(static_cast<size_t>(budget));
  }
  std::sort(features.begin(), features.end());
  return features;
}

}  // namespace

void label_centroids(const int64_t* label_indptr, const int32_t* label_points, int64_t n_labels, Csr points,
                     int64_t n_features, const int64_t* budget, CentroidsOut out, int threads) {
  // One task a thread, each with every workers-th label: an accumulator is as long as there are features and is set
  // up once, and frequent labels that stand together in the label order are shared out.
  const int64_t workers = std::min<int64_t>(threads, n_labels);
  parallel_for(workers, threads, [&](int64_t worker) {
    SparseSum total(n_features);
    for (int64_t l = worker; l < n_labels; l += workers) {
      for (int64_t j = label_indptr[l]; j < label_indptr[l + 1]; ++j) total.add(points, label_points[j]);
      int64_t at = out.starts[l];
      for (const int32_t feature : largest(total, budget[l])) {
        out.indices[at] = feature;
        out.data[at++] = total[feature];
      }
      out.counts[l] = at - out.starts[l];
      total.clear();
    }
  });
}

}  // namespace sparsenet
