// Recommendations from a user's history: lists of related items propose candidates, and parts score them.
#pragma once

#include <cstdint>

namespace sparsenet {

// The scores of a candidate: by the walk, the regression and the vectors; by both lists and the successors of recent
// items; its popularity; how recent it is in the own history, and its share of the events.
constexpr int64_t kItemScores = 9;
// The sums over lists that propose candidates.
constexpr int64_t kListSums = 5;

struct RecommendingIn {
  int64_t n, n_items, width;
  const int64_t* indptr;       // the events of each user
  const int32_t* items;        // of each event, the latest one last
  const float* amounts;        // of each event; the last event of an item counts
  const int64_t* list_indptr;  // the related items of each item
  const int32_t* list_items;
  const int16_t* list_values;  // by the walk, the regression, and with times the successors
  const float* list_units;     // of the values of an item, (n_items, 2 or 3)
  bool is_timed;
  const int8_t* vectors;          // (n_items, width)
  const float *inward, *outward;  // factors of an item's vector in a history, and as a candidate
  const float* factors;           // of the scores of an item; 0 if it must not be recommended
  const float* trend;             // popularity
  const int32_t* fallback;        // items for users with few candidates
  int64_t n_fallback;
  const float* weights;  // (kItemScores,)
  const float* mixing;   // (kListSums,) weights of the sums when candidates are chosen
  float fading;
  int64_t n_candidates;
  bool exclude_seen;
};

// Writes the k best items of each user, best first, padded with -1 and minus infinity, and unless `out_parts` is null
// the scores of each, padded with zeros.
void recommend_items(const RecommendingIn& in, int64_t k, int32_t* out_items, float* out_scores, float* out_parts,
                     int threads);

}  // namespace sparsenet
