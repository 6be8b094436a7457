"""Signatures of the kernels: the seam between Python and C++, and what `kernels/_numba*.py` implements as well.

Conventions. Arrays are C-contiguous and exactly of the type given; nothing is converted. The caller allocates every
output and owns all state. Row pointers (``indptr``) are int64, ids (features, labels, rows) int32, values float32.
Ids are valid and row pointers well formed, from 0 on: the public edge has checked them. Wrong types and shapes are
a ValueError that names the argument, and nothing is written. `threads` is explicit, and a result never depends on
it, bit for bit. Any extent may be 0.

Symbols in shapes: n points of a batch, d features, h units, L labels, a active labels, p features present.
"""

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
U64 = NDArray[np.uint64]

def isa_available() -> list[str]:
    """Levels compiled in that this CPU can run, from plain to best."""

def isa_used() -> str:
    """Return the level in use: the best available, or what SPARSENET_ISA names."""

def set_isa(name: str) -> None:
    """Use another of the levels available, in the whole process: for tests and measurements."""

def has_bf16() -> bool:
    """Say whether the level in use has instructions for products of bfloat16: elsewhere they bring no speed."""

# --- sparse batches --------------------------------------------------------------------------------------------

def csr_matmul(indptr: I64, indices: I32, data: F32, dense: F32, out: F32, threads: int) -> None:
    """Compute ``out = csr @ dense``: csr (n, d), dense (d, h), out (n, h)."""

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
    """Turn a CSR batch into postings: for each feature present, the rows that hold it and their values.

    `slots` (d,) holds -1 on entry, but for those of `before`, the features of the batch before, which may lie where
    `features` does; on return ``slots[f]`` is the position of feature f in `features`. `features` and `starts` have
    room for nnz and nnz + 1, `rows` and `values` for nnz. Features come in order of first appearance, rows ascending.
    Returns p.
    """

def take_rows(
    indptr: I64, indices: I32, data: F32, rows: I64, out_indptr: I64, out_indices: I32, out_data: F32
) -> None:
    """Gather rows of a CSR matrix: row i of `out` is row ``rows[i]``.

    rows (m,); `out_indptr` (m + 1,), which the caller fills, sums up the lengths of these rows, and `out_indices` and
    `out_data` have room for as many entries.
    """

def spread_postings(starts: I64, rows: I32, values: F32, dense_of: I32, dense: F32) -> None:
    """Write the postings of a batch, `starts` (p + 1,), that have a dense row: those of s to ``dense[dense_of[s]]``.

    dense_of (p,), below k, or -1 for features without one; dense (k, n) is replaced, zeros included.
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
    """Compute ``out = start + op(A) @ op(B)``, where A is ``a`` or ``a[a_rows]`` and op transposes if asked.

    start (m,) is added to each column of the product (m, n); None adds nothing.

    `bf16` rounds the elements of both to the nearest bfloat16, ties to even; products are summed in float32.
    """

def pair_dot(indptr: I64, ids: I32, hidden: F32, weight: F32, out: F32, threads: int) -> None:
    """Compute ``out[j] = hidden[i] @ weight[ids[j]]`` for each j of row i: hidden (n, h), weight (L, h)."""

# --- the wide path: sparse weights of each label, straight from the features -------------------------------------

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
    """For each label, sum the rows of its points and keep the ``budget[l]`` largest entries by magnitude.

    `label_indptr`, `label_points`: the points of each label (labels x points CSR). Those of label l, in ascending
    feature order, end before ``out_indices[out_ends[l]]``, and there is room for ``starts[l + 1] - starts[l]`` >=
    min(budget[l], distinct features of l). Ties keep the smaller feature. Sums are float32, in the order of the points,
    so that all backends keep the same features.
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
    """Find the wide weights that a batch uses: those of active labels whose feature is present in the batch.

    indptr (L + 1,), indices: the support of each label. `touched_indptr` (a + 1,) and `touched` (room for the
    active labels' whole support) receive positions into `indices`, ascending within a label, and `touched_slots`,
    of the same length, the slots of their features in the batch. Returns their number.
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
    """Add the wide scores of a batch to `out` (a, n): the sparse-sparse product over the batch's postings.

    Slot s has the postings ``rows[starts[s] : starts[s + 1]]``, distinct, and their `values`. A slot with many of them
    may have them in row ``dense_of[s]`` of `dense` (k, n) as well, zeros included, else ``dense_of[s]`` (p,) is -1.
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

