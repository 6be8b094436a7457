// A sum of sparse rows, kept dense with a list of the features that are set, so that to clear it costs what was used.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel_table.h"

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
      // Without a branch on whether it is new: what is not is overwritten by the next.
      features_[n_] = feature;
      n_ += present_[feature] == 0;
      present_[feature] = 1;
      sum_[feature] += rows.data[j];
    }
  }

  // 0 of a feature that no row had.
  float operator[](int32_t feature) const { return sum_[feature]; }

  // Features, each once, in order of first appearance.
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
  std::vector<uint8_t> present_;   // a sum of zero does not tell: one that was cancelled out would be listed twice
  std::vector<int32_t> features_;  // and room for one that is not new
  int64_t n_ = 0;
};

}  // namespace sparsenet
