// THE kernels, in plain loops. Each file of isa/ includes this once, with SPARSENET_LEVEL, kLanes and the shape of the
// register block set for its instruction set; the compiler's flags do the rest. Nothing here may be shared between
// levels: everything is in an anonymous namespace, in the headers that are included too, or the linker could hand one
// level's copy of an inline function to all of them.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../fetch.h"
#include "../kernel_table.h"

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

}  // namespace

extern const KernelTable SPARSENET_TABLE;
const KernelTable SPARSENET_TABLE = {
    SPARSENET_LEVEL, csr_matmul,    matmul_of<Single>(), matmul_of<Half>(), dot_rows, wide_touch,
    wide_forward,    wide_gradient, bce_gradient,        softmax_gradient,  sgd_rows, adagrad_rows,
    adam_rows,       adam_product,  dual_epoch,          number_features,   add_rows, sparse_dot,
    above,           maxima,
};

}  // namespace sparsenet
