"""Memory of training and answers: processed in parts, within the limit."""

from __future__ import annotations

import pickle
import re
import tracemalloc
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from sparsenet import TextClassifier, kernels
from sparsenet.core import memory
from sparsenet.core.rows import Rows
from sparsenet.core.spilling import Spill
from sparsenet.engines.linear import linear
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.measuring import measure_and_learn
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.linear.text_holdout import TextHoldout, draw_holdout
from sparsenet.engines.text.fit_text import fit_network
from sparsenet.engines.text.text_answers import _largest
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.featuriser import FeatureRules, extract
from sparsenet.features.text.vocabulary import WEIGHTING, Vocabulary, WeightingRules, _groups
from sparsenet.selection.turns import Turns
from tests.support.texts import planted


def labelled(kind: str) -> tuple[list[str], Rows]:
    """Texts with one label each, or with none to two."""
    texts, names = planted(300)
    number = {name: i for i, name in enumerate(sorted(set(names)))}
    lists = [[number[name]] for name in names]
    if kind == "several":
        lists = [[*own, (own[0] + 1) % 3][: i % 3] for i, own in enumerate(lists)]
    lengths = np.array([len(own) for own in lists])
    ids = np.array([label for own in lists for label in sorted(own)], np.int32)
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return texts, Rows(indptr, ids, np.ones(len(ids), np.float32), 3)


@pytest.mark.parametrize("kind", ["one", "several"])
def test_weighs_features_in_groups(kind):
    texts, labels = labelled(kind)
    rules = FeatureRules(bits=14)
    rows = extract(*kernels.join_texts(texts), rules, 1)
    expected = Vocabulary.learn(rules, rows, labels).weights
    rows = replace(rows, part_features=999)
    assert len(list(rows.parts())) > 2
    for weighting in (WeightingRules(pairs_at_a_time=500), WeightingRules(pairs_at_a_time=500, max_cells=0)):
        found = Vocabulary.learn(rules, rows, labels, weighting=weighting)
        np.testing.assert_array_equal(found.weights, expected)


@pytest.mark.parametrize("kind", ["one", "several"])
def test_weights_follow_their_definition(kind):
    texts, labels = labelled(kind)
    rules = FeatureRules(bits=14)
    rows = extract(*kernels.join_texts(texts), rules, 1)
    words = Vocabulary.learn(rules, rows, labels)
    of_text = [set(labels.indices[labels.indptr[i] : labels.indptr[i + 1]].tolist()) for i in range(300)]
    prior = np.bincount(labels.indices, minlength=3) / len(labels.indices)
    has = np.zeros((300, 1 << 14), bool)
    has[np.repeat(np.arange(300), np.diff(rows.indptr)), rows.slots] = True
    for feature in range(0, len(words), 37):
        own = np.flatnonzero(has[:, words.slots[feature]])
        counts = np.array([sum(label in of_text[i] for i in own) for label in range(3)])
        counts = np.maximum(counts - np.maximum(1 - 3 * prior, 0) * (1 - prior), 0)  # rare labels are discounted
        after = (counts + WEIGHTING.prior_texts * prior) / (counts.sum() + WEIGHTING.prior_texts)
        divergence = np.sum(after * np.log(after / prior))
        expected = (np.log(301 / (1 + len(own))) + 1) * max(divergence, 0) ** 0.25
        assert words.weights[feature] == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("word_ngrams", [1, 2, 3])
@pytest.mark.parametrize(("n_words", "power"), [(0, 0), (1, 0), (10, 0.5), (40, 1), (400, 1)])
def test_rare_words_weigh_more_in_longer_texts(n_words, word_ngrams, power):
    rules = FeatureRules(word_ngrams=word_ngrams)
    texts = [" ".join(["common", *(f"word{i}of{t}" for i in range(1, n_words))][:n_words]) for t in range(9)]
    rows = extract(*kernels.join_texts(texts), rules, 1)
    one = Rows(np.arange(10), np.zeros(9, np.int32), np.ones(9, np.float32), 1)  # one label: no informative feature
    in_one_text, in_all = (np.log(10 / 2) + 1) ** power, 1
    few = Vocabulary.learn(rules, rows, one).weights
    assert few.max(initial=1) == pytest.approx(np.log(10 / 2) + 1 if n_words > 1 else few.max(initial=1))
    weights = Vocabulary.learn(rules, rows, one, weighting=WeightingRules(few_texts=9, min_texts=1)).weights
    assert weights.max(initial=1) == pytest.approx(in_one_text, rel=0.06)  # ends of texts give n-grams too
    assert weights.min(initial=1) == in_all


