#include "wide.h"

#include <algorithm>
#include <cstring>

#include "../core/scratch.h"
#include "../core/threads.h"

namespace sparsenet {
namespace {

constexpr int64_t kLabelGrain = 64;
constexpr int64_t kSlotGrain = 1 << 12;

// Writes the strips of one posting list over n points, and returns their number. Pads with the ids that follow the last
// point, so that the ids of a strip are distinct if n allows it: equal ids would make one addition wait for another.
int32_t fill_strips(const int32_t* points, const float* values, int64_t count, int64_t n, Strip* strips) {
  if (count == 0) return 0;
  const int64_t n_strips = (count + kStrip - 1) / kStrip;
  for (int64_t j = 0; j < count; ++j) {
    strips[j / kStrip].points[j % kStrip] = points[j];
    strips[j / kStrip].values[j % kStrip] = values[j];
  }
  for (int64_t j = count, point = points[count - 1] + 1; j < n_strips * kStrip; ++j, ++point) {
    strips[j / kStrip].points[j % kStrip] = static_cast<int32_t>(point < n ? point : point % n);
    strips[j / kStrip].values[j % kStrip] = 0.0f;
  }
  return static_cast<int32_t>(n_strips);
}

// Packs the postings of a batch of n points for the kernels. The result is valid until the thread's next call.
Strips pack_strips(const BatchPostings& postings, int64_t n, int threads) {
  static thread_local Scratch list_scratch, strip_scratch;
  // The first strip of a slot, with the largest possible padding before it, so that slots can be packed in parallel.
  const auto first_of = [&](int64_t slot) { return (postings.starts[slot] + (kStrip - 1) * slot) / kStrip; };
  StripList* lists = list_scratch.of<StripList>(postings.n_slots);
  Strip* strips = strip_scratch.of<Strip>(first_of(postings.n_slots));
  parallel_blocks(postings.n_slots, kSlotGrain, threads, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const int64_t from = postings.starts[s], first = first_of(s);
      if (postings.dense_of[s] >= 0)
        lists[s] = {postings.dense_of[s], -1};
      else
        lists[s] = {static_cast<int32_t>(first), fill_strips(postings.rows + from, postings.values + from,
                                                             postings.starts[s + 1] - from, n, strips + first)};
    }
  });
  return {lists, strips, postings.dense};
}

}  // namespace

int64_t wide_touch(Support support, int64_t a, const int32_t* slots, int64_t* touched_indptr, int64_t* positions,
                   int32_t* touched_slots, int threads) {
  touched_indptr[0] = 0;
  int64_t* counts = touched_indptr + 1;
  const auto sum_up = [&] {
    for (int64_t l = 0; l < a; ++l) counts[l] += touched_indptr[l];
    return touched_indptr[a];
  };
  if (threads <= 1) {
    kernels().wide_touch(support, slots, positions, touched_slots, counts, 0, a);
    return sum_up();
  }
  // Each block writes to room for its whole support and is copied once the counts are known. Looking everything up
  // twice, first to count, takes longer.
  static thread_local Scratch start_scratch, position_scratch, slot_scratch;
  const int64_t n_blocks = (a + kLabelGrain - 1) / kLabelGrain;
  int64_t* block_starts = start_scratch.of<int64_t>(n_blocks + 1);
  for (int64_t l = 0, room = 0; l < a; ++l) {
    if (l % kLabelGrain == 0) block_starts[l / kLabelGrain] = room;
    room += support.indptr[support.active[l] + 1] - support.indptr[support.active[l]];
    block_starts[n_blocks] = room;
  }
  int64_t* found_positions = position_scratch.of<int64_t>(block_starts[n_blocks]);
  int32_t* found_slots = slot_scratch.of<int32_t>(block_starts[n_blocks]);
  parallel_blocks(a, kLabelGrain, threads, [&](int64_t begin, int64_t end) {
    const int64_t at = block_starts[begin / kLabelGrain];
    kernels().wide_touch(support, slots, found_positions + at, found_slots + at, counts, begin, end);
  });
  const int64_t touched = sum_up();
  parallel_blocks(a, kLabelGrain, threads, [&](int64_t begin, int64_t end) {
    const int64_t from = block_starts[begin / kLabelGrain], to = touched_indptr[begin];
    const auto n = static_cast<size_t>(touched_indptr[end] - to);
    std::memcpy(positions + to, found_positions + from, n * sizeof(*positions));
    std::memcpy(touched_slots + to, found_slots + from, n * sizeof(*touched_slots));
  });
  return touched;
}

void wide_forward(Touched touched, int64_t a, const float* weights, const BatchPostings& postings, float* out,
                  int64_t n, int threads) {
  const Strips batch = pack_strips(postings, n, threads);
  parallel_blocks(a, kLabelGrain, threads, [&](int64_t begin, int64_t end) {
    kernels().wide_forward(touched, weights, batch, out, n, begin, end);
  });
}

void wide_gradient(Touched touched, int64_t a, const BatchPostings& postings, const float* grad, int64_t n, float* out,
                   int threads) {
  const Strips batch = pack_strips(postings, n, threads);
  parallel_blocks(a, kLabelGrain, threads, [&](int64_t begin, int64_t end) {
    kernels().wide_gradient(touched, batch, grad, n, out, begin, end);
  });
}

}  // namespace sparsenet
