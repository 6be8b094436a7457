// A stream of events: rank the next item of a user from a state of flat arrays, and learn from each event.
#pragma once

#include <cstdint>

namespace sparsenet {

constexpr int64_t kHalfLives = 4;
constexpr int64_t kUserValues = 7;  // events, last time, mean gap, novelty, repeats, run, last event
constexpr int64_t kPairCounts = 6;  // events, user's and item's events then, run before, received, was received
constexpr int64_t kItemValues = 4 + kHalfLives + 1;  // last time, event and user, repeats, levels
constexpr int64_t kClock = 3;                        // events, the first and the last time
constexpr int64_t kStreamFeatures = 37;              // without features of events and items
constexpr int64_t kMostCandidates = 128;

// The numbers of `StreamRules.rates` in sparsenet/temporal/ranking/stream_rules.py, which has their meaning.
struct StreamRates {
  double average_rate, keep_counts, least_variance, learning_rate, negligible;
};
constexpr int64_t kRates = sizeof(StreamRates) / sizeof(double);

// The arrays that `learn_stream` in sparsenet/_core.pyi describes.
struct StreamState {
  int64_t history, n_items, n_successors, n_pairs, n_popular, n_event_features, n_item_features;
  int32_t* pair_items;
  double* pair_times;
  float* pair_counts;
  float* pair_features;
  double* user_values;
  double* item_counts;
  double* item_values;
  float* item_features;
  int32_t* context_items;
  float* context_counts;
  int64_t* context_keys;
  int32_t* popular;
  const double* half_lives;
  double* clock;
  StreamRates rates;

  int64_t n_features() const { return kStreamFeatures + 2 * (n_item_features + n_event_features); }
  int64_t most_candidates() const { return history + 3 * n_successors + kHalfLives * n_popular; }
};

struct StreamRanker {
  int64_t n_units;
  float *weights, *squares;
  double* moments;  // sums of each feature and of its square; the last row holds the number of candidates
};

struct StreamEvents {
  int64_t n;
  const int32_t *users, *items;
  const double* times;
  const float* features;
};

// Null `out_ranks`: not wanted; the rank of an item that is no candidate takes a pass over all items.
// With `mutual`, users and items are the same, and an event also enters the history of the item.
void learn_stream(const StreamState& state, const StreamRanker& ranker, StreamEvents events, bool mutual,
                  int64_t refresh, int64_t* out_ranks);

// Ranks candidates for users at times; `events.items` and `features` are unused, and so are the squares. A user may be
// -1.
void rank_stream(const StreamState& state, const StreamRanker& ranker, StreamEvents events, int64_t k,
                 int32_t* out_items, float* out_scores, int threads);

}  // namespace sparsenet
