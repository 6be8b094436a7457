"""Pictures of the answers of a fitted classifier: confusions and calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsenet.core.validation import integer
from sparsenet.plots.best_answers import BestAnswers
from sparsenet.plots.matrix import draw_confusion
from sparsenet.plots.reliability import draw_calibration
from sparsenet.plots.style import figure as new_figure


def confusion(model: Any, X: Any, y: Any, *, most: int = 20) -> Any:
    """Draw the confusion matrix.

    Parameters
    ----------
    model : fitted classifier of sparsenet, or a Pipeline that ends in one
    X, y : points that training has not seen, and the one label of each
    most : int
        Number of labels in the picture. It shows the most confused labels, similar ones next to each other.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from sparsenet import TextClassifier, plots
    >>> texts, labels = ["a lovely film", "lovely", "a dull film", "dull and long"], ["good", "good", "bad", "bad"]
    >>> model = TextClassifier(random_state=0).fit(texts, labels)
    >>> figure = plots.confusion(model, ["how lovely", "how dull"], ["good", "bad"])
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['best label']
    """
    answers, most = BestAnswers.of(model, X, y), integer("most", most, 2)
    size = 2.6 + 0.42 * min(most, len(answers.names))
    figure = new_figure(size + 1, size)
    draw_confusion(figure.add_subplot(), answers, most)
    return figure


def calibration(model: Any, X: Any, y: Any, *, bins: int = 10) -> Any:
    """Draw the fraction of right best labels against their probability.

    Parameters
    ----------
    model : fitted classifier of sparsenet, or a Pipeline that ends in one
    X, y : points that training has not seen, and their labels, one or several each
    bins : int
        Number of probability intervals. Vertical bars are 95 % Wilson intervals.

    Returns
    -------
    matplotlib.figure.Figure
    """
    answers, bins = BestAnswers.of(model, X, y), integer("bins", bins, 1)
    figure = new_figure(5.2, 5.8)
    draw_calibration(figure.subplots(2, 1, sharex=True, height_ratios=(4, 1)), answers, bins)
    return figure


def evaluation(answers: BestAnswers, *, most: int = 20, bins: int = 10) -> Any:
    """Draw calibration and, if each point has one label, confusions. `sparsenet evaluate --plot` saves this picture."""
    size = max(5.6, 2.6 + 0.42 * min(most, len(answers.names))) if answers.exclusive else 5.8
    figure = new_figure(5.2 + (size + 1) * answers.exclusive, size)
    parts = figure.subfigures(1, 1 + answers.exclusive, width_ratios=(5.2, size + 1)[: 1 + answers.exclusive])
    left, *right = np.atleast_1d(parts)
    draw_calibration(left.subplots(2, 1, sharex=True, height_ratios=(4, 1)), answers, bins)
    for part in right:
        draw_confusion(part.add_subplot(), answers, most)
    return figure
