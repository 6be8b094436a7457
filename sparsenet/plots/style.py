"""Style of all pictures: colours, titles, and figures without a window."""

from __future__ import annotations

from typing import Any

RIGHT, WRONG, INK, FAINT = "#1f6f8b", "#d1495b", "#222222", "#9a9a9a"


def titled(axes: Any, title: str, words: str) -> None:
    """Give a picture its title and one or two lines below it."""
    axes.set_title(words, loc="left", fontsize=8.5, color="#555555")
    above = 20 + 11 * words.count("\n")
    axes.annotate(
        title, (0, 1), (0, above), xycoords="axes fraction", textcoords="offset points", weight="bold", color=INK
    )
    axes.spines[["top", "right"]].set_visible(False)


def figure(width: float, height: float) -> Any:
    """Make a figure without a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'sparsenet[plot]'") from error
    return Figure(figsize=(width, height), layout="constrained", dpi=150)
