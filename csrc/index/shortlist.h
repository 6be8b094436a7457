// Shortlists: the few labels of a point that are worth scoring exactly.
#pragma once

#include <cstdint>

#include "../core/csr.h"

namespace sparsenet {

struct ShortlistIn {
  int64_t n, n_labels;
  Csr points;
  Csr index;  // the wide weights by feature: indices are labels
  const float* bias;
  const int32_t* fallback;  // at least as many labels as a list is long
};

// Writes the `size` labels of each point with the best sum of wide score and bias, in ascending order.
void shortlist(const ShortlistIn& in, int64_t size, int32_t* out_labels, float* out_scores, int threads);

// Computes the wide scores of `size` given labels for each point; `wide` has a row for each label.
void wide_scores(const Csr& points, int64_t n, int64_t n_features, const Csr& wide, const int32_t* labels, int64_t size,
                 float* out, int threads);

}  // namespace sparsenet
