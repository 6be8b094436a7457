// Counts for learning a vocabulary: texts with each slot, and texts with each feature and label.
#pragma once

#include <cstdint>

#include "features.h"

namespace sparsenet {

// ++texts[s] for each s in `slots`, which lists each slot once for each text that has it.
void count_slots(const int32_t* slots, int64_t n, int32_t* texts);

// ++counts[f - first][labels[i]] for each text i and each of its features f in [first, first + n_features). Features
// are the ids of slots; counts is (n_features, n_labels). The slots of text i end before slots[ends[i]].
void count_labels(Numbering numbering, const int64_t* ends, int64_t n, const int32_t* slots, const uint8_t* counted,
                  const int32_t* labels, int32_t first, int64_t n_features, int64_t n_labels, int32_t* counts);

}  // namespace sparsenet
