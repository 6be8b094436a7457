// All kernels, as plain loops. Each file of isa/ includes this file once and compiles it with the flags of its
// instruction set. Before that it defines SPARSENET_LEVEL, kLanes and the shape of the register block. Instruction sets
// must share no code: everything, including what other headers contribute, is in an anonymous namespace. Otherwise the
// linker could use the copy of an inline function from one instruction set for all of them.
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "../core/prefetch.h"
#include "kernel_table.h"

namespace sparsenet {
namespace {

#include "precision.inl.h"
//
#ifdef __AMX_BF16__
#include "tiles.inl.h"
#endif
#include "tile.inl.h"
//
#include "lists.inl.h"
#include "sparse.inl.h"
//
#include "loss.inl.h"
//
#include "optimizer.inl.h"
//
#include "dual.inl.h"
//
#include "text.inl.h"
//
#include "topk.inl.h"
//
#include "bytes.inl.h"
//
#include "codes.inl.h"
//
#include "ranker.inl.h"
//
#include "graph.inl.h"

constexpr KernelTable make_table() {
  KernelTable table = {};
  table.name = SPARSENET_LEVEL;
  table.float32 = matmul_of<Single>();
  table.bfloat16 = matmul_of<Bfloat16>();
#define SPARSENET_FILL_KERNEL(kernel) table.kernel = kernel;
  SPARSENET_FOR_EACH_KERNEL(SPARSENET_FILL_KERNEL)
#undef SPARSENET_FILL_KERNEL
  return table;
}

}  // namespace

extern const KernelTable SPARSENET_TABLE;
const KernelTable SPARSENET_TABLE = make_table();

}  // namespace sparsenet
