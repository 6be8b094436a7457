// What the machine says of its caches.
#pragma once

#include <cstdint>

namespace sparsenet {

// Bytes of one core's data caches, or what is usual where the system does not say.
struct Caches {
  int64_t first, second;
};

// Asked once; the answer stays. It must decide nothing that shows in a result: blocks of work may follow it, the order
// of a sum may not, or two machines would train two models.
const Caches& caches();

}  // namespace sparsenet
