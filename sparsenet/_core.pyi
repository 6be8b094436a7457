"""Signatures and contracts of the kernels, implemented in C++ (``csrc/``) and in Numba (``kernels/numba/``).

Conventions. Arrays are C-contiguous and exactly of the type given; nothing is converted. The caller allocates every
output and owns all state. Row pointers (``indptr``) are int64, ids (features, labels, rows) int32, values float32.
Ids must be valid and row pointers well formed, starting at 0: the public API checks them. A wrong type or shape raises
a ValueError that names the argument, before anything is written. Results are bit-identical for any number of
`threads`. Any extent may be 0.

Symbols in shapes: n points of a batch, d features, h units, L labels, a active labels, p features present.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I8 = NDArray[np.int8]
I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
U64 = NDArray[np.uint64]

def isa_available() -> list[str]:
    """Return the compiled instruction set levels that this CPU supports, from plain to best."""

def isa_used() -> str:
    """Return the level in use: the best available, or the one set in SPARSENET_ISA."""

def set_isa(name: str) -> None:
    """Switch the whole process to another available level, for tests and benchmarks."""

def has_bf16() -> bool:
    """Return whether the level in use has bfloat16 instructions: without them bfloat16 is no faster."""

# --- sparse batches --------------------------------------------------------------------------------------------

def csr_matmul(indptr: I64, indices: I32, data: F32, dense: F32, out: F32, threads: int) -> None:
    """Compute ``out = csr @ dense``: csr (n, d), dense (d, h), out (n, h)."""

def csr_matmul_narrow(indptr: I64, indices: I32, data: F32, codes: I8, steps: U16, out: F32, threads: int) -> None:
    """Compute `csr_matmul` for rows of 8 bits, with the same bits as for their floats: codes (d, h), steps (d,).

    A row is its codes times its step; `steps` are the upper halves of the bits of floats.
    """

def transpose_batch(
    indptr: I64,
    indices: I32,
    data: F32,
    before: I32,
    slots: I32,
    features: I32,
    starts: I64,
    rows: I32,
    values: F32,
) -> int:
    """Turn a CSR batch into posting lists: the rows that have each feature, and their values. Returns p.

    On return, ``slots[f]`` is the position of feature f in `features`, or -1. On entry, `slots` (d,) must be -1 except
    at the features of the previous batch, which are passed as `before`; `before` may share memory with `features`.
    `features`, `rows` and `values` have room for nnz entries, `starts` for nnz + 1. Features come in order of first
    appearance, rows ascending.
    """

def take_rows(
    indptr: I64, indices: I32, data: F32, rows: I64, out_indptr: I64, out_indices: I32, out_data: F32
) -> None:
    """Gather rows of a CSR matrix: row i of `out` is row ``rows[i]``.

    rows (m,). The caller fills `out_indptr` (m + 1,) with the row pointers of the result; `out_indices` and `out_data`
    have room for its entries.
    """

def spread_postings(starts: I64, rows: I32, values: F32, dense_of: I32, dense: F32) -> None:
    """Copy posting lists of a batch to dense rows: the list of slot s goes to ``dense[dense_of[s]]``.

    starts (p + 1,). dense_of (p,) is below k, or -1 for features without a dense row. dense (k, n) is overwritten,
    zeros included.
    """

# --- dense tiles -----------------------------------------------------------------------------------------------

def matmul(
    a: F32,
    b: F32,
    out: F32,
    a_rows: I32 | None,
    b_rows: I32 | None,
    start: F32 | None,
    transpose_a: bool,
    transpose_b: bool,
    bf16: bool,
    threads: int,
) -> None:
    """Compute ``out = start + op(A) @ op(B)``, where A is ``a`` or ``a[a_rows]``, and op is an optional transpose.

    start (m,) is added to each column of the product (m, n); None adds nothing.

    `bf16` rounds the elements of A and B to the nearest bfloat16, ties to even; products are summed in float32.
    """

def pair_dot(indptr: I64, ids: I32, hidden: F32, weight: F32, out: F32, threads: int) -> None:
    """Compute ``out[j] = hidden[i] @ weight[ids[j]]`` for each j of row i: hidden (n, h), weight (L, h)."""

# --- the wide path: sparse weights from features directly to labels -----------------------------------------------

def label_centroids(
    label_indptr: I64,
    label_points: I32,
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    budget: I64,
    starts: I64,
    out_indices: I32,
    out_data: F32,
    out_ends: I64,
    threads: int,
) -> None:
    """Sum the rows of each label's points and keep the ``budget[l]`` largest entries by magnitude.

    `label_indptr` and `label_points` are the points of each label (labels x points CSR). The entries of label l, by
    ascending feature, end before ``out_indices[out_ends[l]]``. The space for them, ``starts[l + 1] - starts[l]``, must
    be at least min(budget[l], distinct features of l). Ties keep the smaller feature. Sums are float32, in the order of
    the points, so that all backends keep the same features.
    """

def wide_touch(
    active: I32,
    indptr: I64,
    indices: I32,
    slots: I32,
    touched_indptr: I64,
    touched: I64,
    touched_slots: I32,
    threads: int,
) -> int:
    """Find the wide weights that a batch uses: of active labels and features present. Returns their number.

    indptr (L + 1,) and `indices` are the support of each label. `touched_indptr` (a + 1,) and `touched` (room for the
    whole support of the active labels) receive positions into `indices`, ascending within a label. `touched_slots`, of
    the same length, receives the slots of their features in the batch.
    """

def wide_forward(
    touched_indptr: I64,
    touched: I64,
    touched_slots: I32,
    weights: F32,
    starts: I64,
    rows: I32,
    values: F32,
    dense_of: I32,
    dense: F32,
    out: F32,
    threads: int,
) -> None:
    """Add the wide scores of a batch to `out` (a, n): a sparse-sparse product over the batch's posting lists.

    Slot s has the distinct postings ``rows[starts[s] : starts[s + 1]]`` and their `values`. A long list may also be
    given as row ``dense_of[s]`` of `dense` (k, n), zeros included; otherwise ``dense_of[s]`` (p,) is -1.
    """

def wide_gradient(
    touched_indptr: I64,
    touched: I64,
    touched_slots: I32,
    starts: I64,
    rows: I32,
    values: F32,
    dense_of: I32,
    dense: F32,
    grad: F32,
    out: F32,
    threads: int,
) -> None:
    """Compute the gradient of each touched weight from `grad` (a, n); `out` is parallel to `touched`."""

# --- losses over a tile of logits: one row per active label, one column per point ----------------------------------

def bce_gradient(
    logits: F32,
    positive_indptr: I64,
    positive_points: I32,
    positive_weights: F32,
    negative_weights: F32,
    smoothing: float,
    scale: float,
    losses: NDArray[np.float64],
    threads: int,
) -> None:
    """Replace `logits` (a, n) by the gradient of binary cross-entropy and set `losses` (a,), both times `scale`.

    A negative entry of row l has the weight ``negative_weights[l]``. The positives of row l are the distinct points
    ``positive_points[positive_indptr[l] : positive_indptr[l + 1]]``, weighted by `positive_weights`. Targets are
    ``1 - smoothing`` and ``smoothing``.
    """

def softmax_gradient(
    logits: F32,
    positive_indptr: I64,
    positive_points: I32,
    positive_weights: F32,
    log_expected: F32,
    smoothing: float,
    scale: float,
    losses: NDArray[np.float64],
    threads: int,
) -> None:
    """Replace `logits` (a, n) by the gradient of sampled softmax and set `losses` (n,), both times `scale`.

    ``log_expected[l]``, the log of the expected number of draws of label l, is subtracted from its logits (the logQ
    correction). The target of a point puts ``1 - smoothing`` on its labels, split by `positive_weights`, which sum to
    1. It spreads `smoothing` evenly over all a labels. A point without positives has no loss and no gradient.
    """

# --- optimizers: update rows of a parameter in place; `rows` are distinct ------------------------------------------

def sgd_rows(value: F32, rows: I64, grads: F32, rate: float, decay: float, threads: int) -> None:
    """Update by SGD: ``value[r] -= rate * (g + decay * value[r])``; value (R, h), grads (len(rows), h)."""

def adagrad_rows(
    value: F32, squares: F32, rows: I64, grads: F32, rate: float, epsilon: float, decay: float, threads: int
) -> None:
    """Update by Adagrad: ``squares[r] += g * g; value[r] -= rate * g / (sqrt(squares[r]) + epsilon)``.

    `decay` is L2 regularisation: ``decay * value[r]`` is added to ``g`` first.
    """

def adam_rows(
    value: F32,
    first: F32,
    second: F32,
    last_step: I32,
    rows: I64,
    grads: F32,
    step: int,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    threads: int,
) -> None:
    """Update by lazy Adam: the moments of a row first decay for the steps that it skipped, without moving it.

    Weight decay is decoupled: ``value[r] -= rate * decay * value[r]``. Moments are bias-corrected by `step`, counted
    from 1. ``last_step[r]``, below `step` on entry, becomes `step`.
    """

def adam_product(
    value: F32,
    first: F32,
    second: F32,
    last_step: I32,
    rows: I64,
    indptr: I64,
    indices: I32,
    data: F32,
    dense: F32,
    step: int,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    threads: int,
) -> None:
    """Update by `adam_rows` with ``grads = csr @ dense``, computed in blocks: csr (len(rows), n), dense (n, h)."""

# --- inference -------------------------------------------------------------------------------------------------

def predict_topk(
    hidden: F32,
    weight: F32,
    bias: F32,
    indptr: I64,
    indices: I32,
    data: F32,
    wide_indptr: I64,
    wide_labels: I32,
    wide_weights: F32,
    out_labels: I32,
    out_scores: F32,
    threads: int,
) -> None:
    """Find the exact top k of all labels by ``hidden @ weight.T + bias`` plus the wide scores, without an n x L matrix.

    hidden (n, h), weight (L, h), bias (L,); h may be 0. The wide weights are sorted by feature: wide_indptr (d + 1,),
    wide_labels ascending within a feature. `out_labels` and `out_scores` are (n, k) with k <= L, best first, ties to
    the smaller label. NaN scores are replaced by minus infinity.
    """

def shortlist(
    indptr: I64,
    indices: I32,
    data: F32,
    index_indptr: I64,
    index_labels: I32,
    index_weights: F32,
    bias: F32,
    fallback: I32,
    out_labels: I32,
    out_scores: F32,
    threads: int,
) -> None:
    """Find for each point the c labels of the highest wide score plus bias among the candidates of its features.

    The index (d + 1,) lists labels by feature and may omit weights. `fallback` has c or more distinct labels; its first
    c are candidates of every point. `out_labels` (n, c) ascend within a row; `out_scores` (n, c) are their scores,
    without the omitted weights.
    """

def search_cells(
    queries: F32,
    centroids: I8,
    centroid_scales: F32,
    starts: I64,
    codebook: I16,
    unit: float,
    blocks: U8,
    labels: I32,
    weight: F32,
    bias: F32,
    n_probes: int,
    n_candidates: int,
    out_labels: I32,
    out_scores: F32,
    out_scanned: I64,
    threads: int,
) -> None:
    """Find for each query (n, h) the k labels of the highest ``weight @ query + bias`` in the nearest cells.

    The cells are ranked by the product of ``centroid_scales * centroids`` (C, h) with the query. Cell c has the entries
    ``starts[c] : starts[c + 1]`` of `labels` (E,); a label may be in several cells. At least `n_probes` cells are read,
    and more until k labels are found. If these have more than `n_candidates` entries, codes choose as many labels, ties
    to the smaller one. They are scored exactly with `weight` (L, h) and `bias` (L,).

    `codebook` (g, 16, m) holds the centroids of g groups of columns in multiples of `unit`, a power of two; g is a
    multiple of 4. Column c of the rows, with the bias as column h, is number ``c // g`` of group ``c % g``. Entry j has
    row ``j % 32`` of block ``j // 32`` of `blocks` (ceil(E / 32), g, 16): row r has the lower half of byte r if r < 16,
    else the upper half of byte r - 16. A query's products with the centroids of a group, less the smallest of them, are
    shifted right, with rounding, until all groups fit into 6 bits and all sums into 16.

    `out_labels` and `out_scores` (n, k) are best first; missing labels are -1, with a score of minus infinity.
    `out_scanned` (n,) counts the entries of the cells.
    """

def nearest_in_cells(
    queries: F32,
    centroids: I8,
    centroid_scales: F32,
    starts: I64,
    codebook: I16,
    unit: float,
    blocks: U8,
    lengths: F32,
    codes: I8,
    scales: F32,
    n_probes: int,
    n_candidates: int,
    out_positions: I32,
    out_scores: F32,
    out_scanned: I64,
    threads: int,
) -> None:
    """Find for each query (n, h) the k vectors of the largest products in the nearest cells.

    The arguments are as in `search_cells`, but entry j of cell c is the vector ``lengths[c] * centroid[c] +
    scales[j] * codes[j]``, and `blocks` hold the second term. The candidates are scored by these bytes and the query in
    up to 16 bits.

    `out_positions` and `out_scores` (n, k) are positions of entries and their products, best first, ties by position;
    missing positions are -1, with a score of minus infinity.
    """

def wide_scores(
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    wide_indptr: I64,
    wide_features: I32,
    wide_weights: F32,
    labels: I32,
    out: F32,
    threads: int,
) -> None:
    """Compute the wide scores (n, c) of given `labels` (n, c) of each point, from weights by label, (L + 1,)."""

def nearest_points(
    indptr: I64,
    indices: I32,
    data: F32,
    index_indptr: I64,
    index_points: I32 | U16,
    index_weights: F32 | I8,
    index_steps: U16 | None,
    n_others: int,
    most: int,
    out_points: I32,
    out_products: F32,
    threads: int,
) -> None:
    """Find for each point the k nearest of `n_others` points by inner product, if that is above zero.

    The index (d + 1,) lists the other points by feature. Its weights are floats, or codes with a step (d,) for each
    list as in `csr_matmul_narrow`; then its points may have 16 bits. `out_points` and `out_products` (n, k) are best
    first, ties to the smaller number, padded with point 0 and a product of 0. At most `most` entries of the index are
    read for a point: its features with the smallest value per entry are skipped, on ties the later ones.
    """

def neighbor_votes(
    indptr: I64,
    indices: I32,
    data: F32,
    label_indptr: I64,
    label_ids: I32,
    label_weights: F32,
    n_labels: int,
    wanted: I32,
    out: F32,
    threads: int,
) -> None:
    """Compute the `wanted` entries (n, c) of the sparse product of neighbors (n, m) and labels (m, n_labels)."""

def rank_blend(
    levels: list[tuple[I64, I32, F32, NDArray[np.int8], F32, I64]],
    names: I32,
    beam: int,
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    n_labels: int,
    neighbors: tuple[F32, I64, I32 | U16, F32 | I8, U16 | None, I64, I32] | None,
    most: int,
    n_neighbors: int,
    power: float,
    network: tuple[Any, ...] | None,
    weights: F32,
    pseudo_neighbor: float,
    n_candidates: int,
    n_proposed: int,
    out_labels: I32,
    out_scores: F32,
    threads: int,
) -> None:
    """Rank candidate labels of each point by a blend of a tree, nearest points and a network.

    The tree proposes `n_candidates` labels as `search_tree` does, and doubles the beam for a point that meets fewer.
    The `n_neighbors` nearest points are found as by `nearest_points`, by values divided by their largest magnitude and
    multiplied by the feature weights. Each votes for its labels with its product to the `power`; votes sum to one. The
    `n_proposed` labels with the most votes are further candidates, with the tree's highest penalty.

    A score is a sum with the `weights` (3,) of minus the root of the tree's penalty, the network's log probability, and
    the root of the votes plus `pseudo_neighbor` (plus 1 without votes) times the probability, which is the tree's
    without a network. `out_labels` and `out_scores` (n, k) are best first.

    `neighbors` has the feature weights (d,), the index as in `nearest_points`, and the label lists (m + 1,) of the
    points. `network` has the hidden units (n, h), the weights (n_labels, h), the biases, the log-sum-exp of each
    point's scores (None: scores are log-odds), sparse weights of each label as pointers, features and values, or None,
    and the steps (n_labels,) of the weights and of the sparse ones, if they are 8-bit codes, or None.
    """

def recommend_items(
    indptr: I64,
    items: I32,
    amounts: F32,
    list_indptr: I64,
    list_items: I32,
    list_values: NDArray[np.int16],
    list_units: F32,
    vectors: NDArray[np.int8],
    inward: F32,
    outward: F32,
    factors: F32,
    trend: F32,
    fallback: I32,
    weights: F32,
    mixing: F32,
    fading: float,
    n_candidates: int,
    exclude_seen: bool,
    out_items: I32,
    out_scores: F32,
    out_parts: F32,
    threads: int,
) -> None:
    """Recommend k of N items to each user from the events of the history, the latest one last.

    The last event of an item has its amount; `fading` multiplies it once for each distinct later item, as the
    recent amount. A row of the lists has related items of an item, with values in `list_units` (N, s) by the walk, the
    regression and, if s is 3, the successors. An item reached from a history has five sums, weighted by amounts: walk
    and regression, both again and the successors by recent amounts; the last three need s = 3. Candidates are the
    `n_candidates` unseen items of the highest positive sum of ``mixing * sums * factors``, then items of `fallback` in
    their order, which has distinct items with factors above 0. Unless `exclude_seen`, items of the history are added.

    The nine scores of a candidate are the two sums by amounts; the product of its vector with the sum of the vectors of
    the history times ``amounts * inward``, times its `outward`; and the three recent sums: these six are multiplied by
    its factor, negative ones are 0, and each is divided by its largest value among the candidates. Then its `trend`,
    ``fading ** slot`` for the item of a history with `slot` later distinct items, and its share of the events; the last
    two are 0 for others. `out_items` (n, k) and `out_scores` (n, k) have the best candidates by ``weights @ scores``,
    ties by number, padded with -1 and minus infinity. `out_parts` (n, k, 9) has their scores, padded with 0, or is
    empty, (0, k, 9).
    """

# --- hashing: see index/hashing/ ---------------------------------------------------------------------------------
# Symbols: t tables with a power of two of buckets each; s slots. Codes are integers below the number of buckets.

def lsh_pack_signs(scores: F32, codes: U16, threads: int) -> None:
    """Pack the bits ``score >= 0`` of each table, most significant first: scores (n, t * bits), codes (t, n)."""

def lsh_bin_codes(values: F32, bins: I32, codes: U16, threads: int) -> None:
    """Hash rows of `values` (n, w) by bins (t, per table, window) of coordinates; codes (t, n).

    The symbol of a bin is the position of its largest non-zero value; ties go to the earlier one. A bin of zeros
    borrows the symbol of another. Window is a power of two. The symbols of a table make its code, most significant
    first.
    """

def lsh_build_tables(codes: U16, offsets: I32, labels: I32, threads: int) -> None:
    """Build tables by counting sort: codes (t, L), offsets (t, buckets + 1), labels (t, L) ascending in a bucket."""

def lsh_query_shared(
    offsets: I32, labels: I32, codes: U16, probe_limit: int, counts: I32, ids: I32, hits: I32, threads: int
) -> int:
    """Count how often labels share a bucket with n points, codes (t, n), and return the number of labels found.

    At most `probe_limit` labels of a bucket are counted. `ids` and `hits` (limit,) receive the most frequent labels,
    ties to the smaller. `counts` (s, L) is all zero before and after; the work is split over its rows.
    """

def lsh_query_each(
    offsets: I32,
    labels: I32,
    codes: U16,
    probe_limit: int,
    counts: I32,
    ids: I32,
    hits: I32,
    found: I64,
    threads: int,
) -> None:
    """Query like `lsh_query_shared`, for each point separately: ids and hits (n, limit), found (n,)."""

# --- reading: see data/ ------------------------------------------------------------------------------------------

def count_marks(text: U8) -> tuple[int, int, int]:
    """Count the newlines, colons and commas of a text: they bound its number of rows, features and labels."""

def parse_xmc(
    text: U8,
    first_line: int,
    last_line: int,
    n_features: int,
    n_labels: int,
    row_ends: I64,
    indices: I32,
    values: F32,
    label_ends: I64,
    labels: I32,
    threads: int,
) -> tuple[int, int, int, int, int, int, int, float]:
    """Parse whole lines of a file in the XMC-repository format; `text` ends with a newline.

    `first_line` is the line number of the start of the text, `last_line` the line of the last point in the header's
    count. Row r ends before ``indices[row_ends[r]]`` and ``labels[label_ends[r]]``; ids ascend within a row. Outputs
    need room for one row per line, one feature per colon, and one label per line and per comma.

    Returns the numbers of rows, features and labels; the error (0 for none, see `sparsenet.data.explain.RowError`) and
    its line; the start and end of the offending token in `text`; and the repeated id, if that is the error.
    """

def parse_svmlight(
    text: U8,
    first_line: int,
    first_feature: int,
    end_feature: int,
    n_labels: int,
    one_label: bool,
    row_ends: I64,
    indices: I32,
    values: F32,
    label_ends: I64,
    labels: NDArray[np.float64],
    threads: int,
) -> tuple[int, int, int, int, int, int, int, float]:
    """Parse whole lines of an svmlight file like `parse_xmc`; blank lines and comments are skipped.

    Feature ids in ``[first_feature, end_feature)`` are stored unchanged. Labels are ids below `n_labels`. If that is
    -1, they are any finite numbers, except integers of 2**53 or more written in digits only. `one_label` requires
    exactly one label in each row.
    """

# --- rows in a file: see data/point_file.py; the encoding is described in csrc/io/records.h ---------------------------

def encode_rows(indptr: I64, indices: I32, values: F64, value_bytes: int, out: U8, ends: I64) -> None:
    """Encode rows whose ids ascend as records: record i is ``out[ends[i] : ends[i + 1]]``.

    `value_bytes` is 0 for values that are all 1, 2 for whole numbers below 2**16, 4 for float32 and 8 for float64.
    `out` has room for ``4 + value_bytes`` bytes an entry, ends (n + 1,).
    """

def decode_rows(
    records: U8, starts: I64, value_bytes: U8, width: int, indptr: I64, indices: I32, values: F64, threads: int
) -> int:
    """Decode records; record i is ``records[starts[i] : starts[i + 1]]``, and has ``value_bytes[i]`` bytes a value.

    The caller fills `indptr` with the row pointers of the result; `indices` and `values` have room for its entries.
    Returns the first record that is malformed or has an id of `width` or more, or -1.
    """

def read_records(file: int, offsets: I64, starts: I64, out: U8) -> int:
    """Read pieces of an open file, a descriptor: piece i begins at ``offsets[i]``, goes to ``out[starts[i] : ...]``.

    Returns 0, the errno of a failure, or -1 if the file ends too early.
    """

# --- texts: see features/text/ -----------------------------------------------------------------------------------
# Only integers are used, so features are the same on every CPU and backend. `pages` and `entries` are the Unicode
# table; `word_ngrams`, `char_low`, `char_high` and `bits` are the rules that turn texts into features.

def join_texts(texts: list[str]) -> tuple[U8, I64]:
    """Concatenate the UTF-8 of all texts; return it with the offset of each text and of the end.

    Halves of surrogate pairs, which UTF-8 cannot encode, become question marks.
    """

def text_room(offsets: I64, word_ngrams: int, char_low: int, char_high: int, bits: int) -> int:
    """Return an upper bound on the number of features of texts of these sizes."""

def text_features(
    text: U8,
    offsets: I64,
    pages: U16,
    entries: I32,
    word_ngrams: int,
    char_low: int,
    char_high: int,
    bits: int,
    ends: I64,
    slots: I32,
    counts: U8,
    threads: int,
) -> None:
    """Turn texts, UTF-8 in ``text[offsets[i] : offsets[i + 1]]``, into hashed features and their counts.

    Words are case-folded runs of letters, marks, digits and connectors, with apostrophes between them. A punctuation
    mark, a symbol, and a letter of a script without spaces are each a word. Invalid UTF-8 is read as U+FFFD.

    Word features are n-grams of 1 to `word_ngrams` words, counting the start and the end of the text as words.
    Character features, unless `char_high` is 0, are n-grams of `char_low` to `char_high` characters inside a word with
    its boundaries. Only the first 64 characters of a word count. Features are hashed into ``2**bits`` slots, those with
    characters into the upper half.

    The features of text i, in order of first appearance, end before ``slots[ends[i]]``. Counts are capped at 255.
    `slots` and `counts` have the size that `text_room` returns.
    """

# --- linear classifiers ------------------------------------------------------------------------------------------

def dual_train(
    indptr: I64,
    indices: I32,
    data: F32,
    squares: F32,
    label_indptr: I64,
    labels: I32,
    first_label: int,
    positive_slack: F32,
    negative_slack: F32,
    most_epochs: int,
    tolerance: float,
    seed: int,
    weight: F32,
    epochs: I32,
    threads: int,
) -> None:
    """Train one-vs-rest support vector machines with squared hinge loss, a block of labels at a time.

    For each label l of `weight`, counted from `first_label`, minimise ``|w|^2 / 2 + sum_i (1 - y_i w.x_i)_+^2 /
    (2 slack_i)`` by dual coordinate descent, where w includes the bias and x a constant 1. y_i is 1 and `slack_i` is
    ``positive_slack[l]`` if l is among ``labels[label_indptr[i] : label_indptr[i + 1]]``; otherwise they are -1 and
    ``negative_slack[l]``. `squares` (n,) is ``1 + |x_i|^2``. A label with huge slacks learns nothing.

    weight (n_blocks, d + 1, width) is zero on entry; its last row are the biases. The width is 1, 4, 8 or 16. After a
    full pass, points that violate optimality by at most half of `tolerance` are skipped. Short passes follow until the
    other points are within `tolerance`, four at most, then a full pass again. A block stops after `most_epochs` passes,
    full or short, or when no point violates optimality by more than `tolerance` in a full pass. `epochs` (n_blocks,)
    receives the number of passes.
    """

# --- classifiers in a tree of labels: see engines/tree/ ------------------------------------------------------------
# A node has up to 16 children: nodes of the next level, or leaves in the last level. Node b has the children
# ``children[b] ... children[b + 1] - 1``; children (b + 1,) is row pointers. Features of a point may be in any order.
# Ties go to the smaller number.

def split_sets(
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    starts: I64,
    left: I64,
    seed: int,
    most_rounds: int,
    order: I32,
    threads: int,
) -> None:
    """Bisect sets of rows into parts of given sizes by balanced spherical 2-means.

    Set b is ``order[starts[b] : starts[b + 1]]``, distinct rows of the csr (r, d); on return its first ``left[b]`` rows
    are the left part. The first centroids are two of its rows, drawn by `seed` and b. Each round moves the rows with
    the largest cosine to the left centroid, minus the cosine to the right one, to the left part. It stops when no row
    moves or after `most_rounds`. The rows of a part ascend, unless no row moved at all. A set with ``left[b]`` equal to
    0 or its size stays unchanged.
    """

def train_nodes(
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    squares: F32,
    starts: I64,
    reached: I32,
    belongs: U16,
    children: I64,
    cost: float,
    cost_of_others: float,
    rarity: float,
    most_epochs: int,
    tolerance: float,
    seed: int,
    smallest: float,
    threads: int,
) -> tuple[I64, I32, F32, NDArray[np.int8], F32]:
    """Train a machine for each child of each node, like `dual_train`, on the points that reach the node.

    The points ``reached[starts[b] : starts[b + 1]]`` reach node b, starts (b + 1,). Bit c of `belongs`, parallel to
    `reached`, marks points that belong to child c. Their slack is ``0.5 / (cost * ratio**rarity)``, where ratio is the
    number of the node's points divided by the child's. The slack of the other points is ``0.5 / cost_of_others``.
    `squares` (n,) is ``1 + |x_i|^2``. The machines of a node depend only on ``seed + b`` and its points.

    Returns the machines as `search_tree` takes them: starts (b + 1,) of the rows of each node, features and factors
    (rows,), weights (rows, 16), to be multiplied by ``factors`` row by row, and bias (b, 16). Features ascend within a
    node. Features whose weights are all zero or smaller than `smallest` have no row. Weights of missing children are
    nearly zero.
    """

def train_node_by_parts(
    read: Callable[[I32], tuple[I64, I32, F32, F32]],
    part_points: int,
    belongs: U16,
    features: I32,
    n_children: int,
    cost: float,
    cost_of_others: float,
    rarity: float,
    most_epochs: int,
    tolerance: float,
    seed: int,
    smallest: float,
) -> tuple[I64, I32, F32, NDArray[np.int8], F32]:
    """Train one node as `train_nodes` does, bit for bit, on points that are not all in memory.

    ``read(numbers)`` returns up to `part_points` of the node's points, in this order: indptr, indices, data and
    squares. Each pass reads all active points. Indices are positions in `features`, the features of the node,
    ascending. `belongs` (n,) has the children of each point.
    """

def search_tree(
    levels: list[tuple[I64, I32, F32, NDArray[np.int8], F32, I64]],
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    beam: int,
    names: I32,
    leaves: I32,
    scores: F32,
    threads: int,
) -> None:
    """Find the k best leaves of each point by beam search from the root.

    A level consists of the arrays that `train_nodes` returns, and `children`. It has as many nodes as the level above
    has children. The search starts at all nodes of the first level, with a score of 0. A child's score is 0.8 times its
    node's score minus ``max(1 - s, 0)**3``, where s is its machine's output ``x . w`` plus bias; NaN gives minus
    infinity. The `beam` best children of a level are expanded next. In the last level the k best are returned.

    `leaves` and `scores` (n, k), k at least 1, are best first, padded with -1 and minus infinity. Leaves are reported
    by their `names` (n_leaves,); ties go to the smaller name.
    """

# --- scores of texts: a model is a vocabulary and a matrix of 8-bit weights -------------------------------------------
# The vocabulary: if bit ``s & 63`` of ``used[s >> 6]`` is set, slot s is a feature. Its number is ``ranks[s >> 6]``
# plus the number of lower bits set in that word. A feature is weighted by `weights` (d,), and its number of
# occurrences, 255 at most, by `log_counts` (256,).

def count_slots(slots: I32, texts: I32) -> None:
    """Add the number of texts with each slot to `texts`; `slots` lists the distinct slots of each text."""

def count_labels(ends: I64, slots: I32, counts: U8, labels: I32, used: U64, ranks: I32, first: int, out: I32) -> None:
    """Add the number of texts with label l and feature f to ``out[f - first, l]``, for features from `first` on.

    `ends`, `slots` and `counts` come from `text_features`; each text has one label. `out` is (n_features, n_labels).
    """

def text_points(
    ends: I64,
    slots: I32,
    counts: U8,
    char_high: int,
    bits: int,
    used: U64,
    ranks: I32,
    weights: F32,
    log_counts: F32,
    out_ends: I64,
    rows: I32,
    values: F32,
    threads: int,
) -> None:
    """Turn the output of `text_features` into points with the values ``log_counts[count] * weights[feature]``.

    Slots outside the vocabulary are dropped. Each point has length 1; word and character features (if `char_high` > 0)
    have equal shares of it. `rows` and `values` have the size of `slots`; row i ends before ``out_ends[i]``.
    Bit-identical everywhere.
    """

class TextScorer:
    """A linear text classifier. It keeps references to the arrays given, which must not change."""

    def __init__(
        self,
        pages: U16,
        entries: I32,
        word_ngrams: int,
        char_low: int,
        char_high: int,
        bits: int,
        used: U64,
        ranks: I32,
        weights: F32,
        log_counts: F32,
        matrix: NDArray[np.int8],
        factors: F32,
        bias: F32,
        indptr: I64 | None = None,
        columns: I32 | None = None,
    ) -> None:
        """Take a model: matrix (d, c), whose row f is multiplied by ``factors[f]``, and bias (c,).

        With `indptr` (d + 1,), the matrix is sparse: row f is ``matrix[indptr[f] : indptr[f + 1]]``, in the columns
        given by `columns` (w,).
        """
    def scores(self, text: U8, offsets: I64, out: F32, threads: int) -> None:
        """Score texts, UTF-8 in ``text[offsets[i] : offsets[i + 1]]``: out (n, c)."""
    def best(self, text: str) -> tuple[int, float]:
        """Return the best column for one text and its score; with one column, 1 if its score is above 0, else 0.

        A text that UTF-8 cannot encode raises a UnicodeEncodeError.
        """

# --- streams of events -----------------------------------------------------------------------------------------

def learn_stream(
    pair_items: I32,
    pair_times: F64,
    pair_counts: F32,
    pair_features: F32,
    user_values: F64,
    item_counts: F64,
    item_values: F64,
    item_features: F32,
    context_items: I32,
    context_counts: F32,
    context_keys: I64,
    popular: I32,
    half_lives: F64,
    clock: F64,
    rates: F64,
    weights: F32,
    squares: F32,
    moments: F64,
    users: I32,
    items: I32,
    times: F64,
    features: F32,
    mutual: bool,
    refresh: int,
    out_ranks: I64,
) -> None:
    """Rank the item of each event (users, items and times, each (n,)) among all, then learn it and its features (n, E).

    Without room in out_ranks, (0,) instead of (n,), nothing is ranked, which is faster with many items.

    State and weights change at the end of each block of `refresh` events, at least 1; ranks, from 1, and gradients come
    from the state before. Candidates are the items of the user's history, the successors of the last item, of the one
    before and of both, and popular items: 128 at most. Other items rank behind these, by the number of events. The
    right candidate takes a step of Adagrad on the cross-entropy over all candidates. With `mutual`, users and items are
    the same, U = N, and the user of an event also becomes the latest in the history of its item, unless it is itself.

    State, for U users with histories of H items, and N items:

    - pair_items (U, H, 2): the items of each history, distinct, the latest first, and the item that the user took
      after its last run; -1: none. pair_times (U, H): the last time. pair_counts (U, H, 6): its events, the events of
      user and item then, the length of the last run, events received from it, and 1 if the last one was received.
      pair_features (U, H, E): the features of the last event.
    - user_values (U, 7): events, last time, mean gap, fraction of new items, fraction of repeats, length of the run,
      number of the last event.
    - item_counts (N,): events; below 0 in rows without an item. item_values (N, 9): time, number and user of the last
      event, fraction of repeats; then log2 of the decayed counts, as if nothing had decayed: of events by each of the
      half_lives (4,), which are numbers of events, and of new users by the second. item_features (N, I).
    - context_items, context_counts (N + P, S): the successors of each item and of P pairs of items, with decayed
      counts, in any order; -1: none. context_keys (P,): ``last << 32 | before``; -1: none.
    - popular (4, C): the items with the highest decayed count for each half-life; -1: none.
    - clock (3,): the number of events, the first time and the last one. rates (5,): numbers that
      `sparsenet.temporal.ranking.stream_rules.StreamRates` describes.

    Ranker of F = 37 + 2 (I + E) features: weights and squares (F + 2, u) are the hidden units, their biases and the
    output; moments (F + 1, 2) the sums of each feature and of its square, and in the last row the number of candidates.
    The last features are the candidate's, alone and times their mean over the history; then the features of two events:
    the user's last one with the candidate, and the last one of all.
    """

def rank_stream(
    pair_items: I32,
    pair_times: F64,
    pair_counts: F32,
    pair_features: F32,
    user_values: F64,
    item_counts: F64,
    item_values: F64,
    item_features: F32,
    context_items: I32,
    context_counts: F32,
    context_keys: I64,
    popular: I32,
    half_lives: F64,
    clock: F64,
    rates: F64,
    weights: F32,
    moments: F64,
    users: I32,
    times: F64,
    out_items: I32,
    out_scores: F32,
    threads: int,
) -> None:
    """Write the k best candidates of each user (n,), -1 without history, and their softmax probabilities: both (n, k).

    State and ranker as in `learn_stream`, which are only read. Padded with -1 and 0; ties go to the earlier candidate.
    """

# --- temporal graphs --------------------------------------------------------------------------------------------

def message_rows(
    memory: F32,
    nodes: I32,
    partners: I32,
    features: F32,
    elapsed: F32,
    times: F32,
    out_messages: F32,
    out_states: F32,
    out_sines: F32,
    threads: int,
) -> None:
    """Gather the memory of nodes, and write the message that updates it.

    memory (R, m), nodes and partners (n,), features (n, f), elapsed (n,). times (2, t) holds the rates and shifts of
    the time encoding ``cos(rate * elapsed + shift)``.

    out_states (n, m + 1): the memory of the node, and 1. out_messages (n, 2 m + f + t + 1): the memory of the node and
    of its partner, features, time encoding, and 1; all but the last are 0 if the partner is -1. out_sines (n, t): the
    sines of the angles; 0 without a partner.
    """

def gru_rows(gates: F32, states: F32, before: F32, out: F32, threads: int) -> None:
    """Update memory by a gated recurrent unit: ``out = (1 - update) * proposal + update * before``, and 1.

    gates and states (n, 3 m) hold what messages and memory contribute to reset, update and proposal. `gates` is
    replaced by ``reset = sigmoid(gates + states)``, `update` likewise, and ``proposal = tanh(gates + reset * states)``.
    before and out (n, m + 1); the last column of `before` is not read.
    """

def gru_gradient(gates: F32, states: F32, before: F32, slopes: F32, threads: int) -> None:
    """Replace `gates` and `states`, as `gru_rows` left them, by the gradients of its inputs.

    slopes (n, m + 1) is the gradient of `out`; its last column is not read.
    """

def attend_last(
    queries: F32,
    edge_queries: F32,
    rows: F32,
    links: I32,
    ages: F32,
    features: F32,
    times: F32,
    keep: F32,
    out: F32,
    out_edges: F32,
    out_weights: F32,
    threads: int,
) -> None:
    """Attend from each of S seeds to its last links, with H heads of c channels.

    links (S, k) are rows of the keys and values, rows (N, 2 H c): all keys, then all values, by head; -1: no link. A
    link is encoded as ``cos(times[0] * age + times[1])`` and its features: ages (S, k), times (2, t), features (S, k,
    f). A score is ``(query . key + edge_query . encoded) / sqrt(c)``: queries (H, S, c), edge_queries (H, S, t + f).

    out_weights (S, k, H) are the softmax of the scores over the links of a seed, and 0 without a link. Weighted by
    them times keep (S, k, H), `out` (S, H c) sums the values, and out_edges (H, S, t + f) the encoded links.
    """

def attend_gradient(
    queries: F32,
    edge_queries: F32,
    rows: F32,
    links: I32,
    ages: F32,
    features: F32,
    times: F32,
    keep: F32,
    weights: F32,
    slopes: F32,
    edge_slopes: F32,
    out_queries: F32,
    out_edge_queries: F32,
    out_rows: F32,
    out_times: F32,
    threads: int,
) -> None:
    """Write the gradients of `attend_last`, given the gradients of its outputs.

    weights are its `out_weights`; slopes and edge_slopes have the shapes of its `out` and `out_edges`. Outputs have the
    shapes of queries, edge_queries and rows; out_times (S, 2, t) is the gradient of `times` by seed.
    """

def remember_links(
    neighbors: I32,
    neighbor_times: F64,
    neighbor_features: F32,
    counts: I64,
    sources: I32,
    targets: I32,
    times: F64,
    features: F32,
) -> None:
    """Add events to the rings of the last links of their source and of their target, in order.

    neighbors and neighbor_times (R, k), neighbor_features (R, k, f), counts (R,): the number of links of each node so
    far; link i is in column ``i % k``. sources, targets and times (n,), features (n, f).
    """
