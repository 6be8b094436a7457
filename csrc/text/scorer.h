// Weighted features of texts and scores of a linear model.
#pragma once

#include <cstdint>
#include <vector>

#include "features.h"

namespace sparsenet {

// The slots that are features of a model, and their weights.
struct Vocabulary {
  Numbering numbering;
  const float* weights;     // of each feature
  const float* log_counts;  // 1 + log(count), kCounts entries
};
constexpr int64_t kCounts = kMaxCount + 1;

// A linear model with weights of 8 bits and a factor for each row. If `indptr` is not null, the matrix is sparse: row f
// has the columns columns[indptr[f]] ... columns[indptr[f + 1] - 1].
struct LinearModel {
  const int8_t* matrix;  // (n_features, n_columns), or the entries of a sparse matrix
  const int64_t* indptr;
  const int32_t* columns;
  const float* factors;
  const float* bias;
  int64_t n_columns;
};

// Dense copies of the fullest rows of a sparse model. They belong to frequent features, which take most of the time of
// a text. Adding a dense row, zeros included, takes much less time than adding its weights one by one.
class FullRows {
 public:
  FullRows() = default;
  FullRows(const LinearModel& model, int64_t n_features);

  const int8_t* data() const { return rows_.data(); }
  int32_t row_of(int32_t feature) const { return row_of_[feature]; }  // -1 if it has none

 private:
  std::vector<int8_t> rows_;
  std::vector<int32_t> row_of_;
};

// Weighs the features of texts that are in the vocabulary. Words and n-grams of characters have equal length, and each
// text has length 1. The slots of text i end before slots[ends[i]], and its features before rows[out_ends[i]].
void text_points(const Vocabulary& vocabulary, TextRules rules, const int64_t* ends, int64_t n, const int32_t* slots,
                 const uint8_t* counts, int64_t* out_ends, int32_t* rows, float* values, int threads);

// Computes scores (n, n_columns) of texts text[offsets[i] : offsets[i + 1]]; `full` must belong to `model`.
void text_scores(UnicodeTable table, TextRules rules, const Vocabulary& vocabulary, const LinearModel& model,
                 const FullRows& full, const uint8_t* text, const int64_t* offsets, int64_t n, float* scores,
                 int threads);

}  // namespace sparsenet