# --- losses over a tile of logits, one row per active label, one column per point ----------------------------------

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

    A negative entry of row l counts ``negative_weights[l]``; the positive ones are the points in
    ``positive_points[positive_indptr[l] : positive_indptr[l + 1]]``, each with its entry of `positive_weights`.
    Targets are ``1 - smoothing`` and ``smoothing``. A point stands at most once among the positives of a row.
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

    ``log_expected[l]``, the log of how often the sampler is expected to include label l, is subtracted from its
    logits (the logQ correction). The target of a point puts `positive_weights` (summing to 1 over its labels, times
    ``1 - smoothing``) on its labels and spreads `smoothing` evenly over all a. A point with no positive label has
    no loss and no gradient.
    """

# --- optimizers: rows of a parameter, in place; `rows` are distinct ------------------------------------------------

def sgd_rows(value: F32, rows: I64, grads: F32, rate: float, decay: float, threads: int) -> None:
    """``value[r] -= rate * (g + decay * value[r])``; value (R, h), grads (len(rows), h)."""

def adagrad_rows(
    value: F32, squares: F32, rows: I64, grads: F32, rate: float, epsilon: float, decay: float, threads: int
) -> None:
    """With ``g += decay * value[r]``: ``squares[r] += g * g; value[r] -= rate * g / (sqrt(squares[r]) + epsilon)``."""

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
    """Lazy Adam. A row that skipped steps first lets its moments decay for them (gradient zero, no movement).

    Then the row decays, decoupled: ``value[r] -= rate * decay * value[r]``, and ``g``'s moments, bias-corrected by
    `step` (from 1), move it. ``last_step[r]``, below `step` on entry, becomes `step`.
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
    """`adam_rows` with ``grads = csr @ dense``, never in memory as a whole: csr (len(rows), n), dense (n, h)."""

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
    """Exact top-k over all labels: ``hidden @ weight.T + bias`` plus the wide scores, never an n x L matrix.

    hidden (n, h) with weight (L, h), h may be 0; bias (L,). The wide weights come inverted, by feature: wide_indptr
    (d + 1,), wide_labels ascending within a feature. `out_labels` and `out_scores` are (n, k) with k <= L, best
    first, ties to the smaller label. A score that is NaN counts, and comes out, as minus infinity.
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
    """Find for each point the c labels of the highest wide score plus bias, among those its features name.

    The index (d + 1,), by feature, may leave weights out. `fallback` holds c or more distinct labels, of which the
    first c are looked at whether a feature names them or not. `out_labels` (n, c) ascend within a row; `out_scores`
    (n, c) are their scores as far as the index knows them.
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
    """Compute the wide scores (n, c) of chosen `labels` (n, c) for each point; the weights come by label, (L + 1,)."""

def nearest_points(
    indptr: I64,
    indices: I32,
    data: F32,
    index_indptr: I64,
    index_points: I32,
    index_weights: F32,
    n_others: int,
    most: int,
    out_points: I32,
    out_products: F32,
    threads: int,
) -> None:
    """Find for each point the k of `n_others` points whose product with it is largest, of those above zero.

    The index (d + 1,), by feature, names the others that hold it, below `n_others`. `out_points` and `out_products`
    (n, k) are best first, ties to the smaller number; where there are fewer, the rest is point 0 with a product of 0.
    Where the features of a point have more than `most` entries in the index, those are left out that are weakest for
    the number of their entries; of equal ones the later.
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
    """Compute the `wanted` entries (n, c) of neighbours (n, m) times labels (m, n_labels), both sparse: `out`."""

# --- hashing: see lsh/ -------------------------------------------------------------------------------------------
# Symbols: t tables, with a power of two of buckets each; s slots. Codes are integers below the number of buckets.

def lsh_pack_signs(scores: F32, codes: U16, threads: int) -> None:
    """Pack the bits ``score >= 0`` of each table, the first highest: scores (n, t * bits), codes (t, n)."""

def lsh_bin_codes(values: F32, bins: I32, codes: U16, threads: int) -> None:
    """Hash rows of `values` (n, w) by bins (t, per table, window) of coordinates; codes (t, n).

    A bin's symbol is the position of its largest non-zero value, ties going to the earlier. A bin of zeros borrows
    the symbol of another. Window is a power of two; a table's symbols make its code, the first highest.
    """

def lsh_build_tables(codes: U16, offsets: I32, labels: I32, threads: int) -> None:
    """Sort each table by counting: codes (t, L), offsets (t, buckets + 1), labels (t, L) ascending in a bucket."""

def lsh_query_shared(
    offsets: I32, labels: I32, codes: U16, probe_limit: int, counts: I32, ids: I32, hits: I32, threads: int
) -> int:
    """Count how often labels share a bucket with n points, codes (t, n), and return how many were found.

    At most `probe_limit` labels of a bucket are looked at. `ids` and `hits` (limit,) receive the most frequent
    labels, ties to the smaller. `counts` (s, L) is all zero before and after; the work is split over its rows.
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
    """As `lsh_query_shared` for each point by itself: ids and hits (n, limit), found (n,)."""

