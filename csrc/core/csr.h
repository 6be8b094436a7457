#pragma once

#include <cstdint>

namespace sparsenet {

// A matrix in compressed sparse row form: row i has the entries indptr[i] ... indptr[i + 1] - 1.
struct Csr {
  const int64_t* indptr;
  const int32_t* indices;
  const float* data;
};

}  // namespace sparsenet
