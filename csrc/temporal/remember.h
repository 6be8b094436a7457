// How an event changes the state of a stream.
#pragma once

#include <cstdint>

#include "stream.h"

namespace sparsenet {

// Columns of user_values, pair_counts and item_values.
enum UserValue : uint8_t { kEvents, kLast, kGap, kNovelty, kRepeats, kRun, kUserEvent };
enum PairCount : uint8_t { kCount, kUserEvents, kItemEvents, kLastRun, kReceived, kWasReceived };
enum ItemValue : uint8_t { kItemLast, kItemEvent, kItemUser, kItemRepeats, kItemLevels };

// Rows of context_items: the successors of the user's last item, of the one before, and of both; -1 if there is none.
struct Contexts {
  int64_t last, before, both;
};
Contexts contexts_of(const StreamState& state, int64_t user);

void remember(const StreamState& state, int64_t user, int32_t item, double time, const float* features);

// Adds the sender of an event to the history of the user who received it.
void receive(const StreamState& state, int64_t user, int32_t sender, double time, const float* features);

}  // namespace sparsenet
