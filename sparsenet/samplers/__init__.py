"""Samplers: which labels stand in for all the others as negatives of a batch.

A sampler draws distinct labels without regard to the batch's own, which the caller adds. Everything random comes from
the generator that is passed in, and `state` holds all that draws depend on besides, so that a resumed run equals an
uninterrupted one.
"""

from sparsenet.samplers.base import Sampler, Samples
from sparsenet.samplers.hashed import LSHSampler
from sparsenet.samplers.plain import AllSampler, FrequencySampler, RandomSampler

__all__ = ["AllSampler", "FrequencySampler", "LSHSampler", "RandomSampler", "Sampler", "Samples"]
