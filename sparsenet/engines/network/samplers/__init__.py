"""Negative samplers: choose the labels that act as negatives of a batch.

A sampler draws distinct labels independently of the batch's true labels, which the caller adds. All randomness comes
from the generator passed in, and `state` holds everything else that a draw depends on. A resumed run is therefore
equal to an uninterrupted one.
"""

from sparsenet.engines.network.samplers.hashed import LSHSampler
from sparsenet.engines.network.samplers.plain import AllSampler, FrequencySampler, RandomSampler
from sparsenet.engines.network.samplers.sampler import Sampler, Samples

__all__ = ["AllSampler", "FrequencySampler", "LSHSampler", "RandomSampler", "Sampler", "Samples"]
