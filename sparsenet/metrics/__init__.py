"""Ranking metrics: P@k, nDCG@k, PSP@k, recall@k and MRR@k; F1; coverage and popularity bias of recommendations.

Predictions have one of two forms: a sparse (n, L) matrix of scores, as ``predict_topk`` returns it, or a dense (n, k)
array of label ids, best first, with -1 for "none". The truth is a sparse (n, L) matrix whose nonzero entries are the
labels of a point. No array here is dense in L.

The conventions are the ones of the scripts of the extreme classification repository:

* Scores rank from high to low. Among equal scores the smaller label comes first. A stored zero is a score like any
  other. An entry that is not stored was not predicted, and never counts as a hit.
* Every point counts in the mean. A point without a true label scores 0 in P@k, nDCG@k and recall@k.
* With fewer than k predictions for a point, the missing ones count as wrong; P@k still divides by k.
* PSP@k is the sum over all points of the inverse propensities of the hits, divided by the largest sum that any
  prediction could reach. It is 0 if there is no true label at all.
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
from sparsenet.metrics.recommendation import coverage_at_k, mrr_at_k, popularity_bias_at_k

__all__ = [
    "coverage_at_k",
    "evaluate",
    "macro_f1",
    "micro_f1",
    "mrr_at_k",
    "ndcg_at_k",
    "popularity_bias_at_k",
    "precision_at_k",
    "propensities",
    "propensities_from_counts",
    "psp_at_k",
    "recall_at_k",
    "top_labels",
]
