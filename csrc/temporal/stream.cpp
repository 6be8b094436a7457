#include "stream.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../core/threads.h"
#include "../kernels/kernel_table.h"
#include "remember.h"

namespace sparsenet {
namespace {

// Columns of the features of a candidate: logarithms first, then flags and levels, then features of the user.
constexpr int64_t kLogs = 15, kOfHistory = 15, kLevels = 18, kNext = 23, kWasLastReceived = 24, kOfUser = 25;
constexpr int64_t kTable = 2 * kMostCandidates;  // slots of the hash table of a query's candidates
constexpr int64_t kGrain = 16;                   // queries of one task

// The candidates of one query, their features and scores. Candidates have a fixed order: the history comes first.
class Query {
 public:
  Query(const StreamState& state, const StreamRanker& ranker)
      : state_(state),
        ranker_(ranker),
        width_(state.n_features()),
        logs_(state.most_candidates() * kLogs),
        features_(state.most_candidates() * width_),
        hidden_(state.most_candidates() * ranker.n_units),
        scores_(state.most_candidates()),
        shift_(width_),
        scale_(width_),
        sums_(2 * width_),
        taste_(state.n_item_features) {
    standardize();
  }

  int64_t count() const { return count_; }
  int32_t item(int64_t candidate) const { return candidates_[candidate]; }
  float score(int64_t candidate) const { return scores_[candidate]; }
  // Returns the number of a candidate; -1 if the item is none.
  int64_t find(int32_t item) const { return table_[slot_of(item)]; }

  void gather(int64_t user) {
    std::fill_n(table_, kTable, int16_t{-1});
    count_ = 0;
    contexts_ = contexts_of(state_, user);
    if (user >= 0) {
      const int32_t* items = state_.pair_items + user * state_.history * 2;
      for (int64_t h = 0; h < state_.history && items[2 * h] >= 0; ++h) add(items[2 * h]);
    }
    own_ = count_;
    for (const int64_t row : {contexts_.last, contexts_.before, contexts_.both}) {
      if (row < 0) continue;
      for (int64_t s = 0; s < state_.n_successors; ++s) add(state_.context_items[row * state_.n_successors + s]);
    }
    for (int64_t p = 0; p < kHalfLives * state_.n_popular; ++p) add(state_.popular[p]);
  }

  void describe(int64_t user, double time);

  // Adds the features to the moments, and computes the mean and the inverse standard deviation of each.
  void count_features() {
    double *sums = sums_.data(), *squares = sums + width_;
    std::fill_n(sums, 2 * width_, 0.0);
    for (int64_t c = 0; c < count_; ++c) {
      const float* x = features_.data() + c * width_;
      for (int64_t f = 0; f < width_; ++f) {
        const double value = x[f];
        sums[f] += value;
        squares[f] += value * value;
      }
    }
    for (int64_t f = 0; f < width_; ++f) {
      ranker_.moments[2 * f] += sums[f];
      ranker_.moments[2 * f + 1] += squares[f];
    }
    ranker_.moments[2 * width_] += static_cast<double>(count_);
  }

  void standardize() {
    const double n = ranker_.moments[2 * width_] + 1;  // as if one candidate of variance 1 had been there
    for (int64_t f = 0; f < width_; ++f) {
      const double mean = ranker_.moments[2 * f] / n;
      const double variance = (ranker_.moments[2 * f + 1] + 1) / n - mean * mean;
      shift_[f] = static_cast<float>(mean);
      scale_[f] = static_cast<float>(1 / std::sqrt(std::max(variance, state_.rates.least_variance)));
    }
  }

  void scale_features() {
    for (int64_t c = 0; c < count_; ++c) {
      float* x = features_.data() + c * width_;
      for (int64_t f = 0; f < width_; ++f) x[f] = (x[f] - shift_[f]) * scale_[f];
    }
  }

  void compute_scores(const float* weights) {
    kernels().ranker_forward(features_.data(), count_, width_, weights, ranker_.n_units, hidden_.data(),
                             scores_.data());
  }

