// What a vocabulary is learnt from: how many texts have each slot, and how many texts of each label.
#pragma once

#include <cstdint>

#include "text.h"

namespace sparsenet {

// ++texts[s] for each of the slots, which are those of texts, once for each text that has it.
void count_slots(const int32_t* slots, int64_t n, int32_t* texts);

// ++counts[f - first][label of the text] for each feature f of each text, features being the numbers of slots, of which
// those from `first` on are counted: counts is (n_features, n_labels). The slots of text i end before slots[ends[i]].
void count_labels(Numbering numbering, const int64_t* ends, int64_t n, const int32_t* slots, const uint8_t* counted,
                  const int32_t* labels, int32_t first, int64_t n_features, int64_t n_labels, int32_t* counts);

}  // namespace sparsenet
