"""Live predictions from streams of events: who, what and when. Nothing else in sparsenet imports this package."""

from sparsenet.temporal.graph.link_predictor import TemporalLinkPredictor
from sparsenet.temporal.ranking.next_item import NextItem

__all__ = ["NextItem", "TemporalLinkPredictor"]
