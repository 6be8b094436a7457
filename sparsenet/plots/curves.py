"""Pictures of learning: the score with more points, and the loss from epoch to epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sparsenet.kernels.types import F64
from sparsenet.plots.style import FAINT, RIGHT, titled
from sparsenet.plots.style import figure as new_figure


def learning_curve(
    model: Any,
    X: Any,
    y: Any,
    test: tuple[Any, Any],
    *,
    shares: Sequence[float] = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0),
    random_state: int = 0,
) -> Any:
    """Draw the score against the number of training points, which shows whether more points would help.

    Parameters
    ----------
    model : TextClassifier or ExtremeClassifier
        A clone of it is trained for each share.
    X, y : training points and their labels
    test : (X, y)
        Test points, none of them among the training points.
    shares : sequence of float
        Shares of the training points. Larger parts contain the smaller ones.
    random_state : int
        Seed of the order of the points.

    Returns
    -------
    matplotlib.figure.Figure
    """
    sizes, learnt, unseen = _scores_by_size(model, X, y, test, shares, random_state)
    figure = new_figure(6.4, 4.2)
    axes = figure.add_subplot(xlabel="training points", ylabel="best label right, %")
    _curve(axes, sizes, 100 * learnt, FAINT, "the same points")
    _curve(axes, sizes, 100 * unseen, RIGHT, "new points")
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.xaxis.minorticks_off()
    axes.margins(x=0.06, y=0.08)
    titled(axes, "Learning curve", f"{100 * unseen[-1]:.1f} % of new points right after {sizes[-1]:,}")
    return figure


def training_curve(history: Sequence[dict[str, float]]) -> Any:
    """Draw the loss of each epoch in a model's ``history_``, and P@1 if there was validation data.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not history:
        raise ValueError("history holds no epoch, so there is nothing to draw")
    epochs = [record["epoch"] for record in history]
    figure = new_figure(6.4, 4.2)
    axes = figure.add_subplot(xlabel="epoch")
    axes.plot(epochs, [record["loss"] for record in history], "o-", color=FAINT, markersize=4)
    axes.set_ylabel("training loss", color="#6a6a6a")
    axes.set_ylim(bottom=0)
    titled(axes, "Training", f"{len(history)} epoch{'s' * (len(history) > 1)}")
    if "P@1" in history[0]:
        right = axes.twinx()
        right.spines["top"].set_visible(False)
        right.plot(epochs, [100 * record["P@1"] for record in history], "o-", color=RIGHT, markersize=4)
        right.set_ylabel("P@1 on validation points, %", color=RIGHT)
        right.set_ylim(bottom=0)
    return figure


def _scores_by_size(
    model: Any, X: Any, y: Any, test: tuple[Any, Any], shares: Sequence[float], seed: int
) -> tuple[NDArray[np.int64], F64, F64]:
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if not shares or not all(0 < share <= 1 for share in shares):
        raise ValueError(f"shares must be numbers above 0, at most 1, got {shares!r}")
    order = np.random.default_rng(seed).permutation(n)
    sizes = np.unique([max(2, round(share * n)) for share in shares])
    learnt, unseen = np.empty(len(sizes)), np.empty(len(sizes))
    for i, size in enumerate(sizes):
        part, labels = _take(X, order[:size]), _take(y, order[:size])
        fitted = clone(model).fit(part, labels)
        learnt[i], unseen[i] = fitted.score(part, labels), fitted.score(*test)
    return sizes, learnt, unseen


def _take(values: Any, rows: NDArray[np.int64]) -> Any:
    """Gather rows of an array, a matrix, a column or a list."""
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return values[rows] if hasattr(values, "shape") else [values[row] for row in rows]


def _curve(axes: Any, x: NDArray[np.int64], y: F64, colour: str, name: str) -> None:
    axes.plot(x, y, "o-", color=colour, markersize=5)
    axes.annotate(name, (x[-1], y[-1]), (0, 8), textcoords="offset points", ha="right", color=colour)