def test_memory_bounds_the_number_of_threads(monkeypatch):
    texts, labels = planted(300)
    expected = TextClassifier(random_state=0, n_jobs=1).fit(texts, labels)
    # With 4 labels a thread takes 6 kB if there are 300 texts, 4.8 kB if 240; half the limit is available.
    assert linear.threads_that_fit(240, 0, 4, 3, 30_000) == 3
    assert linear.threads_that_fit(300, 0, 4, 3, 30_000) == 2
    used, train = [], linear.train
    monkeypatch.setattr(linear, "train", lambda *given, **more: used.append(given[4]) or train(*given, **more))
    model = TextClassifier(random_state=0, n_jobs=3, memory_limit=30_000).fit(texts, labels)
    assert used == [3] * Turns.most_turns + [2]
    np.testing.assert_array_equal(model._fitted.model.matrix, expected._fitted.model.matrix)
    with pytest.raises(
        MemoryError, match=r"300 texts needs 6\.0 kB, and there are 1\.0 kB for that: .* raise memory_limit"
    ):
        TextClassifier(validation_fraction=0.0, memory_limit=2000).fit(texts, labels)


class Noted(Problem):
    """Notes the number of texts and the threads of each training."""

    trained: ClassVar[list[tuple[int, int]]] = []

    def train(self, rows, *others):
        self.trained.append((len(rows), self.threads))
        return super().train(rows, *others)


@pytest.mark.parametrize(("n_labels", "threads"), [(3, (3, 2)), (20, (5, 5))])
def test_a_single_block_leaves_threads_to_the_measurement(n_labels, threads):
    texts, _ = planted(300)
    labels = [i % n_labels for i in range(300)]
    Noted.trained.clear()
    together, alone = (
        measure_and_learn(*in_memory(texts, labels, threads=n, kind=Noted, validation_fraction=0.1)) for n in (5, 1)
    )
    assert sorted(Noted.trained[:2], reverse=True) == [(300, threads[0]), (270, threads[1])]
    np.testing.assert_array_equal(together[1][1].matrix, alone[1][1].matrix)
    assert together[0].score == alone[0].score
    assert together[0].calibration == alone[0].calibration


def in_memory(
    texts: list[str], labels: list[Any], *, threads: int = 1, kind: type[Problem] = Problem, **parameters: Any
) -> tuple[Problem, FeatureRules, LinearRules, TextHoldout]:
    """Return what `measure_and_learn` takes."""
    options = TextOptions.of(TextClassifier(**parameters).get_params())
    corpus = Corpus.of_texts(texts, labels, options.features, 1)
    holdout = draw_holdout(corpus.labels, options.holdout, 0)
    assert holdout is not None
    problem = kind(corpus.rows, corpus.labels, True, None, 0, threads, options.memory_limit)
    return problem, corpus.rules, options.linear, holdout


def test_counts_pairs_before_storing_them():
    """Few texts have many labels: the mean would underestimate the number of pairs."""
    texts = [f"common word{i % 50}" for i in range(1000)] + [f"rare{i} rare{i + 1} common" for i in range(10)]
    lengths = np.repeat([1, 200], [1000, 10])
    ids = np.concatenate([*(np.array([i % 300]) for i in range(1000)), *(np.arange(200) for _ in range(10))])
    labels = Rows(np.append(0, np.cumsum(lengths)), ids.astype(np.int32), np.ones(len(ids), np.float32), 300)
    rules = FeatureRules(bits=14)
    rows = extract(*kernels.join_texts(texts), rules, 1)
    words = Vocabulary.learn(rules, rows, labels)
    groups = list(_groups(words._n_pairs(rows, labels), 4000))
    sizes = [int(words._pairs(rows, labels, group).sum()) for group in groups]
    assert len(sizes) > 10
    assert all(size <= 4000 or group.stop - group.start == 1 for size, group in zip(sizes, groups, strict=True))


