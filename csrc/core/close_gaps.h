#pragma once

#include <cstdint>
#include <cstring>

namespace sparsenet {

// Removes the gaps between rows that were written with spare room. Row i begins at start(i) in both arrays and has
// ends[i] entries. Moves each row up to the end of the previous one and sets ends[i] to the new end of row i.
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