  void to_shares() {
    if (count_ > 0) kernels().softmax_row(scores_.data(), count_);
  }

  // Takes a step on the cross-entropy of the right candidate.
  void step(int64_t right, float* gradient, float* slope) {
    to_shares();
    scores_[right] -= 1;
    const StreamRates& rates = state_.rates;
    const RankerStep how = {static_cast<float>(rates.learning_rate), static_cast<float>(rates.negligible)};
    kernels().ranker_step(features_.data(), hidden_.data(), scores_.data(), count_, width_, ranker_.n_units, how,
                          ranker_.weights, ranker_.squares, gradient, slope);
  }

  // Returns the rank of a candidate, from 1; ties go to the earlier one.
  int64_t rank_of(int64_t right) const {
    int64_t rank = 1;
    for (int64_t c = 0; c < count_; ++c)
      if (scores_[c] > scores_[right] || (scores_[c] == scores_[right] && c < right)) ++rank;
    return rank;
  }

  // Returns the rank of an item that is no candidate: behind these, by the number of events, then by number.
  int64_t rank_behind(int32_t item) const {
    const double mine = state_.item_counts[item];
    const auto is_before = [&](int64_t other) {
      const double its = state_.item_counts[other];
      return its > mine || (its == mine && other < item);
    };
    int64_t rank = count_ + 1;
    for (int64_t other = 0; other < state_.n_items; ++other) rank += is_before(other) ? 1 : 0;
    for (int64_t c = 0; c < count_; ++c) rank -= is_before(candidates_[c]) ? 1 : 0;
    return rank;
  }

 private:
  // Returns the slot that holds the item, or the free one where it belongs.
  int64_t slot_of(int32_t item) const {
    int64_t slot = (static_cast<uint32_t>(item) * 2654435769u) >> 24;
    while (table_[slot] >= 0 && candidates_[table_[slot]] != item) slot = (slot + 1) & (kTable - 1);
    return slot;
  }

  void add(int32_t item) {
    if (item < 0) return;
    const int64_t slot = slot_of(item);
    if (table_[slot] >= 0) return;
    table_[slot] = static_cast<int16_t>(count_);
    candidates_[count_++] = item;
  }

  // Writes the counts of successors as logarithms-to-be, their shares too if wanted, and returns the sum of counts.
  double mark_successors(int64_t row, int64_t column, bool has_shares) {
    const int32_t* items = state_.context_items + row * state_.n_successors;
    const float* counts = state_.context_counts + row * state_.n_successors;
    float total = 0;
    for (int64_t s = 0; s < state_.n_successors; ++s) total += counts[s];
    for (int64_t s = 0; s < state_.n_successors; ++s) {
      if (items[s] < 0) continue;
      float* x = logs_.data() + find(items[s]) * kLogs + column;
      x[0] = counts[s];
      if (has_shares) x[1] = counts[s] / (total + 1.0f);
    }
    return total;
  }

  double level(double own, double half_life) const { return std::max(0.0, own - state_.clock[0] / half_life); }

  // Writes the features of items and events behind the others: of the candidate, and times the mean of the history;
  // of the user's latest event with the candidate, and of the latest event of all.
  void add_given_features(int64_t user);