class InFiles(Problem):
    """Keeps large arrays in temporary files."""

    spill = Spill(1000)


def test_many_points_of_a_network_lie_in_files(narrow_network):
    texts, labels = planted(300)
    options = TextOptions.of(TextClassifier(method="network", n_jobs=1).get_params())
    corpus = Corpus.of_texts(texts, labels, options.features, 1)
    holdout = draw_holdout(corpus.labels, options.holdout, 0, for_good=True)
    counts, found = np.bincount(corpus.labels.indices), []
    for kind in (Problem, InFiles):
        problem = kind(corpus.rows, corpus.labels, True, None, 0, 1, None)
        points = Vocabulary.learn(corpus.rules, corpus.rows, corpus.labels).points(corpus.rows, 1, problem.spill)
        mapped: Any = points.indices
        while mapped.base is not None and not isinstance(mapped, np.memmap):
            mapped = mapped.base
        assert (not isinstance(mapped, np.ndarray) or isinstance(mapped, np.memmap)) == (kind is InFiles)
        found.append(fit_network(problem, corpus, counts, options, 0.0, holdout).answers.probabilities(texts, 1))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("method", ["predict_proba", "decision_function"])
def test_rejects_a_matrix_of_absurd_size(monkeypatch, method):
    texts, labels = planted(60)
    model = TextClassifier(random_state=0).fit(texts, labels)
    monkeypatch.setattr(memory, "MAX_CELLS", 100)
    with pytest.raises(ValueError, match=r"scores of 3 labels for 60 rows .* predict_topk"):
        getattr(model, method)(texts)
    assert model.predict_topk(texts, k=2).shape == (60, 3)


@pytest.mark.parametrize("k", [1, 5, 16, 17, 40])
def test_orders_by_score_then_by_position(k):
    values = np.random.default_rng(0).integers(0, 9, (50, 40)).astype(np.float32)
    before = values.copy()
    np.testing.assert_array_equal(_largest(values, k), np.argsort(-values, axis=1, kind="stable")[:, :k])
    np.testing.assert_array_equal(values, before)


def test_does_not_pickle_caches():
    texts, labels = planted(300)
    model = TextClassifier(random_state=0).fit(texts, labels)
    model._fitted.vocabulary.__dict__.pop("tables", None)
    fresh = len(pickle.dumps(model))
    expected = model.predict_proba(texts)
    again = pickle.dumps(model)
    assert len(again) == fresh < 500_000
    np.testing.assert_array_equal(pickle.loads(again).predict_proba(texts), expected)


class Sparse(TextClassifier):
    def _options(self) -> TextOptions:
        found = super()._options()
        return replace(found, linear=replace(found.linear, max_dense_weights=1000))


@pytest.mark.parametrize("n_labels", [17, 64])
def test_partial_fit_takes_the_announced_memory(n_labels):
    """Twice as many features take twice the weights: memory grows with these as predicted."""
    foreseen, peaks = [], []
    rng = np.random.default_rng(0)
    labels = [f"label{i % n_labels}" for i in range(600)]
    for n_words in (200, 20_000):
        texts = [" ".join(f"w{i}" for i in rng.integers(0, n_words, 60)) for _ in labels]
        rules = {"char_ngrams": None, "bits": 17, "validation_fraction": 0}
        model = Sparse(random_state=0, n_jobs=1, **rules).fit(texts, labels)
        model.set_params(memory_limit=1)
        with pytest.raises(MemoryError) as refused:
            model.partial_fit(["w1"], labels[:1])
        value, unit = re.search(r"needs ([\d.]+) (\w+)", str(refused.value)).groups()
        foreseen.append(float(value) * {"MB": 1e6, "GB": 1e9}[unit])
        model.set_params(memory_limit="4GB")
        tracemalloc.start()
        model.partial_fit(["w1"], labels[:1])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Each feature takes some hundreds of bytes besides.
    assert 0.8 < (peaks[1] - peaks[0]) / (foreseen[1] - foreseen[0]) < 1.25 + 8 / n_labels
