// From texts to the weighted features of a linear model, and to its scores.
#pragma once

#include <cstdint>
#include <vector>

#include "text.h"

namespace sparsenet {

// Which slots are features of a model, and what each counts.
struct Vocabulary {
  Numbering numbering;
  const float* weights;     // of each feature
  const float* log_counts;  // 1 + log(count), kCounts entries
};
constexpr int64_t kCounts = kMostCounted + 1;

// Weights 8 bits wide, with a factor for each row. With `indptr`, only some of each row's are there: those of
// columns[indptr[f]] ... columns[indptr[f + 1] - 1].
struct LinearModel {
  const int8_t* matrix;  // (n_features, n_columns)
  const int64_t* indptr;
  const int32_t* columns;
  const float* factors;
  const float* bias;
  int64_t n_columns;
};

// Of a model with `indptr`, the features with weights of many labels once more, as rows of all labels. They are the
// frequent ones, and most of what a text costs: to add a row of zeros and weights takes a small part of the time in
// which that many single weights find their labels.
class FullRows {
 public:
  FullRows() = default;
  FullRows(const LinearModel& model, int64_t n_features);

  const int8_t* data() const { return rows_.data(); }
  int32_t row_of(int32_t feature) const { return row_of_[feature]; }  // -1: it has none

 private:
  std::vector<int8_t> rows_;
  std::vector<int32_t> row_of_;
};

// The features of texts that the vocabulary has, words and characters each scaled to the same length, 1 in all. Those
// of text i end before slots[ends[i]], and what is left of them before rows[out_ends[i]].
void text_points(const Vocabulary& vocabulary, TextRules rules, const int64_t* ends, int64_t n, const int32_t* slots,
                 const uint8_t* counts, int64_t* out_ends, int32_t* rows, float* values, int threads);

// Scores (n, n_columns) of texts text[offsets[i] : offsets[i + 1]]; `full` is that of the model.
void text_scores(UnicodeTable table, TextRules rules, const Vocabulary& vocabulary, const LinearModel& model,
                 const FullRows& full, const uint8_t* text, const int64_t* offsets, int64_t n, float* scores,
                 int threads);

}  // namespace sparsenet
