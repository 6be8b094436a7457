#include "scorer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernel_table.h"
#include "threads.h"

namespace sparsenet {
namespace {

constexpr int64_t kTextsPerTask = 32;

// Features of a text as rows of a model, with the values that they have there: words and characters each of the same
// length, 1 in all. All that is written has room for n; `rows` may be `slots`, and `their_counts` `counts`.
class Weighing {
 public:
  Weighing(const Vocabulary& vocabulary, TextRules rules) : vocabulary_(vocabulary) {
    const int64_t half = int64_t{1} << (rules.bits - 1);
    kinds_ = rules.char_high > 0 ? 2 : 1;
    // Slots of words come before those of characters, and so do the features in them.
    n_words_ = half >= 64
                   ? vocabulary.ranks[half >> 6]
                   : static_cast<int32_t>(__builtin_popcountll(vocabulary.used[0] & ((uint64_t{1} << half) - 1)));
  }

  int64_t weigh(const int32_t* slots, const int32_t* counts, int64_t n, int32_t* rows, int32_t* their_counts,
                float* values) const {
    const int64_t found =
        kernels().number_features(vocabulary_.used, vocabulary_.ranks, slots, counts, n, rows, their_counts);
    float squares[2] = {0, 0};
    for (int64_t j = 0; j < found; ++j) {
      const int32_t count = std::min<int32_t>(their_counts[j], kCounts - 1);
      values[j] = vocabulary_.log_counts[count] * vocabulary_.weights[rows[j]];
      squares[rows[j] >= n_words_] += values[j] * values[j];
    }
    float factors[2];
    for (int kind = 0; kind < 2; ++kind) factors[kind] = squares[kind] > 0 ? 1 / std::sqrt(kinds_ * squares[kind]) : 0;
    for (int64_t j = 0; j < found; ++j) values[j] *= factors[rows[j] >= n_words_];
    return found;
  }

 private:
  Vocabulary vocabulary_;
  float kinds_;
  int32_t n_words_;
};

void add_scores(const LinearModel& model, const int32_t* rows, float* values, int64_t n, float* sums) {
  for (int64_t j = 0; j < n; ++j) values[j] *= model.factors[rows[j]];
  if (model.indptr == nullptr) {
    kernels().add_rows(model.matrix, model.n_columns, rows, values, n, sums);
    return;
  }
  for (int64_t j = 0; j < n; ++j)
    for (int64_t k = model.indptr[rows[j]]; k < model.indptr[rows[j] + 1]; ++k)
      sums[model.columns[k]] += values[j] * static_cast<float>(model.matrix[k]);
}

}  // namespace

void text_points(const Vocabulary& vocabulary, TextRules rules, const int64_t* ends, int64_t n, const int32_t* slots,
                 const int32_t* counts, int64_t* out_ends, int32_t* rows, float* values, int threads) {
  const auto start = [&](int64_t i) { return i > 0 ? ends[i - 1] : 0; };
  const Weighing weighing(vocabulary, rules);
  parallel_for((n + kTextsPerTask - 1) / kTextsPerTask, threads, [&](int64_t task) {
    std::vector<int32_t> their_counts;
    for (int64_t i = task * kTextsPerTask; i < std::min(n, (task + 1) * kTextsPerTask); ++i) {
      const int64_t at = start(i), size = ends[i] - at;
      if (size > static_cast<int64_t>(their_counts.size())) their_counts.resize(size);
      out_ends[i] = weighing.weigh(slots + at, counts + at, size, rows + at, their_counts.data(), values + at);
    }
  });
  close_gaps(n, start, out_ends, rows, values);
}

void text_scores(UnicodeTable table, TextRules rules, const Vocabulary& vocabulary, const LinearModel& model,
                 const uint8_t* text, const int64_t* offsets, int64_t n, float* scores, int threads) {
  const Weighing weighing(vocabulary, rules);
  parallel_for((n + kTextsPerTask - 1) / kTextsPerTask, threads, [&](int64_t task) {
    TextFeatures features(table, rules, vocabulary.used);
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
      found = weighing.weigh(slots.data(), counts.data(), found, slots.data(), counts.data(), values.data());
      float* sums = scores + i * model.n_columns;
      std::copy(model.bias, model.bias + model.n_columns, sums);
      add_scores(model, slots.data(), values.data(), found, sums);
    }
  });
}

}  // namespace sparsenet