  const StreamState& state_;
  const StreamRanker& ranker_;
  int64_t width_;
  int64_t count_ = 0, own_ = 0;
  Contexts contexts_ = {-1, -1, -1};
  int16_t table_[kTable] = {};
  int32_t candidates_[kMostCandidates] = {};
  std::vector<float> logs_, features_, hidden_, scores_, shift_, scale_;
  std::vector<double> sums_;
  std::vector<float> taste_;  // the mean of the item features of the history
};

float log2_plus(double x) { return static_cast<float>(std::log2(1.0 + x)); }

void Query::describe(int64_t user, double time) {
  const double events = state_.clock[0];
  const double unit = std::max((time - state_.clock[1]) / std::max(events, 1.0), 1e-300);
  const double* of_user = user >= 0 ? state_.user_values + user * kUserValues : nullptr;
  const double seen = of_user != nullptr ? of_user[kEvents] : 0, gap = seen > 0 ? of_user[kGap] : 0;
  const int64_t first_pair = user * state_.history;
  const int32_t following = own_ > 0 ? state_.pair_items[2 * first_pair + 1] : -1;
  std::fill_n(logs_.data(), count_ * kLogs, 0.0f);
  std::fill_n(features_.data(), count_ * width_, 0.0f);
  for (int64_t c = 0; c < count_; ++c) {
    float *log = logs_.data() + c * kLogs, *x = features_.data() + c * width_;
    const int64_t item = candidates_[c];
    const double* values = state_.item_values + item * kItemValues;
    if (c < own_) {
      const double elapsed = std::max(time - state_.pair_times[first_pair + c], 0.0);
      const float* pair = state_.pair_counts + (first_pair + c) * kPairCounts;
      log[0] = static_cast<float>(c);
      log[1] = static_cast<float>(elapsed / unit);
      log[2] = pair[kCount];
      log[3] = static_cast<float>(std::max(seen - 1 - pair[kUserEvents], 0.0));
      log[4] = static_cast<float>(std::max(state_.item_counts[item] - pair[kItemEvents], 0.0));
      log[5] = pair[kLastRun];
      log[13] = static_cast<float>(elapsed / (gap + unit));
      log[14] = pair[kReceived];
      x[kWasLastReceived] = pair[kWasReceived];
      x[kOfHistory] = 1;
      x[kOfHistory + 1] = c == 0 ? 1.0f : 0.0f;
      x[kOfHistory + 2] = values[kItemUser] == static_cast<double>(user) ? 1.0f : 0.0f;
    }
    log[6] = static_cast<float>(state_.item_counts[item]);
    log[7] = static_cast<float>(events - values[kItemEvent]);
    log[8] = static_cast<float>(std::max(time - values[kItemLast], 0.0) / unit);
    for (int64_t h = 0; h < kHalfLives; ++h)
      x[kLevels + h] = static_cast<float>(level(values[kItemLevels + h], state_.half_lives[h]));
    x[kLevels + kHalfLives] = static_cast<float>(level(values[kItemLevels + kHalfLives], state_.half_lives[1]));
    x[kNext] = item == following ? 1.0f : 0.0f;
  }
  double total = 0;
  if (contexts_.last >= 0) total = mark_successors(contexts_.last, 9, true);
  if (contexts_.before >= 0) mark_successors(contexts_.before, 11, false);
  if (contexts_.both >= 0) mark_successors(contexts_.both, 12, false);
  kernels().log2_of_one_plus(logs_.data(), count_ * kLogs);
  float own[kStreamFeatures - kOfUser] = {};
  own[2] = log2_plus(static_cast<double>(own_));
  if (own_ > 0) own[11] = state_.pair_counts[first_pair * kPairCounts + kWasReceived];
  if (seen > 0) {
    const double elapsed = std::max(time - of_user[kLast], 0.0);
    own[0] = log2_plus(seen);
    own[1] = log2_plus(elapsed / unit);
    own[3] = log2_plus(gap / unit);
    own[4] = log2_plus(of_user[kRun]);
    own[5] = log2_plus(total);
    own[6] = log2_plus(elapsed / (gap + unit));
    own[7] = static_cast<float>(of_user[kNovelty]);
    own[8] = static_cast<float>(of_user[kRepeats]);
    const int64_t last = contexts_.last;
    own[9] = last >= 0 ? static_cast<float>(state_.item_values[last * kItemValues + kItemRepeats]) : 0.5f;
  } else {
    own[10] = 1;
  }
  for (int64_t c = 0; c < count_; ++c) {
    std::copy_n(logs_.data() + c * kLogs, kLogs, features_.data() + c * width_);
    std::copy_n(own, kStreamFeatures - kOfUser, features_.data() + c * width_ + kOfUser);
  }
  if (width_ > kStreamFeatures) add_given_features(user);
}

void Query::add_given_features(int64_t user) {
  const int64_t n_item = state_.n_item_features, n_event = state_.n_event_features;
  const float* events = state_.pair_features + user * state_.history * n_event;
  std::fill_n(taste_.data(), n_item, 0.0f);
  for (int64_t c = 0; c < own_; ++c)
    for (int64_t f = 0; f < n_item; ++f) taste_[f] += state_.item_features[candidates_[c] * n_item + f];
  for (int64_t f = 0; f < n_item; ++f) taste_[f] /= static_cast<float>(std::max<int64_t>(own_, 1));
  for (int64_t c = 0; c < count_; ++c) {
    float* x = features_.data() + c * width_ + kStreamFeatures;
    const float* of_item = state_.item_features + candidates_[c] * n_item;
    for (int64_t f = 0; f < n_item; ++f) {
      x[f] = of_item[f];
      x[n_item + f] = of_item[f] * taste_[f];
    }
    if (c < own_) std::copy_n(events + c * n_event, n_event, x + 2 * n_item);
    if (own_ > 0) std::copy_n(events, n_event, x + 2 * n_item + n_event);
  }
}

}  // namespace

void learn_stream(const StreamState& state, const StreamRanker& ranker, StreamEvents events, bool mutual,
                  int64_t refresh, int64_t* out_ranks) {
  const int64_t size = (state.n_features() + 2) * ranker.n_units;
  std::vector<float> gradient(size), slope(ranker.n_units), frozen(size);
  Query query(state, ranker);
  if (events.n > 0 && state.clock[0] == 0) state.clock[1] = events.times[0];
  for (int64_t first = 0; first < events.n; first += refresh) {
    const int64_t end = std::min(events.n, first + refresh);
    if (refresh > 1) std::copy_n(ranker.weights, size, frozen.data());
    for (int64_t e = first; e < end; ++e) {
      query.gather(events.users[e]);
      const int64_t right = query.find(events.items[e]);
      if (right < 0) {
        if (out_ranks != nullptr) out_ranks[e] = query.rank_behind(events.items[e]);
        continue;
      }
      query.describe(events.users[e], events.times[e]);
      query.count_features();
      query.standardize();
      query.scale_features();
      if (refresh > 1 && out_ranks != nullptr) {
        query.compute_scores(frozen.data());
        out_ranks[e] = query.rank_of(right);
      }
      query.compute_scores(ranker.weights);
      if (refresh == 1 && out_ranks != nullptr) out_ranks[e] = query.rank_of(right);
      query.step(right, gradient.data(), slope.data());
    }
    for (int64_t e = first; e < end; ++e) {
      const float* features = events.features + e * state.n_event_features;
      remember(state, events.users[e], events.items[e], events.times[e], features);
      if (mutual && events.users[e] != events.items[e])
        receive(state, events.items[e], events.users[e], events.times[e], features);
    }
  }
}

void rank_stream(const StreamState& state, const StreamRanker& ranker, StreamEvents events, int64_t k,
                 int32_t* out_items, float* out_scores, int threads) {
  parallel_blocks(events.n, kGrain, threads, [&](int64_t begin, int64_t end) {
    Query query(state, ranker);
    for (int64_t i = begin; i < end; ++i) {
      query.gather(events.users[i]);
      query.describe(events.users[i], events.times[i]);
      query.scale_features();
      query.compute_scores(ranker.weights);
      query.to_shares();
      std::fill_n(out_items + i * k, k, -1);
      std::fill_n(out_scores + i * k, k, 0.0f);
      for (int64_t c = 0; c < query.count(); ++c) {
        const int64_t place = query.rank_of(c) - 1;
        if (place >= k) continue;
        out_items[i * k + place] = query.item(c);
        out_scores[i * k + place] = query.score(c);
      }
    }
  });
}

}  // namespace sparsenet
