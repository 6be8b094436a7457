"""Ranking metrics of extreme classification: P@k, nDCG@k, PSP@k, recall@k, and micro and macro F1.

Predictions come in either of two forms: a sparse (n, L) matrix of scores, as ``predict_topk`` returns it, or
a dense (n, k) array of label ids, best first, where -1 stands for "none". The truth is a sparse (n, L) matrix
whose nonzero entries are the labels of a point. Nothing here is ever dense in L.

Conventions, those of the extreme classification repository's scripts:

* Scores rank from high to low; equal scores rank the smaller label first. A stored zero is a score like any
  other; an entry that is not stored was not predicted, and never counts as a hit.
* Every point counts in the mean. One without a true label scores 0 in P@k, nDCG@k and recall@k.
* A point with fewer than k predictions is measured on those it has; P@k still divides by k.
* PSP@k is the sum over all points of the inverse propensities that were hit, divided by the largest sum that
  any prediction could have reached; it is 0 if there is no true label at all.
"""

from sparsenet.metrics.measures import (
    evaluate,
    macro_f1,
    micro_f1,
    ndcg_at_k,
    precision_at_k,
    propensities,
    propensities_from_counts,
    psp_at_k,
    recall_at_k,
)
from sparsenet.metrics.ranking import top_labels

__all__ = [
    "evaluate",
    "macro_f1",
    "micro_f1",
    "ndcg_at_k",
    "precision_at_k",
    "propensities",
    "propensities_from_counts",
    "psp_at_k",
    "recall_at_k",
    "top_labels",
]
