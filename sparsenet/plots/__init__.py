"""Pictures of the quality of a classifier: confusions, calibration, learning and training curves.

They need matplotlib, the extra ``plot``, which is imported for the first picture. Each function returns a
`matplotlib.figure.Figure`, which a notebook shows and ``savefig`` writes. The functions open no window, and leave the
state of `matplotlib.pyplot` alone.
"""

from sparsenet.plots.best_answers import BestAnswers as Answers
from sparsenet.plots.curves import learning_curve, training_curve
from sparsenet.plots.figures import calibration, confusion, evaluation

__all__ = ["Answers", "calibration", "confusion", "evaluation", "learning_curve", "training_curve"]
