"""Calibration: the fraction of right best labels against their probability."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.types import F64
from sparsenet.plots.best_answers import BestAnswers
from sparsenet.plots.style import FAINT, RIGHT, titled


def draw_calibration(panels: Any, answers: BestAnswers, bins: int) -> None:
    """Draw the fraction of right labels for each interval of probability, and below it the number of points."""
    axes, below = panels
    edges = np.linspace(0, 1, bins + 1)
    number = np.clip(np.searchsorted(edges, answers.probability, side="left") - 1, 0, bins - 1)
    counts = np.bincount(number, minlength=bins)
    shown = counts > 0
    probability, right = (
        np.bincount(number, values, minlength=bins)[shown] / counts[shown]
        for values in (answers.probability, answers.hits)
    )
    low, high = _wilson(right, counts[shown])
    error = float(np.sum(np.abs(probability - right) * counts[shown]) / counts.sum())
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axes.vlines(probability, low, high, color=RIGHT, linewidth=1.6, alpha=0.45)
    axes.plot(probability, right, "o-", color=RIGHT, markersize=5.5, linewidth=1.4, clip_on=False)
    axes.set(ylabel="share of right labels", xlim=(0, 1), ylim=(0, 1.02))
    below.bar(edges[:-1], counts, np.diff(edges), align="edge", color=RIGHT, alpha=0.35, edgecolor="white")
    below.set(xlabel="probability of the best label", ylabel="points")
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    mean_probability, share_right = answers.probability.mean(), answers.hits.mean()
    means = f"mean probability {100 * mean_probability:.1f} %, right {100 * share_right:.1f} %"
    titled(axes, "Calibration", f"{means}; expected calibration error {100 * error:.1f} %")


def _wilson(share: F64, count: NDArray[np.int64]) -> tuple[F64, F64]:
    """Return the 95 % Wilson interval of a share."""
    z2 = 1.96**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    reach = np.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return middle - reach, middle + reach
