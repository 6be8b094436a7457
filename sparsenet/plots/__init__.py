"""Pictures of how good a classifier is: confusions, calibration, learning and training curves.

They need matplotlib, the extra ``plot``, which is imported when the first one is drawn. Each function returns a
`matplotlib.figure.Figure`, which a notebook shows and ``savefig`` writes; nothing is drawn on a screen, and no state of
`matplotlib.pyplot` is touched.
"""

from sparsenet.plots.answers import Answers
from sparsenet.plots.curves import learning_curve, training_curve
from sparsenet.plots.figures import calibration, confusion, evaluation

__all__ = ["Answers", "calibration", "confusion", "evaluation", "learning_curve", "training_curve"]
