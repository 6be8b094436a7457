#include "remember.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sparsenet {
namespace {

int64_t key_of(int64_t last, int64_t before) { return (last << 32) | before; }

int64_t pair_row(const StreamState& state, int64_t last, int64_t before) {
  uint64_t z = static_cast<uint64_t>(key_of(last, before));
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z = z ^ (z >> 31);
  return state.n_items + static_cast<int64_t>(z % static_cast<uint64_t>(state.n_pairs));
}

double* values_of(const StreamState& state, int64_t item) { return state.item_values + item * kItemValues; }

// Adds 1 to a decayed count.
void raise_level(const StreamState& state, int64_t item, int64_t column, double half_life) {
  const double decayed = state.clock[0] / half_life;
  double& level = values_of(state, item)[kItemLevels + column];
  level = std::log2(std::exp2(level - decayed) + 1) + decayed;
}

// Adds 1 to the decayed count of a successor, which replaces the lowest one if it is new.
void count_successor(const StreamState& state, int64_t row, int32_t item) {
  int32_t* items = state.context_items + row * state.n_successors;
  float* counts = state.context_counts + row * state.n_successors;
  const float keep = static_cast<float>(state.rates.keep_counts);
  int64_t at = -1, low = 0;
  for (int64_t s = 0; s < state.n_successors; ++s) {
    counts[s] *= keep;
    if (items[s] == item) at = s;
    if (counts[s] < counts[low]) low = s;
  }
  if (at < 0) {
    at = low;
    items[at] = item;
    counts[at] = 0;
  }
  counts[at] += 1;
}

// Remembers that the user went from the last item to another one.
void leave(const StreamState& state, int64_t user, int32_t item) {
  int32_t* items = state.pair_items + user * state.history * 2;
  const int32_t last = items[0], before = state.history > 1 ? items[2] : -1;
  double& run = state.user_values[user * kUserValues + kRun];
  items[1] = item;
  state.pair_counts[user * state.history * kPairCounts + kLastRun] = static_cast<float>(run);
  run = 0;
  count_successor(state, last, item);
  if (before < 0) return;
  const int64_t row = pair_row(state, last, before);
  int64_t& key = state.context_keys[row - state.n_items];
  if (key != key_of(last, before)) {
    key = key_of(last, before);
    std::fill_n(state.context_items + row * state.n_successors, state.n_successors, -1);
    std::fill_n(state.context_counts + row * state.n_successors, state.n_successors, 0.0f);
  }
  count_successor(state, row, item);
}

// Moves the item to the front of the user's history, gives it the features of an event, and returns whether it was
// there.
bool bring_to_front(const StreamState& state, int64_t user, int32_t item, const float* features) {
  int32_t* items = state.pair_items + user * state.history * 2;
  double* times = state.pair_times + user * state.history;
  float* counts = state.pair_counts + user * state.history * kPairCounts;
  const int64_t width = state.n_event_features;
  float* of_events = state.pair_features + user * state.history * width;
  int64_t at = 0;
  while (at < state.history - 1 && items[2 * at] >= 0 && items[2 * at] != item) ++at;
  const bool found = items[2 * at] == item;
  const int32_t following = found ? items[2 * at + 1] : -1;
  float kept[kPairCounts] = {};
  if (found) std::copy_n(counts + at * kPairCounts, kPairCounts, kept);
  std::copy_backward(items, items + 2 * at, items + 2 * (at + 1));
  std::copy_backward(times, times + at, times + at + 1);
  std::copy_backward(counts, counts + at * kPairCounts, counts + (at + 1) * kPairCounts);
  items[0] = item;
  items[1] = following;
  std::copy_n(kept, kPairCounts, counts);
  std::copy_backward(of_events, of_events + at * width, of_events + (at + 1) * width);
  std::copy_n(features, width, of_events);
  return found;
}

// Puts the item into the list of the most popular ones if it belongs there. Counts decay alike, so that only events
// change their order.
void list_popular(const StreamState& state, int32_t item, int64_t half) {
  int32_t* popular = state.popular + half * state.n_popular;
  int64_t low = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (int64_t p = 0; p < state.n_popular; ++p) {
    if (popular[p] == item) return;
    const double level =
        popular[p] >= 0 ? values_of(state, popular[p])[kItemLevels + half] : -std::numeric_limits<double>::infinity();
    if (level < lowest) {
      low = p;
      lowest = level;
    }
  }
  if (state.n_popular > 0 && values_of(state, item)[kItemLevels + half] > lowest) popular[low] = item;
}

}  // namespace

