"""A scikit-learn pipeline that ranks labels, explains and saves like the classifier at its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self, TypeVar

import sklearn
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sparsenet import storage
from sparsenet.core.effects import PointExplanation
from sparsenet.estimators.blend import BlendClassifier
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.fitted_html import FittedHtmlMixin
from sparsenet.estimators.saving import SavingMixin
from sparsenet.estimators.step_arrays import pack_step, unpack_step
from sparsenet.estimators.table import TableClassifier
from sparsenet.estimators.text import TextClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.kernels.types import F32, I32, Arrays
from sparsenet.storage.format import ModelError
from sparsenet.storage.parts import check_kind, pack_part, unpack_part

#: The kind in the manifest.
KIND = "Pipeline"
#: Classifiers that may end a saved pipeline.
FINAL: dict[str, Any] = {
    kind.__name__: kind
    for kind in (BlendClassifier, ExtremeClassifier, TableClassifier, TextClassifier, TreeClassifier)
}


Method = TypeVar("Method", bound=Callable[..., Any])


def _final_has(name: str) -> Callable[[Method], Method]:
    """Offer a method if the last step has it."""

    def check(pipeline: Pipeline) -> bool:
        getattr(pipeline._final_estimator, name)  # an AttributeError names the class
        return True

    offered: Callable[[Method], Method] = available_if(check)
    return offered


class ClassifierPipeline(FittedHtmlMixin, Pipeline):  # type: ignore[misc]  # scikit-learn has no types
    """A pipeline that passes `topk` and the like to its last step; `sparsenet.make_pipeline` makes one.

    `save` works without pickle if each step is one of ours (a classifier at the end, `TextFeatures` before it), or a
    common transformer of scikit-learn with plain parameters: vectorizers of texts and dicts, scalers, encoders,
    imputers, PCA, TruncatedSVD, `FeatureUnion` and `ColumnTransformer`.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsenet import ClassifierPipeline, TreeClassifier
    >>> model = ClassifierPipeline([("scale", StandardScaler()), ("tree", TreeClassifier(random_state=0))])
    >>> model.fit([[1.0], [2.0], [8.0], [9.0]], ["low", "low", "high", "high"]).topk([[1.5]], k=1)[0].tolist()
    [['low']]
    """

    @_final_has("topk")
    def topk(self, X: Any, k: int = 5, **restrictions: Any) -> tuple[NDArray[Any], F32]:
        """Transform X, and return `topk` of the last step; takes `exclude` and `only`."""
        found: tuple[NDArray[Any], F32] = self._last.topk(self._transformed(X), k, **restrictions)
        return found

    @_final_has("topk_numbers")
    def topk_numbers(self, X: Any, k: int = 5, **restrictions: Any) -> tuple[I32, F32]:
        """Transform X, and return `topk_numbers` of the last step; takes `exclude` and `only`."""
        found: tuple[I32, F32] = self._last.topk_numbers(self._transformed(X), k, **restrictions)
        return found

    @_final_has("predict_topk")
    def predict_topk(self, X: Any, k: int = 5, **restrictions: Any) -> csr_array:
        """Transform X, and return `predict_topk` of the last step; takes `exclude` and `only`."""
        found: csr_array = self._last.predict_topk(self._transformed(X), k, **restrictions)
        return found

    @_final_has("indicator")
    def indicator(self, y: Any) -> csr_array:
        """Convert y to an indicator for `sparsenet.metrics`."""
        found: csr_array = self._last.indicator(y)
        return found

    @_final_has("explain")
    def explain(self, X: Any, label: Any = None) -> Any:
        """Transform X, one row, and explain the score of a label; features have the names that the steps give them."""
        found = self._last.explain(self._transformed(X), label)
        names = self._names()
        if names is None or not isinstance(found, PointExplanation):
            return found
        return replace(found, parts=[replace(part, name=str(names[part.column])) for part in found.parts])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a directory as safetensors and a manifest with checksums, without pickle; `sparsenet.load` loads it.

        An error names the first step that cannot be saved so.
        """
        check_is_fitted(self)
        storage.save(path, *self._pack())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved pipeline; raise ModelError with the reason if it is damaged or of another kind."""
        return storage.load_as(path, cls._unpack)

    @property
    def _last(self) -> Any:
        check_is_fitted(self)
        return self.steps[-1][1]

    def _described(self) -> Any:
        return self.steps[-1][1]

    def _transformed(self, X: Any) -> Any:
        for _, _, step in self._iter(with_final=False):
            X = step.transform(X)
        return X

    def _names(self) -> Any:
        """Return the names of the features of the last step, or None if a step gives none."""
        try:
            return self[:-1].get_feature_names_out() if len(self.steps) > 1 else None
        except (AttributeError, ValueError, NotImplementedError):
            return None

    def _pack(self) -> tuple[Arrays, dict[str, Any]]:
        name, last = self.steps[-1]
        kind = type(last).__name__
        if FINAL.get(kind) is not type(last):
            raise ValueError(
                f"step {name!r} is a {kind}, and only a pipeline that ends in {', '.join(FINAL)} can be saved"
            )
        packed = last._pack(small=False) if isinstance(last, SavingMixin) else last._pack(last.fitted_)
        arrays, steps = pack_part("last", packed[0]), []
        for number, (own, transformer) in enumerate(self.steps[:-1]):
            if transformer is None or transformer == "passthrough":
                steps.append([own, None])
                continue
            found, about = pack_step(own, transformer)
            arrays |= pack_part(f"step{number}", found)
            steps.append([own, about])
        about_all = {"model": KIND, "steps": steps, "name": name, "last": packed[1], "sklearn": sklearn.__version__}
        return arrays, about_all

    @classmethod
    def _unpack(cls, arrays: Arrays, metadata: dict[str, Any]) -> Self:
        check_kind(metadata, KIND)
        kind = metadata["last"]["model"]
        if kind not in FINAL:
            raise ModelError(f"the last step is a {kind!r}, not one of {', '.join(FINAL)}")
        steps: list[tuple[str, Any]] = []
        for number, (name, about) in enumerate(metadata["steps"]):
            own = unpack_part(f"step{number}", arrays)
            steps.append((name, "passthrough" if about is None else unpack_step(own, about, metadata["sklearn"])))
        last = FINAL[kind]._unpack(unpack_part("last", arrays), metadata["last"])
        return cls([*steps, (metadata["name"], last)])


def make_pipeline(*steps: Any, memory: Any = None, verbose: bool = False) -> ClassifierPipeline:
    """Make a pipeline whose last step is a classifier of sparsenet.

    It is scikit-learn's pipeline, and also has the classifier's `topk`, `topk_numbers`, `predict_topk`, `indicator`,
    `explain`, `save` and `load`. `sparsenet.load` loads a saved one.

    Parameters
    ----------
    *steps : transformers, and a classifier
    memory, verbose : as for `sklearn.pipeline.make_pipeline`

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sparsenet import BlendClassifier, load, make_pipeline
    >>> texts = ["sort a list", "sort by key", "fit a line", "fit a curve"]
    >>> tagger = make_pipeline(TfidfVectorizer(), BlendClassifier(network="drop", random_state=0))
    >>> tagger = tagger.fit(texts, ["sort", "sort", "fit", "fit"])
    >>> tagger.topk(["sort this"], k=1, only=["sort", "fit"])[0].tolist()
    [['sort']]
    >>> directory = tempfile.mkdtemp()
    >>> tagger.save(directory)
    >>> load(directory).predict(["a curve"]).tolist()
    ['fit']
    """
    if not steps:
        raise ValueError("make_pipeline needs at least one step: pass transformers and a classifier")
    named = sklearn_pipeline(*steps).steps
    return ClassifierPipeline(named, memory=memory, verbose=verbose)
