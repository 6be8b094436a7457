#include "scorer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../core/close_gaps.h"
#include "../core/threads.h"
#include "../kernels/kernel_table.h"

namespace sparsenet {
namespace {

constexpr int64_t kTextsPerTask = 32;
// A row gets a dense copy if at least one in `kFullShare` of its weights is present. Dense copies then take at most 1.6
// times the memory of the sparse weights, which take 5 bytes each.
constexpr int64_t kFullShare = 8;

// The factors that bring words and characters of a text to equal length, and the text to length 1.
struct Scales {
  float words, characters;
  int32_t n_words;  // features below this id are words

  float of(int32_t feature) const { return feature < n_words ? words : characters; }
};

class FeatureWeights {
 public:
  FeatureWeights(const Vocabulary& vocabulary, TextRules rules) : vocabulary_(vocabulary) {
    const int64_t half = int64_t{1} << (rules.bits - 1);
    kinds_ = rules.char_high > 0 ? 2 : 1;
    // The slots of words precede the slots of characters, and feature ids have the same order.
    const auto [used, ranks] = vocabulary.numbering;
    n_words_ = half >= 64 ? ranks[half >> 6]
                          : static_cast<int32_t>(__builtin_popcountll(used[0] & ((uint64_t{1} << half) - 1)));
  }

  // Writes the values of a text's features, before scaling.
  Scales compute(const int32_t* features, const uint8_t* counts, int64_t n, float* values) const {
    float words = 0, characters = 0;  // two variables: with an array, each addition would wait for a store
    for (int64_t j = 0; j < n; ++j) {
      const float value = vocabulary_.log_counts[counts[j]] * vocabulary_.weights[features[j]];
      const float square = value * value;
      values[j] = value;
      words += features[j] < n_words_ ? square : 0;
      characters += features[j] < n_words_ ? 0 : square;
    }
    return {scale(words), scale(characters), n_words_};
  }

 private:
  float scale(float squares) const { return squares > 0 ? 1 / std::sqrt(kinds_ * squares) : 0; }

  Vocabulary vocabulary_;
  float kinds_;
  int32_t n_words_;
};

// Adds the scores of features with these values to `sums`. Overwrites `features` and `values`.
void add_scores(const LinearModel& model, const FullRows& full, int32_t* features, float* values, Scales scales,
                int64_t n, float* sums) {
  for (int64_t j = 0; j < n; ++j) values[j] *= scales.of(features[j]) * model.factors[features[j]];
  if (model.indptr == nullptr) {
    kernels().add_rows(model.matrix, model.n_columns, features, values, n, sums);
    return;
  }
  int64_t n_full = 0;
  for (int64_t j = 0; j < n; ++j) {
    const int32_t feature = features[j], row = full.row_of(feature);
    if (row >= 0) {
      features[n_full] = row;
      values[n_full++] = values[j];
      continue;
    }
    for (int64_t k = model.indptr[feature]; k < model.indptr[feature + 1]; ++k)
      sums[model.columns[k]] += values[j] * static_cast<float>(model.matrix[k]);
  }
  kernels().add_rows(full.data(), model.n_columns, features, values, n_full, sums);
}

}  // namespace

FullRows::FullRows(const LinearModel& model, int64_t n_features) : row_of_(n_features, -1) {
  int32_t n = 0;
  for (int64_t f = 0; f < n_features; ++f)
    if (kFullShare * (model.indptr[f + 1] - model.indptr[f]) >= model.n_columns) row_of_[f] = n++;
  rows_.resize(n * model.n_columns);
  for (int64_t f = 0; f < n_features; ++f)
    for (int64_t k = model.indptr[f]; row_of_[f] >= 0 && k < model.indptr[f + 1]; ++k)
      rows_[row_of_[f] * model.n_columns + model.columns[k]] = model.matrix[k];
}

void text_points(const Vocabulary& vocabulary, TextRules rules, const int64_t* ends, int64_t n, const int32_t* slots,
                 const uint8_t* counts, int64_t* out_ends, int32_t* rows, float* values, int threads) {
  const auto start = [&](int64_t i) { return i > 0 ? ends[i - 1] : 0; };
  const FeatureWeights feature_weights(vocabulary, rules);
  parallel_for((n + kTextsPerTask - 1) / kTextsPerTask, threads, [&](int64_t task) {
    std::vector<uint8_t> their_counts;
    for (int64_t i = task * kTextsPerTask; i < std::min(n, (task + 1) * kTextsPerTask); ++i) {
      const int64_t at = start(i), size = ends[i] - at;
      if (size > static_cast<int64_t>(their_counts.size())) their_counts.resize(size);
      out_ends[i] = kernels().number_features(vocabulary.numbering.used, vocabulary.numbering.ranks, slots + at,
                                              counts + at, size, rows + at, their_counts.data());
      const Scales scales = feature_weights.compute(rows + at, their_counts.data(), out_ends[i], values + at);
      for (int64_t j = 0; j < out_ends[i]; ++j) values[at + j] *= scales.of(rows[at + j]);
    }
  });
  close_gaps(n, start, out_ends, rows, values);
}

void text_scores(UnicodeTable table, TextRules rules, const Vocabulary& vocabulary, const LinearModel& model,
                 const FullRows& full, const uint8_t* text, const int64_t* offsets, int64_t n, float* scores,
                 int threads) {
  const FeatureWeights feature_weights(vocabulary, rules);
  parallel_for((n + kTextsPerTask - 1) / kTextsPerTask, threads, [&](int64_t task) {
    TextFeatures extractor(table, rules, vocabulary.numbering);
    std::vector<int32_t> features;
    std::vector<uint8_t> counts;
    std::vector<float> values;
    for (int64_t i = task * kTextsPerTask; i < std::min(n, (task + 1) * kTextsPerTask); ++i) {
      const int64_t size = offsets[i + 1] - offsets[i], room = max_features(size, rules);
      if (room > static_cast<int64_t>(features.size())) {
        features.resize(room);
        counts.resize(room);
        values.resize(room);
      }
      const int64_t found = extractor.extract(text + offsets[i], size, features.data(), counts.data());
      const Scales scales = feature_weights.compute(features.data(), counts.data(), found, values.data());
      float* sums = scores + i * model.n_columns;
      std::copy(model.bias, model.bias + model.n_columns, sums);
      add_scores(model, full, features.data(), values.data(), scales, found, sums);
    }
  });
}

}  // namespace sparsenet
