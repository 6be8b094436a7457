"""`sparsenet.make_pipeline`: the methods of the classifier behind transformers, and saving without pickle."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from sparsenet import (
    BlendClassifier,
    ExtremeClassifier,
    ModelError,
    TableClassifier,
    TextClassifier,
    TreeClassifier,
    load,
    make_pipeline,
)
from sparsenet.features import TextFeatures
from sparsenet.storage import load as load_arrays
from sparsenet.storage import save as save_arrays

TEXTS = [
    f"{verb} a {noun} number {i}" for i in range(20) for verb in ("sort", "fit", "plot") for noun in ("list", "curve")
]
LABELS = [[text.split()[0], text.split()[2]] for text in TEXTS]
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(len(TEXTS), 6)) + np.arange(len(TEXTS))[:, None] % 3
COLOURS = [["red", "small"], ["blue", "small"], ["red", "large"]] * (len(TEXTS) // 3)
TREE = TreeClassifier(random_state=0)
STEPS = {
    "tf-idf": ([TfidfVectorizer(ngram_range=(1, 2), min_df=2, stop_words=["a"])], TEXTS),
    "tf-idf of English": ([TfidfVectorizer(stop_words="english", dtype=np.float32)], TEXTS),
    "many words": ([TfidfVectorizer(analyzer="char", ngram_range=(2, 4))], TEXTS),
    "counts": ([CountVectorizer(binary=True), TfidfTransformer(sublinear_tf=True)], TEXTS),
    "a given vocabulary": ([CountVectorizer(vocabulary={"sort": 0, "fit": 1, "plot": 2, "list": 3})], TEXTS),
    "hashing": ([HashingVectorizer(n_features=256)], TEXTS),
    "no transformer": ([], NUMBERS),
    "passthrough": (["passthrough"], NUMBERS),
    "standard": ([StandardScaler()], NUMBERS),
    "robust": ([RobustScaler(), MinMaxScaler(), MaxAbsScaler(), Normalizer()], NUMBERS),
    "missing": ([SimpleImputer(strategy="median", add_indicator=True)], np.where(NUMBERS > 2, np.nan, NUMBERS)),
    "one-hot": ([OneHotEncoder(handle_unknown="ignore", min_frequency=2)], COLOURS),
    "ordinal": ([OrdinalEncoder(), Binarizer(threshold=0.5)], COLOURS),
    "PCA": ([VarianceThreshold(), PCA(3, random_state=0)], NUMBERS),
    "SVD": ([TfidfVectorizer(), TruncatedSVD(4, random_state=0)], TEXTS),
    "dicts": ([DictVectorizer()], [{"word": text.split()[0], "n": float(i)} for i, text in enumerate(TEXTS)]),
    "hashed dicts": ([FeatureHasher(64)], [{text.split()[0]: 1.0} for text in TEXTS]),
    "union": ([FeatureUnion([("words", TfidfVectorizer()), ("parts", HashingVectorizer(n_features=64))])], TEXTS),
    "columns": (
        [
            ColumnTransformer(
                [("scaled", StandardScaler(), [0, 1]), ("rest", "passthrough", slice(2, 4))], remainder="drop"
            )
        ],
        NUMBERS,
    ),
    "text features": ([TextFeatures(char_ngrams=(3, 4))], TEXTS),
    "text features of a union": ([FeatureUnion([("words", TextFeatures()), ("hashed", HashingVectorizer())])], TEXTS),
    "nested": ([sklearn_pipeline(TfidfVectorizer(), MaxAbsScaler())], TEXTS),
}


@pytest.fixture(scope="module")
def tagger():
    return make_pipeline(TfidfVectorizer(), BlendClassifier(network="drop", random_state=0)).fit(TEXTS, LABELS)


def test_delegates_to_the_classifier(tagger):
    vectorizer, model = tagger[0], tagger[-1]
    X = vectorizer.transform(TEXTS[:5])
    for name in ("topk", "topk_numbers"):
        for restriction in ({}, {"only": ["sort", "fit"]}, {"exclude": ["list"]}):
            ours, theirs = (getattr(m, name)(own, 2, **restriction) for m, own in ((tagger, TEXTS[:5]), (model, X)))
            np.testing.assert_array_equal(ours[0], theirs[0])
            np.testing.assert_array_equal(ours[1], theirs[1])
    assert (tagger.predict_topk(TEXTS[:5], 2) != model.predict_topk(X, 2)).nnz == 0
    assert (tagger.indicator(LABELS) != model.indicator(LABELS)).nnz == 0
    assert tagger.score(TEXTS, LABELS) == model.score(vectorizer.transform(TEXTS), LABELS)


def test_explains_by_the_names_of_words(tagger):
    found = tagger.explain(["sort the list"], "sort")
    assert found.parts[0].name == "sort"
    hashed = make_pipeline(HashingVectorizer(n_features=64), TREE).fit(TEXTS, LABELS)
    assert hashed.explain(["sort the list"], "sort").parts[0].name.startswith("column ")


@pytest.mark.parametrize("case", STEPS)
def test_a_saved_pipeline_answers_the_same(case, tmp_path):
    steps, X = STEPS[case]
    model = make_pipeline(*map(clone_or_word, steps), clone(TREE)).fit(X, LABELS)
    model.save(tmp_path / "model")
    other = load(tmp_path / "model")
    np.testing.assert_array_equal(other.predict_topk(X, 3).toarray(), model.predict_topk(X, 3).toarray())
    assert [name for name, _ in other.steps] == [name for name, _ in model.steps]
    for (_, ours), (_, theirs) in zip(model.steps, other.steps, strict=True):
        assert repr(ours) == repr(theirs)
    other.save(tmp_path / "again")
    assert (tmp_path / "again" / "manifest.json").read_text() == (tmp_path / "model" / "manifest.json").read_text()
    assert other.fit(X, LABELS).score(X, LABELS) == model.score(X, LABELS)  # it can be trained again


def clone_or_word(step):
    return step if isinstance(step, str) else clone(step)


@pytest.mark.parametrize(
    "last", [ExtremeClassifier(hidden=4, epochs=1, random_state=0), TextClassifier(random_state=0)]
)
def test_saves_with_each_classifier_at_the_end(last, tmp_path):
    steps = [] if isinstance(last, TextClassifier) else [CountVectorizer()]
    model = make_pipeline(*steps, last).fit(TEXTS, LABELS)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").topk(TEXTS, 2)[1], model.topk(TEXTS, 2)[1])


def test_saves_with_a_classifier_of_tables_at_the_end(tmp_path):
    model = make_pipeline(StandardScaler(), TableClassifier(method="linear", random_state=0))
    model.fit(NUMBERS, NUMBERS[:, 0] > 0).save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").topk(NUMBERS, 2)[1], model.topk(NUMBERS, 2)[1])


def double(X):
    return 2 * X


class Own(StandardScaler):
    """A class of the user."""


@pytest.mark.parametrize(
    ("step", "name", "message"),
    [
        (FunctionTransformer(double), "functiontransformer", "FunctionTransformer.func is <function double"),
        (Own(), "own", "Own is not one of"),
        (SelectKBest(k=2), "selectkbest", "SelectKBest is not one of"),
        (
            TfidfVectorizer(tokenizer=str.split, token_pattern=None),
            "tfidfvectorizer",
            "TfidfVectorizer.tokenizer is <method",
        ),
    ],
)
def test_names_the_step_that_cannot_be_saved(step, name, message, tmp_path):
    X = TEXTS if isinstance(step, TfidfVectorizer) else np.abs(NUMBERS)
    model = make_pipeline(step, clone(TREE)).fit(X, [own[0] for own in LABELS])
    with pytest.raises(ValueError, match=rf"step '{name}' cannot be saved without pickle: {message}"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_refuses_to_save_another_classifier(tmp_path):
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(NUMBERS, [own[0] for own in LABELS])
    with pytest.raises(
        ValueError, match="step 'logisticregression' is a LogisticRegression, and only a pipeline that ends"
    ):
        model.save(tmp_path / "model")
    with pytest.raises(AttributeError, match="topk"):
        model.topk(NUMBERS)


def test_refuses_unfitted_and_empty_pipelines(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        make_pipeline(StandardScaler(), clone(TREE)).save(tmp_path / "model")
    with pytest.raises(NotFittedError):
        make_pipeline(StandardScaler(), clone(TREE)).topk(NUMBERS)
    with pytest.raises(ValueError, match="make_pipeline needs at least one step"):
        make_pipeline()


@pytest.fixture
def saved(tagger, tmp_path):
    tagger.save(tmp_path / "model")
    return tmp_path / "model"


FORGED_CSR = {name: {"array": f"forged.{name}"} for name in ("data", "indices", "indptr")} | {"shape": [1, 1]}
N_WORDS = len(TfidfVectorizer().fit(TEXTS).vocabulary_)


def state_of(about):
    return about["steps"][0][1]["estimator"]["state"]


def forged(path, change):
    arrays, metadata = load_arrays(path)
    change(arrays, metadata)
    save_arrays(path, arrays, metadata)
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, about: about["steps"][0][1]["estimator"].update(name="LogisticRegression"),
        lambda arrays, about: about["steps"][0][1]["estimator"]["state"].update(transform="x"),
        lambda arrays, about: about["steps"][0][1]["estimator"]["state"].update(__class__="x"),
        lambda arrays, about: about["steps"][0][1]["estimator"]["state"].update({"a b": 1}),
        lambda arrays, about: about["steps"][0][1]["estimator"]["state"].pop("norm"),
        lambda arrays, about: about["steps"][0][1]["estimator"]["state"].update(norm={"pickle": "x"}),
        lambda arrays, about: about["steps"][0][1]["estimator"]["state"].update(norm={"array": "nothing"}),
        lambda arrays, about: state_of(about).update(input="filename"),
        lambda arrays, about: state_of(about).update(memory="cache"),
        lambda arrays, about: state_of(about).update(norm={"scalar": {"dtype": "V1", "value": 1}}),
        lambda arrays, about: state_of(about)["vocabulary_"]["dict"].__setitem__(1, [10**6] * N_WORDS),
        lambda arrays, about: state_of(about)["vocabulary_"]["dict"].__setitem__(1, ["x"] * N_WORDS),
        lambda arrays, about: (
            arrays.update({"step0.forged.indices": np.array([10**6], np.int32)})
            or arrays.update({"step0.forged.data": np.ones(1), "step0.forged.indptr": np.array([0, 1], np.int32)})
            or state_of(about).update(norm={"csr": FORGED_CSR})
        ),
        lambda arrays, about: about["last"].update(model="Popen"),
        lambda arrays, about: about.pop("steps"),
        lambda arrays, about: about.update(steps=3),
        lambda arrays, about: about.update(model="TreeClassifier"),
    ],
)
@pytest.mark.filterwarnings("ignore:Trying to unpickle")
def test_refuses_forged_pipelines(saved, change):
    with pytest.raises(ModelError):
        load(forged(saved, change))


def test_refuses_to_save_a_step_that_reads_the_files_of_its_data(tagger, tmp_path, monkeypatch):
    monkeypatch.setattr(tagger.steps[0][1], "input", "filename")
    with pytest.raises(ValueError, match=r"TfidfVectorizer.input is 'filename', and a saved step opens no files"):
        tagger.save(tmp_path / "model")


def test_refuses_a_damaged_file(saved):
    manifest = saved / "manifest.json"
    text = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(text).replace("TfidfVectorizer", "CountVectorizer"))
    with pytest.raises(ModelError):
        load(saved)


def test_warns_of_another_version_of_scikit_learn(saved):
    forged(saved, lambda arrays, about: about.update(sklearn="0.1"))
    with pytest.warns(match="0.1"):
        load(saved)


def test_is_a_pipeline_of_scikit_learn(tagger):
    search = GridSearchCV(
        make_pipeline(TfidfVectorizer(), clone(TREE)), {"treeclassifier__cost": [0.1, 1.0]}, cv=2
    ).fit(TEXTS, [own[0] for own in LABELS])
    assert search.best_estimator_.topk(TEXTS[:1], 1)[0].shape == (1, 1)
    assert clone(tagger).get_params()["blendclassifier__network"] == "drop"
    assert sparse.issparse(tagger[:-1].transform(TEXTS))


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, state: arrays.update({name: array[::-1].copy() for name, array in slots_in(arrays)}),
        lambda arrays, state: arrays.update({name: array + np.int32(1 << 30) for name, array in slots_in(arrays)}),
        lambda arrays, state: arrays.update({name: array.astype(np.int64) for name, array in slots_in(arrays)}),
        lambda arrays, state: arrays.update({name: array[:0] for name, array in slots_in(arrays)}),
        lambda arrays, state: state["_vocabulary"]["vocabulary"].update(rules={"word_ngrams": 99}),
        lambda arrays, state: state["_vocabulary"]["vocabulary"].update(rules={"words": 1}),
    ],
)
def test_refuses_forged_text_features(change, tmp_path):
    make_pipeline(TextFeatures(), clone(TREE)).fit(TEXTS, LABELS).save(tmp_path / "model")
    with pytest.raises(ModelError):
        load(
            forged(tmp_path / "model", lambda arrays, about: change(arrays, about["steps"][0][1]["estimator"]["state"]))
        )


def slots_in(arrays):
    return [(name, array) for name, array in arrays.items() if name.endswith("_vocabulary.slots")]
