// Bindings of temporal/stream.h.
#include <cstring>
#include <limits>

#include "../temporal/stream.h"
#include "arrays.h"

namespace sparsenet {
namespace {

// The writeable arrays of a state; when ranking, nothing is written.
template <typename I32, typename I64, typename F32, typename F64>
StreamState state_argument(Array pair_items, Array pair_times, Array pair_counts, Array pair_features,
                           Array user_values, Array item_counts, Array item_values, Array item_features,
                           Array context_items, Array context_counts, Array context_keys, Array popular,
                           Array half_lives, Array clock, Array rates) {
  const View<I32, 3> pair_items_(pair_items, "pair_items");
  const Matrix<F64> pair_times_(pair_times, "pair_times"), user_values_(user_values, "user_values"),
      item_values_(item_values, "item_values");
  const View<F32, 3> pair_counts_(pair_counts, "pair_counts"), pair_features_(pair_features, "pair_features");
  const Vector<F64> item_counts_(item_counts, "item_counts"), clock_(clock, "clock");
  const Matrix<I32> context_items_(context_items, "context_items"), popular_(popular, "popular");
  const Matrix<F32> context_counts_(context_counts, "context_counts"), item_features_(item_features, "item_features");
  const Vector<I64> context_keys_(context_keys, "context_keys");
  const Vector<const double> half_lives_(half_lives, "half_lives"), rates_(rates, "rates");
  const int64_t n_users = pair_items_.rows(), history = pair_items_.shape(1);
  StreamState state = {};
  state.history = history;
  state.n_items = item_counts_.size();
  state.n_successors = context_items_.cols();
  state.n_pairs = context_keys_.size();
  state.n_popular = popular_.cols();
  state.n_event_features = pair_features_.shape(2);
  state.n_item_features = item_features_.cols();
  pair_items_.require(2, 2, "item and successor");
  pair_times_.require(0, n_users, "rows of pair_items").require(1, history, "columns of pair_items");
  pair_counts_.require(0, n_users, "rows of pair_items").require(1, history, "columns of pair_items");
  pair_counts_.require(2, kPairCounts, "counts of a pair");
  pair_features_.require(0, n_users, "rows of pair_items").require(1, history, "columns of pair_items");
  user_values_.require(0, n_users, "rows of pair_items").require(1, kUserValues, "values of a user");
  item_values_.require(0, state.n_items, "length of item_counts").require(1, kItemValues, "values of an item");
  item_features_.require(0, state.n_items, "length of item_counts");
  context_items_.require(0, state.n_items + state.n_pairs, "lengths of item_counts and context_keys");
  context_counts_.require(0, context_items_.rows(), "rows of context_items")
      .require(1, state.n_successors, "columns of context_items");
  popular_.require(0, kHalfLives, "half-lives");
  half_lives_.require(0, kHalfLives, "half-lives");
  clock_.require(0, kClock, "numbers of a clock");
  rates_.require(0, kRates, "rates");
  if (history < 1) pair_items_.fail("must have room for an item");
  if (state.n_successors < 1) context_items_.fail("must have room for a successor");
  if (state.n_pairs < 1) context_keys_.fail("must have room for a pair");
  if (state.most_candidates() > kMostCandidates)
    pair_items_.fail("and context_items and popular name more than " + std::to_string(kMostCandidates) + " candidates");
  state.pair_items = const_cast<int32_t*>(pair_items_.data());
  state.pair_times = const_cast<double*>(pair_times_.data());
  state.pair_counts = const_cast<float*>(pair_counts_.data());
  state.pair_features = const_cast<float*>(pair_features_.data());
  state.user_values = const_cast<double*>(user_values_.data());
  state.item_counts = const_cast<double*>(item_counts_.data());
  state.item_values = const_cast<double*>(item_values_.data());
  state.item_features = const_cast<float*>(item_features_.data());
  state.context_items = const_cast<int32_t*>(context_items_.data());
  state.context_counts = const_cast<float*>(context_counts_.data());
  state.context_keys = const_cast<int64_t*>(context_keys_.data());
  state.popular = const_cast<int32_t*>(popular_.data());
  state.half_lives = half_lives_.data();
  state.clock = const_cast<double*>(clock_.data());
  std::memcpy(&state.rates, rates_.data(), sizeof(StreamRates));
  return state;
}

template <typename F32, typename F64>
StreamRanker ranker_argument(const StreamState& state, const Matrix<F32>& weights, const Matrix<F64>& moments) {
  weights.require(0, state.n_features() + 2, "features + 2");
  moments.require(0, state.n_features() + 1, "features + 1").require(1, 2, "sum and sum of squares");
  return {weights.cols(), const_cast<float*>(weights.data()), nullptr, const_cast<double*>(moments.data())};
}

void bind_learn_stream(Array pair_items, Array pair_times, Array pair_counts, Array pair_features, Array user_values,
                       Array item_counts, Array item_values, Array item_features, Array context_items,
                       Array context_counts, Array context_keys, Array popular, Array half_lives, Array clock,
                       Array rates, Array weights, Array squares, Array moments, Array users, Array items, Array times,
                       Array features, bool mutual, int64_t refresh, Array out_ranks) {
  const StreamState state = state_argument<int32_t, int64_t, float, double>(
      pair_items, pair_times, pair_counts, pair_features, user_values, item_counts, item_values, item_features,
      context_items, context_counts, context_keys, popular, half_lives, clock, rates);
  const Matrix<float> weights_(weights, "weights"), squares_(squares, "squares");
  StreamRanker ranker = ranker_argument(state, weights_, Matrix<double>(moments, "moments"));
  squares_.require(0, weights_.rows(), "rows of weights").require(1, weights_.cols(), "columns of weights");
  ranker.squares = squares_.data();
  const Vector<const int32_t> users_(users, "users"), items_(items, "items");
  const Vector<const double> times_(times, "times");
  const Vector<int64_t> out_ranks_(out_ranks, "out_ranks");
  items_.require(0, users_.size(), "length of users");
  times_.require(0, users_.size(), "length of users");
  const Matrix<const float> features_(features, "features");
  features_.require(0, users_.size(), "length of users")
      .require(1, state.n_event_features, "features of pair_features");
  const bool is_ranking = out_ranks_.size() > 0;
  if (is_ranking) out_ranks_.require(0, users_.size(), "length of users");
  require_at_least_one("refresh", refresh);
  if (mutual && state.n_items != pair_items.shape(0)) items_.fail("and users must be the same if mutual");
  GilRelease release;
  learn_stream(state, ranker, {users_.size(), users_.data(), items_.data(), times_.data(), features_.data()}, mutual,
               refresh, is_ranking ? out_ranks_.data() : nullptr);
}

void bind_rank_stream(Array pair_items, Array pair_times, Array pair_counts, Array pair_features, Array user_values,
                      Array item_counts, Array item_values, Array item_features, Array context_items,
                      Array context_counts, Array context_keys, Array popular, Array half_lives, Array clock,
                      Array rates, Array weights, Array moments, Array users, Array times, Array out_items,
                      Array out_scores, int threads) {
  const StreamState state = state_argument<const int32_t, const int64_t, const float, const double>(
      pair_items, pair_times, pair_counts, pair_features, user_values, item_counts, item_values, item_features,
      context_items, context_counts, context_keys, popular, half_lives, clock, rates);
  const StreamRanker ranker =
      ranker_argument(state, Matrix<const float>(weights, "weights"), Matrix<const double>(moments, "moments"));
  const Vector<const int32_t> users_(users, "users");
  const Vector<const double> times_(times, "times");
  const Matrix<int32_t> out_items_(out_items, "out_items");
  const Matrix<float> out_scores_(out_scores, "out_scores");
  times_.require(0, users_.size(), "length of users");
  out_items_.require(0, users_.size(), "length of users");
  out_scores_.require(0, users_.size(), "length of users").require(1, out_items_.cols(), "columns of out_items");
  require_threads(threads);
  GilRelease release;
  rank_stream(state, ranker, {users_.size(), users_.data(), nullptr, times_.data(), nullptr}, out_items_.cols(),
              out_items_.data(), out_scores_.data(), threads);
}

}  // namespace

void bind_stream(py::module_& core) {
  core.def("learn_stream", bind_learn_stream, "pair_items"_a, "pair_times"_a, "pair_counts"_a, "pair_features"_a,
           "user_values"_a, "item_counts"_a, "item_values"_a, "item_features"_a, "context_items"_a, "context_counts"_a,
           "context_keys"_a, "popular"_a, "half_lives"_a, "clock"_a, "rates"_a, "weights"_a, "squares"_a, "moments"_a,
           "users"_a, "items"_a, "times"_a, "features"_a, "mutual"_a, "refresh"_a, "out_ranks"_a);
  core.def("rank_stream", bind_rank_stream, "pair_items"_a, "pair_times"_a, "pair_counts"_a, "pair_features"_a,
           "user_values"_a, "item_counts"_a, "item_values"_a, "item_features"_a, "context_items"_a, "context_counts"_a,
           "context_keys"_a, "popular"_a, "half_lives"_a, "clock"_a, "rates"_a, "weights"_a, "moments"_a, "users"_a,
           "times"_a, "out_items"_a, "out_scores"_a, "threads"_a);
}

}  // namespace sparsenet
