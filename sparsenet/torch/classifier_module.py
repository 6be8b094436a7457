"""`as_module`: a fitted `ExtremeClassifier` as a PyTorch module."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from sparsenet.core.rows import Rows, as_matrix
from sparsenet.engines.network.layers import Activation
from sparsenet.engines.network.model import Network
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.torch.extreme_head import ExtremeHead, TopLabels

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "linear": nn.Identity}


def as_module(classifier: ExtremeClassifier, *, trainable: bool = False) -> ClassifierModule:
    """Return a copy of a fitted `ExtremeClassifier` with hidden units as a PyTorch module.

    With `trainable`, a PyTorch optimizer trains the encoder, and the head trains itself. The classifier itself does not
    change.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsenet import ExtremeClassifier
    >>> from sparsenet.torch import as_module
    >>> X, names = np.eye(4, dtype=np.float32), ["ant", "bee", "cat", "dog"]
    >>> classifier = ExtremeClassifier(hidden=8, epochs=50, random_state=0).fit(X, names)
    >>> module = as_module(classifier)
    >>> best = module.topk(X, k=1).labels.ravel()
    >>> classifier.classes_[best].tolist()
    ['ant', 'bee', 'cat', 'dog']
    """
    if not isinstance(classifier, ExtremeClassifier):
        raise TypeError(f"classifier must be an ExtremeClassifier, got {type(classifier).__name__}")
    check_is_fitted(classifier)
    return ClassifierModule(classifier, trainable=trainable)


class ClassifierModule(nn.Module):
    """A fitted network: scaled points, an encoder and a head.

    Attributes
    ----------
    encoder : NetworkEncoder
        The layers below the output.
    head : ExtremeHead
        The output layer.
    classes : ndarray of shape (n_labels,)
        The name of each label number.
    """

    def __init__(self, classifier: ExtremeClassifier, *, trainable: bool) -> None:
        super().__init__()
        fitted = classifier.fitted_
        network: Network = fitted.network
        if network.input is None:
            raise ValueError("the classifier has no hidden units: fit it with hidden=256, for example")
        self.encoder = NetworkEncoder(network)
        output = deepcopy(network.output)
        for parameter in output.parameters():
            parameter.drop_state()
        self.head = ExtremeHead.from_output(output, classifier.label_counts_, n_jobs=classifier.n_threads_)
        self.classes: NDArray[Any] = classifier.classes_
        self.trainable, self._scaling = trainable, fitted.scaling
        for weight in self.encoder.parameters():
            weight.requires_grad_(trainable)

    def points(self, X: Any) -> sparse.csr_array:
        """Scale X, (n, d) sparse or dense, as `fit` did."""
        matrix: Any = X if sparse.issparse(X) else np.asarray(X, np.float32)
        width = self.encoder.features.num_embeddings
        if matrix.ndim != 2 or matrix.shape[1] != width:
            raise ValueError(f"X must have the shape (n, {width}), got {matrix.shape}")
        rows: Rows = self._scaling.apply(matrix.tocsr() if sparse.issparse(X) else matrix)
        return as_matrix(rows)

    def hidden(self, X: Any) -> Tensor:
        """Return the hidden states of points."""
        return self.encoder(self.points(X))

    def forward(self, X: Any, labels: Any) -> Tensor:
        """Return the mean loss of points with label numbers, in the forms that `ExtremeHead` takes.

        It has a gradient if the module is trainable.
        """
        points = self.points(X)
        with torch.set_grad_enabled(self.trainable and torch.is_grad_enabled()):
            return self.head(self.encoder(points), labels, self._features(points))

    def topk(self, X: Any, k: int = 5) -> TopLabels:
        """Return the `k` best labels of each point and their scores, best first."""
        points = self.points(X)
        with torch.no_grad():
            found: TopLabels = self.head.topk(self.encoder(points), k, self._features(points))
        return found

    def _features(self, points: sparse.csr_array) -> sparse.csr_array | None:
        return points if self.head.has_wide_path else None


class NetworkEncoder(nn.Module):
    """The layers below the output of a network: a sum of embeddings of the features, then dense layers."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        first, *others = network.below()
        self.features = nn.EmbeddingBag(*first.weight.shape, mode="sum", include_last_offset=True, sparse=True)
        self.bias = nn.Parameter(torch.empty(first.n_outputs))
        linears = [nn.Linear(layer.weight.shape[1], layer.n_outputs) for layer in others]
        self.layers = nn.ModuleList(linears)
        self.activations = nn.ModuleList(_activation(layer.activation) for layer in network.below())
        with torch.no_grad():
            self.features.weight.copy_(torch.from_numpy(first.weight.value))
            self.bias.copy_(torch.from_numpy(first.bias.value[0]))
            for linear, layer in zip(linears, others, strict=True):
                linear.weight.copy_(torch.from_numpy(layer.weight.value))
                linear.bias.copy_(torch.from_numpy(layer.bias.value[0]))

    def forward(self, points: sparse.csr_array) -> Tensor:
        """Map scaled points to hidden states."""
        device = self.bias.device
        ids, starts = (torch.from_numpy(array.astype(np.int64)).to(device) for array in (points.indices, points.indptr))
        values = torch.from_numpy(points.data).to(device, self.bias.dtype)
        units = self.activations[0](self.features(ids, starts, per_sample_weights=values) + self.bias)
        for linear, activation in zip(self.layers, self.activations[1:], strict=True):
            units = activation(linear(units))
        return units


def _activation(activation: Activation) -> nn.Module:
    return nn.Sequential(ACTIVATIONS[activation.name](), nn.Dropout(activation.dropout))
