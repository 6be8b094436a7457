// A dense sum of sparse rows with a list of the features in use, so that clearing it costs no more than filling it.
#pragma once

#include <cstdint>
#include <vector>

#include "csr.h"

namespace sparsenet {

class SparseSum {
 public:
  explicit SparseSum(int64_t n_features)
      : sum_(static_cast<size_t>(n_features)),
        present_(static_cast<size_t>(n_features)),
        features_(static_cast<size_t>(n_features) + 1) {}

  void add(const Csr& rows, int64_t row) {
    for (int64_t j = rows.indptr[row]; j < rows.indptr[row + 1]; ++j) {
      const int32_t feature = rows.indices[j];
      // No branch on whether the feature is new: if it is not, the next one overwrites it.
      features_[n_] = feature;
      n_ += present_[feature] == 0;
      present_[feature] = 1;
      sum_[feature] += rows.data[j];
    }
  }

  // Returns 0 for a feature that no row has.
  float operator[](int32_t feature) const { return sum_[feature]; }

  // The features, each once, in order of first appearance.
  const int32_t* begin() const { return features_.data(); }
  const int32_t* end() const { return features_.data() + n_; }

  void clear() {
    for (const int32_t feature : *this) {
      sum_[feature] = 0;
      present_[feature] = 0;
    }
    n_ = 0;
  }

 private:
  std::vector<float> sum_;
  std::vector<uint8_t> present_;   // apart from the sums, because a present feature may have a sum of zero
  std::vector<int32_t> features_;  // one longer than the number of features: `add` writes before it checks
  int64_t n_ = 0;
};

}  // namespace sparsenet
