"""Samplers: which labels stand in for all the others as negatives of a batch.

A sampler draws distinct labels without regard to the batch's own, which the caller adds. Everything random comes from
the generator that is passed in, and `state` holds all that draws depend on besides, so that a resumed run equals an
uninterrupted one.
"""

from sparsenet.engines.network.samplers.hashed import LSHSampler
from sparsenet.engines.network.samplers.plain import AllSampler, FrequencySampler, RandomSampler
from sparsenet.engines.network.samplers.sampler import Sampler, Samples

__all__ = ["AllSampler", "FrequencySampler", "LSHSampler", "RandomSampler", "Sampler", "Samples"]
