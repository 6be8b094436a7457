// Properties of the CPU that blocking depends on.
#pragma once

#include <cstdint>

namespace sparsenet {

// Returns the size in bytes of a core's second-level cache, or a typical size if the system does not report it.
//
// Read once and then constant. It must not affect a result: it may set the size of a block of work, but not the order
// of a sum, or two machines would train two models.
int64_t second_level_cache();

}  // namespace sparsenet