Contexts contexts_of(const StreamState& state, int64_t user) {
  if (user < 0) return {-1, -1, -1};
  const int32_t* items = state.pair_items + user * state.history * 2;
  Contexts found = {items[0], state.history > 1 ? items[2] : -1, -1};
  if (found.before < 0) return found;
  const int64_t row = pair_row(state, found.last, found.before);
  if (state.context_keys[row - state.n_items] == key_of(found.last, found.before)) found.both = row;
  return found;
}

void remember(const StreamState& state, int64_t user, int32_t item, double time, const float* features) {
  const StreamRates& rates = state.rates;
  const double events = state.clock[0];
  double* values = state.user_values + user * kUserValues;
  const int32_t last = state.pair_items[user * state.history * 2];
  const bool is_again = last == item, is_first = values[kEvents] == 0;
  if (is_first) {
    values[kGap] = (time - state.clock[1]) / std::max(events, 1.0);
    values[kNovelty] = values[kRepeats] = 0.5;
  } else {
    values[kGap] += rates.average_rate * (time - values[kLast] - values[kGap]);
    values[kRepeats] += rates.average_rate * ((is_again ? 1.0 : 0.0) - values[kRepeats]);
  }
  if (last >= 0) {
    double& repeats = values_of(state, last)[kItemRepeats];
    repeats += rates.average_rate * ((is_again ? 1.0 : 0.0) - repeats);
    if (!is_again) leave(state, user, item);
  }
  const bool is_known = bring_to_front(state, user, item, features);
  if (!is_first) values[kNovelty] += rates.average_rate * ((is_known ? 0.0 : 1.0) - values[kNovelty]);
  if (!is_known) raise_level(state, item, kHalfLives, state.half_lives[1]);
  state.item_counts[item] += 1;
  float* pair = state.pair_counts + user * state.history * kPairCounts;
  state.pair_times[user * state.history] = time;
  pair[kCount] += 1;
  pair[kWasReceived] = 0;
  pair[kUserEvents] = static_cast<float>(values[kEvents]);
  pair[kItemEvents] = static_cast<float>(state.item_counts[item]);
  values[kEvents] += 1;
  values[kLast] = time;
  values[kRun] += 1;
  values[kUserEvent] = events;
  double* of_item = values_of(state, item);
  of_item[kItemLast] = time;
  of_item[kItemEvent] = events;
  of_item[kItemUser] = static_cast<double>(user);
  for (int64_t h = 0; h < kHalfLives; ++h) {
    raise_level(state, item, h, state.half_lives[h]);
    list_popular(state, item, h);
  }
  state.clock[0] = events + 1;
  state.clock[2] = time;
}

void receive(const StreamState& state, int64_t user, int32_t sender, double time, const float* features) {
  bring_to_front(state, user, sender, features);
  float* pair = state.pair_counts + user * state.history * kPairCounts;
  state.pair_times[user * state.history] = time;
  pair[kUserEvents] = static_cast<float>(state.user_values[user * kUserValues + kEvents]);
  pair[kItemEvents] = static_cast<float>(state.item_counts[sender]);
  pair[kReceived] += 1;
  pair[kWasReceived] = 1;
}

}  // namespace sparsenet
