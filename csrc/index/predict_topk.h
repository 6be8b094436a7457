// Exact inference over all labels.
#pragma once

#include <cstdint>

#include "../core/csr.h"

namespace sparsenet {

struct TopkIn {
  int64_t n, width, n_labels;
  const float *hidden, *weight, *bias;
  Csr points;
  Csr wide;  // the wide weights by feature: indices are labels, ascending
};

// Writes the k best labels of each point and their scores, best first. Never holds an (n, n_labels) matrix.
void predict_topk(const TopkIn& in, int64_t k, int32_t* out_labels, float* out_scores, int threads);

}  // namespace sparsenet
