// The start of the wide path: for each label the sum of its points, cut to the largest entries.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine.h"
#include "threads.h"

namespace sparsenet {
namespace {

// A sparse sum over features: dense values with a list of those that are set, so that clearing costs what was used.
struct Accumulator {
  std::vector<float> sum;
  std::vector<uint8_t> present;
  std::vector<int32_t> features;

  explicit Accumulator(int64_t n_features)
      : sum(static_cast<size_t>(n_features)), present(static_cast<size_t>(n_features)) {}

  void add(int32_t feature, float x) {
    if (!present[feature]) {
      present[feature] = 1;
      features.push_back(feature);
      sum[feature] = 0;
    }
    sum[feature] += x;
  }

  // Keeps the `budget` largest by magnitude, ties to the smaller feature, and leaves them in ascending order.
  void prune(int64_t budget) {
    if (static_cast<int64_t>(features.size()) > budget) {
      const auto larger = [&](int32_t a, int32_t b) {
        const float x = std::fabs(sum[a]), y = std::fabs(sum[b]);
        return x != y ? x > y : a < b;
      };
      std::nth_element(features.begin(), features.begin() + budget, features.end(), larger);
      for (size_t i = static_cast<size_t>(budget); i < features.size(); ++i) present[features[i]] = 0;
      features.resize(static_cast<size_t>(budget));
    }
    std::sort(features.begin(), features.end());
  }

  void clear() {
    for (const int32_t feature : features) present[feature] = 0;
    features.clear();
  }
};

}  // namespace

void label_centroids(const int64_t* label_indptr, const int32_t* label_points, int64_t n_labels, Csr points,
                     int64_t n_features, const int64_t* budget, CentroidsOut out, int threads) {
  // One task a thread, each with every workers-th label: an accumulator is as long as there are features and is set
  // up once, and frequent labels that stand together in the label order are shared out.
  const int64_t workers = std::min<int64_t>(threads, n_labels);
  parallel_for(workers, threads, [&](int64_t worker) {
    Accumulator total(n_features);
    for (int64_t l = worker; l < n_labels; l += workers) {
      for (int64_t j = label_indptr[l]; j < label_indptr[l + 1]; ++j) {
        const int64_t i = label_points[j];
        for (int64_t e = points.indptr[i]; e < points.indptr[i + 1]; ++e) total.add(points.indices[e], points.data[e]);
      }
      total.prune(budget[l]);
      int64_t at = out.starts[l];
      for (const int32_t feature : total.features) {
        out.indices[at] = feature;
        out.data[at++] = total.sum[feature];
      }
      out.counts[l] = at - out.starts[l];
      total.clear();
    }
  });
}

}  // namespace sparsenet