# --- reading: see data/ ------------------------------------------------------------------------------------------

def count_marks(text: U8) -> tuple[int, int, int]:
    """Count the newlines, colons and commas of a text: a bound on the rows, features and labels it can hold."""

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

    `first_line` is the number of the text's first line in the file, `last_line` that of the last point announced.
    Row r ends before ``indices[row_ends[r]]`` and ``labels[label_ends[r]]``; ids ascend within a row. There must
    be room for a row a line, a feature a colon, a label a line and another a comma.

    Returns the rows, features and labels parsed; an error (0: none; see `sparsenet.data.explain.RowError`) and its
    line; where the offending token begins and ends in `text`; the id that came twice, if that is the error.
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
    """Parse whole lines of an svmlight file, as `parse_xmc` does; blank and comment lines are no rows.

    Feature ids lie in ``[first_feature, end_feature)`` and are stored as they are. Labels may be any finite numbers
    if `n_labels` is -1, but for digits alone of 2**53 or more, else ids below it; `one_label` asks each row for
    exactly one.
    """

# --- texts: see text/ --------------------------------------------------------------------------------------------
# Integers only: features are the same on every CPU and backend. `pages` and `entries` are the table of Unicode,
# `word_ngrams`, `char_low`, `char_high` and `bits` the rules by which texts become features.

def join_texts(texts: list[str]) -> tuple[U8, I64]:
    """Return the UTF-8 of all texts, one after another, and where each begins and the last one ends.

    Halves of surrogate pairs, which have no UTF-8, become question marks.
    """

def text_room(offsets: I64, word_ngrams: int, char_low: int, char_high: int, bits: int) -> int:
    """Return how many features texts of these sizes may have at most."""

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
    """Turn texts, UTF-8 in ``text[offsets[i] : offsets[i + 1]]``, into the slots of their features and their counts.

    Words are runs of letters, marks, digits and connectors, case folded, and apostrophes between them; a punctuation
    mark or symbol is a word of its own, and so is a letter of a script without spaces. Features are n-grams of 1 to
    `word_ngrams` words, the start and the end of the text counted as words, and n-grams of `char_low` to `char_high`
    characters inside a word with its boundaries (none if `char_high` is 0); of a word's characters the first 64 count.
    They are hashed into ``2**bits`` slots, those of characters into the upper half. What is no UTF-8 reads as U+FFFD.

    The features of text i, in order of first appearance, end before ``slots[ends[i]]``; more than 255 occurrences count
    as 255. `slots` and `counts` have the room that `text_room` says.
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
    (2 slack_i)`` by dual coordinate descent, w with the bias, x with a constant 1; y_i is 1 for points that have l
    among ``labels[label_indptr[i] : label_indptr[i + 1]]``, and `slack_i` is then ``positive_slack[l]``, else -1 and
    ``negative_slack[l]``. `squares` (n,) holds ``1 + |x_i|^2``. A label whose slacks are huge learns nothing.

    weight (n_blocks, d + 1, width), zero on entry, the last row the biases; a width of 1, 4, 8 or 16. A point that
    violates optimality by no more than half of `tolerance` rests, until those that do not are within `tolerance`, or
    have had four passes; then all are visited again. A block stops after `most_epochs` passes, long or short, or when
    in a pass over all points none violates optimality by more than `tolerance`. `epochs` (n_blocks,) receives the
    passes taken.
    """

