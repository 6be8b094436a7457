"""Numba kernels, the fallback without the C++ extension; names and contracts are in `sparsenet/_core.pyi`."""

from __future__ import annotations

from sparsenet.kernels.numba.numba_attention import attend_gradient, attend_last
from sparsenet.kernels.numba.numba_blend import rank_blend
from sparsenet.kernels.numba.numba_cells import nearest_in_cells, search_cells
from sparsenet.kernels.numba.numba_dual import dual_train
from sparsenet.kernels.numba.numba_graph import gru_gradient, gru_rows, message_rows, remember_links
from sparsenet.kernels.numba.numba_inference import predict_topk
from sparsenet.kernels.numba.numba_losses import bce_gradient, softmax_gradient
from sparsenet.kernels.numba.numba_lsh import (
    lsh_bin_codes,
    lsh_build_tables,
    lsh_pack_signs,
    lsh_query_each,
    lsh_query_shared,
)
from sparsenet.kernels.numba.numba_matmul import matmul
from sparsenet.kernels.numba.numba_neighbors import nearest_points, neighbor_votes
from sparsenet.kernels.numba.numba_optim import adagrad_rows, adam_product, adam_rows, sgd_rows
from sparsenet.kernels.numba.numba_reader import count_marks, parse_svmlight, parse_xmc
from sparsenet.kernels.numba.numba_recommend import recommend_items
from sparsenet.kernels.numba.numba_records import decode_rows, encode_rows, read_records
from sparsenet.kernels.numba.numba_scorer import TextScorer, count_labels, count_slots, text_points
from sparsenet.kernels.numba.numba_shortlist import shortlist, wide_scores
from sparsenet.kernels.numba.numba_sparse import (
    csr_matmul,
    csr_matmul_narrow,
    pair_dot,
    spread_postings,
    take_rows,
    transpose_batch,
)
from sparsenet.kernels.numba.numba_stream import learn_stream, rank_stream
from sparsenet.kernels.numba.numba_text import join_texts, text_features, text_room
from sparsenet.kernels.numba.numba_tree_grow import split_sets
from sparsenet.kernels.numba.numba_tree_search import search_tree
from sparsenet.kernels.numba.numba_tree_train import train_node_by_parts, train_nodes
from sparsenet.kernels.numba.numba_wide import label_centroids, wide_forward, wide_gradient, wide_touch

__all__ = [
    "TextScorer",
    "adagrad_rows",
    "adam_product",
    "adam_rows",
    "attend_gradient",
    "attend_last",
    "bce_gradient",
    "count_labels",
    "count_marks",
    "count_slots",
    "csr_matmul",
    "csr_matmul_narrow",
    "decode_rows",
    "dual_train",
    "encode_rows",
    "gru_gradient",
    "gru_rows",
    "has_bf16",
    "isa_available",
    "isa_used",
    "join_texts",
    "label_centroids",
    "learn_stream",
    "lsh_bin_codes",
    "lsh_build_tables",
    "lsh_pack_signs",
    "lsh_query_each",
    "lsh_query_shared",
    "matmul",
    "message_rows",
    "nearest_in_cells",
    "nearest_points",
    "neighbor_votes",
    "pair_dot",
    "parse_svmlight",
    "parse_xmc",
    "predict_topk",
    "rank_blend",
    "rank_stream",
    "read_records",
    "recommend_items",
    "remember_links",
    "search_cells",
    "search_tree",
    "set_isa",
    "sgd_rows",
    "shortlist",
    "softmax_gradient",
    "split_sets",
    "spread_postings",
    "take_rows",
    "text_features",
    "text_points",
    "text_room",
    "train_node_by_parts",
    "train_nodes",
    "transpose_batch",
    "wide_forward",
    "wide_gradient",
    "wide_scores",
    "wide_touch",
]


def isa_available() -> list[str]:
    """Return the only level: Numba compiles for the CPU that it runs on."""
    return ["numba"]


def isa_used() -> str:
    """Return the level in use."""
    return "numba"


def set_isa(name: str) -> None:
    """Accept the only level, ``"numba"``."""
    if name != "numba":
        raise ValueError(f"instruction set {name!r} is not available here; the Numba kernels have: numba")


def has_bf16() -> bool:
    """Return False: Numba has no bfloat16 instructions, so bfloat16 is no faster."""
    return False
