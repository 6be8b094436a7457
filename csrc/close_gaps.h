// Rows of entries that were written with room between them.
#pragma once

#include <cstdint>
#include <cstring>

namespace sparsenet {

// Rows of two arrays begin at start(i) and hold ends[i] entries: moves each to the left, in order, up to the one
// before, and makes ends[i] where it ends.
template <typename Start, typename First, typename Second>
void close_gaps(int64_t n, const Start& start, int64_t* ends, First* first, Second* second) {
  int64_t end = 0;
  for (int64_t i = 0; i < n; ++i) {
    std::memmove(first + end, first + start(i), ends[i] * sizeof(First));
    std::memmove(second + end, second + start(i), ends[i] * sizeof(Second));
    ends[i] = end += ends[i];
  }
}

}  // namespace sparsenet