# --- classifiers in a tree of labels: see tree/ --------------------------------------------------------------------
# A node has up to 16 children, which are nodes of the next level or, of the last level, leaves: those of node b are
# ``children[b] ... children[b + 1] - 1``, and children (b + 1,) is row pointers. Features of a point may stand in any
# order. Of equals the smaller number comes first.

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
    """Bisect sets of rows, each into parts of given sizes, by spherical 2-means.

    Set b is ``order[starts[b] : starts[b + 1]]``, distinct rows of the csr (r, d), and its first ``left[b]`` are then
    one part. From two of its rows, drawn by `seed` and b, in each round those go left whose cosine with the sum of the
    left part, less that with the right part's, is highest, until none moves or `most_rounds` are over. The rows of a
    part ascend, unless none has moved at all. A set with nothing to part, ``left[b]`` being 0 or all of it, stays.
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
    """Train a machine for each child of each node, as `dual_train` does, on the points that reach the node.

    Those of node b are ``reached[starts[b] : starts[b + 1]]``, starts (b + 1,); bit c of `belongs`, parallel to
    `reached`, says that the point belongs to child c. The slack of a point that does is ``0.5 / cost``, divided by how
    many points of the node there are for each of the child's to the power of `rarity`; that of any other is
    ``0.5 / cost_of_others``. `squares` (n,) holds ``1 + |x_i|^2``. A node's machines depend on ``seed + b`` and its own
    points alone.

    Returns the machines as `search_tree` takes them: starts (b + 1,) of the rows of each node, features and factors
    (rows,), weights (rows, 16), of which row r is to be multiplied by ``factors[r]``, and bias (b, 16). Features
    ascend within a node. Those whose weights are all smaller than `smallest`, or zero, have no row. Weights of children
    that are not there are nearly zero.
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
    """Find the k best leaves of each point, from the root down with a beam of nodes.

    A level has the arrays that `train_nodes` returns, and `children`; each has as many nodes as the one above has
    children. All nodes of the first are visited, with a score of 0. A child's score is 0.8 times that of
    its node less ``max(1 - s, 0)**3``, s being what its machine says: ``x . w`` plus the bias; minus infinity where
    that is no number. The `beam` best children of a level are visited next, of the last level the k best are found.

    `leaves` and `scores` (n, k), k at least 1, come best first; where fewer were met, -1 and minus infinity. Leaves are
    called by their `names` (n_leaves,), and of equal scores the smaller name comes first.
    """

# --- scores of texts: a model is a vocabulary and a matrix of 8-bit weights -------------------------------------------
# The vocabulary: bit ``s & 63`` of ``used[s >> 6]`` says that slot s is a feature, with the number ``ranks[s >> 6]``
# plus the bits below in that word; `weights` (d,) is what a feature counts, `log_counts` (256,) what its number of
# occurrences does, where more than 255 are 255.

def count_slots(slots: I32, texts: I32) -> None:
    """Add to ``texts[s]``, for each slot, how many texts have it: `slots` has those of texts, each once a text."""

def count_labels(ends: I64, slots: I32, counts: U8, labels: I32, used: U64, ranks: I32, first: int, out: I32) -> None:
    """Add to ``out[f - first, l]``, for features from `first` on, how many texts of label l have feature f.

    Rows are those of `text_features`, of texts with one label each; `out` is of shape (n_features, n_labels).
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
    """Turn the rows of `text_features` into points: numbers of features and ``log_counts[count] * weights[feature]``.

    Slots outside of the vocabulary are dropped. The features of words, and if there are any by the rules
    (`char_high` > 0) those of characters, are each scaled to the same length, so that the point has length 1.
    `rows` and `values` have the size of `slots`; row i ends before ``out_ends[i]``. Bit-identical everywhere.
    """

class TextScorer:
    """A model of texts; it refers to the arrays given, which must not change."""

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
        """Take a model: matrix (d, c), of which row f is to be multiplied by ``factors[f]``; bias (c,).

        With `indptr` (d + 1,), matrix (w,) holds of row f only ``matrix[indptr[f] : indptr[f + 1]]``, and `columns`
        (w,) says of which columns.
        """
    def scores(self, text: U8, offsets: I64, out: F32, threads: int) -> None:
        """Score texts, UTF-8 in ``text[offsets[i] : offsets[i + 1]]``: out (n, c)."""
    def best(self, text: str) -> tuple[int, float]:
        """Return the best column for one text and its score; of a single column, 1 where it is above 0, else 0.

        A text that UTF-8 cannot express is a UnicodeEncodeError.
        """
