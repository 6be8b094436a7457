#include "scorer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernel_table.h"
#include "threads.h"

namespace sparsenet {
namespace {

constexpr int64_t kTextsPerTask = 32;

// The number of the feature in a slot, or -1.
int32_t feature_of(const Vocabulary& vocabulary, int32_t slot) {
  const uint64_t word = vocabulary.used[slot >> 6];
  const uint64_t bit = uint64_t{1} << (slot & 63);
  if ((word & bit) == 0) return -1;
  return vocabulary.ranks[slot >> 6] + static_cast<int32_t>(__builtin_popcountll(word & (bit - 1)));
}

void add_feature(const LinearModel& model, int64_t feature, float x, float* sums) {
  if (model.indptr == nullptr) {
    kernels().add_scaled(model.matrix + feature * model.n_columns, x, model.n_columns, sums);
    return;
  }
  for (int64_t k = model.indptr[feature]; k < model.indptr[feature + 1]; ++k)
    sums[model.columns[k]] += x * static_cast<float>(model.matrix[k]);
}

}  // namespace

int64_t weigh(const Vocabulary& vocabulary, TextRules rules, const int32_t* slots, const int32_t* counts, int64_t n,
              int32_t* rows, float* values) {
  const int32_t upper = int32_t{1} << (rules.bits - 1);
  const float kinds = rules.char_high > 0 ? 2 : 1;
  float squares[2] = {0, 0};
  int64_t found = 0;
  for (int64_t j = 0; j < n; ++j) {
    const int32_t slot = slots[j];
    const int32_t feature = feature_of(vocabulary, slot);
    if (feature < 0) continue;
    const float value = vocabulary.log_counts[std::min<int64_t>(counts[j], kCounts - 1)] * vocabulary.weights[feature];
    const bool kind = slot >= upper;
    squares[kind] += value * value;
    rows[found] = kind ? ~feature : feature;  // until the lengths are known
    values[found++] = value;
  }
  float factors[2];
  for (int kind = 0; kind < 2; ++kind) factors[kind] = squares[kind] > 0 ? 1 / std::sqrt(kinds * squares[kind]) : 0;
  for (int64_t j = 0; j < found; ++j) {
    const bool kind = rows[j] < 0;
    rows[j] = kind ? ~rows[j] : rows[j];
    values[j] *= factors[kind];
  }
  return found;
}

void text_points(const Vocabulary& vocabulary, TextRules rules, const int64_t* ends, int64_t n, const int32_t* slots,
                 const int32_t* counts, int64_t* out_ends, int32_t* rows, float* values, int threads) {
  const auto start = [&](int64_t i) { return i > 0 ? ends[i - 1] : 0; };
  parallel_for((n + kTextsPerTask - 1) / kTextsPerTask, threads, [&](int64_t task) {
    for (int64_t i = task * kTextsPerTask; i < std::min(n, (task + 1) * kTextsPerTask); ++i) {
      const int64_t at = start(i);
      out_ends[i] = weigh(vocabulary, rules, slots + at, counts + at, ends[i] - at, rows + at, values + at);
    }
  });
  close_gaps(n, start, out_ends, rows, values);
}

void text_scores(UnicodeTable table, TextRules rules, const Vocabulary& vocabulary, const LinearModel& model,
                 const uint8_t* text, const int64_t* offsets, int64_t n, float* scores, int threads) {
  parallel_for((n + kTextsPerTask - 1) / kTextsPerTask, threads, [&](int64_t task) {
    TextFeatures features(table, rules);
    std::vector<int32_t> slots, counts;
    std::vector<float> values;
    for (int64_t i = task * kTextsPerTask; i < std::min(n, (task + 1) * kTextsPerTask); ++i) {
      const int64_t size = offsets[i + 1] - offsets[i], room = most_features(size, rules);
      if (room > static_cast<int64_t>(slots.size())) {
        slots.resize(room);
        counts.resize(room);
        values.resize(room);
      }
      int64_t found = features.extract(text + offsets[i], size, slots.data(), counts.data());
      found = weigh(vocabulary, rules, slots.data(), counts.data(), found, slots.data(), values.data());
      float* sums = scores + i * model.n_columns;
      std::copy(model.bias, model.bias + model.n_columns, sums);
      for (int64_t j = 0; j < found; ++j) add_feature(model, slots[j], values[j] * model.factors[slots[j]], sums);
    }
  });
}

}  // namespace sparsenet
