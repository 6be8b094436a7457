// What the machine says of its caches.
#pragma once

#include <cstdint>

namespace sparsenet {

// Bytes of a core's second-level cache, or what is usual where the system does not say.
//
// Asked once; the answer stays. It must decide nothing that shows in a result: blocks of work may follow it, the order
// of a sum may not, or two machines would train two models. So no depth of a block follows the first-level cache.
int64_t second_level_cache();

}  // namespace sparsenet
