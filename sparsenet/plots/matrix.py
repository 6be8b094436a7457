"""The confusion matrix of the most confused labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from sparsenet.kernels.types import F64
from sparsenet.plots.best_answers import BestAnswers
from sparsenet.plots.style import INK, RIGHT, WRONG, titled

#: Longer names of labels are cut to this length.
LONGEST_NAME = 28
#: Errors with at least this share of a row have the strongest colour, so that few errors do not look like many.
LARGE_ERROR = 0.3


def draw_confusion(axes: Any, answers: BestAnswers, most: int) -> None:
    """Draw the best labels of the points of each true label."""
    counts = answers.confusions()
    chosen = _most_confused(counts, most)
    totals = np.asarray(counts.sum(axis=1)).reshape(-1)[chosen]
    shares = counts[chosen][:, chosen].toarray() / np.maximum(totals, 1)[:, None]
    names = [_short(answers.names[number]) for number in chosen]
    columns = list(names)
    if len(chosen) < len(answers.names):
        rest = np.where(totals > 0, 1 - shares.sum(axis=1), 0)
        shares = np.hstack([shares, rest[:, None]])
        columns.append("any other")
    _heat(axes, shares)
    slant: Any = {} if max(map(len, columns)) <= 4 else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(columns)), columns, parse_math=False, **slant)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_xlabel("best label")
    axes.set_ylabel("true label")
    of = f"the {len(chosen)} of {len(answers.names):,} labels confused most; " if len(columns) > len(names) else ""
    right = f"{100 * answers.hits.mean():.1f} % of all are right"
    n_unknown = answers.n_without_label
    unknown = (
        f"\n{n_unknown:,} of {len(answers.best):,} have no label that the model knows, and no row" if n_unknown else ""
    )
    titled(axes, "Confusions", f"{of}% of each row; {right}{unknown}")


def _most_confused(counts: Any, most: int) -> NDArray[np.int64]:
    """Return the most confused labels, similar ones next to each other, or all labels if there are few."""
    if counts.shape[0] <= most:
        return np.arange(counts.shape[0])
    both = sparse.triu(counts + counts.T, k=1).tocoo()
    order = np.lexsort((both.col, both.row, -both.data))
    pairs = np.column_stack((both.row, both.col))[order].reshape(-1)
    busiest = np.argsort(
        -np.asarray(counts.sum(axis=1)).reshape(-1), kind="stable"
    )  # used if too few labels are confused
    chosen = np.array(list(dict.fromkeys([*pairs.tolist(), *busiest.tolist()]))[:most])
    near = counts[chosen][:, chosen].toarray()
    near = near + near.T
    np.fill_diagonal(near, 0)
    tree = linkage(squareform(1 - near / max(near.max(), 1), checks=False), "average", optimal_ordering=True)
    return np.asarray(chosen[leaves_list(tree)])


def _heat(axes: Any, shares: F64) -> None:
    """Colour hits and errors on separate scales, since errors would be too pale on one scale."""
    from matplotlib.colors import LinearSegmentedColormap

    diagonal = np.eye(*shares.shape, dtype=np.bool_)
    largest = max(float(shares[~diagonal].max(initial=0)), LARGE_ERROR)
    for mask, colour, top in ((diagonal, RIGHT, 1.0), (~diagonal, WRONG, largest)):
        scale = LinearSegmentedColormap.from_list("scale", ["#ffffff", colour])
        axes.imshow(np.ma.masked_array(shares, ~mask), cmap=scale, vmin=0, vmax=top, aspect="equal")
    for (row, column), share in np.ndenumerate(shares):
        if share >= 0.005:
            dark = share > 0.55 * (1.0 if row == column else largest)
            axes.text(
                column, row, f"{100 * share:.0f}", ha="center", va="center", size=8, color="white" if dark else INK
            )
    axes.set_xticks(np.arange(-0.5, shares.shape[1]), minor=True)
    axes.set_yticks(np.arange(-0.5, shares.shape[0]), minor=True)
    axes.grid(which="minor", color="#e6e6e6", linewidth=0.6)
    axes.tick_params(which="both", length=0, labelsize=8.5)
    axes.spines[:].set_visible(False)


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
