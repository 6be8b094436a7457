#include "vocabulary.h"

#include <vector>

#include "../kernels/kernel_table.h"

namespace sparsenet {

void count_slots(const int32_t* slots, int64_t n, int32_t* texts) {
  for (int64_t i = 0; i < n; ++i) ++texts[slots[i]];
}

void count_labels(Numbering numbering, const int64_t* ends, int64_t n, const int32_t* slots, const uint8_t* counted,
                  const int32_t* labels, int32_t first, int64_t n_features, int64_t n_labels, int32_t* counts) {
  std::vector<int32_t> features;
  std::vector<uint8_t> unused;
  for (int64_t i = 0, at = 0; i < n; at = ends[i++]) {
    const int64_t size = ends[i] - at;
    if (size > static_cast<int64_t>(features.size())) {
      features.resize(size);
      unused.resize(size);
    }
    const int64_t found = kernels().number_features(numbering.used, numbering.ranks, slots + at, counted + at, size,
                                                    features.data(), unused.data());
    for (int64_t j = 0; j < found; ++j) {
      const int64_t feature = int64_t{features[j]} - first;
      if (feature >= 0 && feature < n_features) ++counts[feature * n_labels + labels[i]];
    }
  }
}

}  // namespace sparsenet
