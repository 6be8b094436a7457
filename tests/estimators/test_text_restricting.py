"""`exclude=`, `only=`, `topk_numbers` and `indicator` of texts, and answers to files and data frames."""

import json

import numpy as np
import pytest
from scipy import sparse

from sparsenet import DataError, ExtremeClassifier, TextClassifier, make_pipeline
from sparsenet.features import TextFeatures
from sparsenet.metrics import precision_at_k

WORDS = ["apple", "pear", "plum", "fig", "lemon", "grape"]
TEXTS = [f"{word} {other} number {i}" for i, word in enumerate(WORDS * 12) for other in ("tart", "jam")]
LABELS = [word for word in WORDS * 12 for _ in range(2)]
LISTS = [[label, "fruit"] for label in LABELS]
QUERIES = ["apple jam", "a fig and a plum", "lemon", ""]
MODELS = {
    "linear": lambda: TextClassifier(random_state=0).fit(TEXTS, LABELS),
    "lists": lambda: TextClassifier(random_state=0).fit(TEXTS, LISTS),
    "network": lambda: TextClassifier(method="network", bits=12, epochs=3, random_state=0).fit(TEXTS, LABELS),
    "blend": lambda: TextClassifier(method="blend", bits=12, random_state=0).fit(TEXTS, LABELS),
    "blend of lists": lambda: TextClassifier(method="blend", bits=12, random_state=0).fit(TEXTS, LISTS),
    "network of lists": lambda: TextClassifier(method="network", bits=12, epochs=3, random_state=0).fit(TEXTS, LISTS),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


def test_numbers_are_positions_in_classes(model):
    numbers, p = model.topk_numbers(QUERIES, 3)
    names, same = model.topk(QUERIES, 3)
    np.testing.assert_array_equal(model.classes_[numbers], names)
    np.testing.assert_array_equal(p, same)


def test_restrictions_leave_the_order_and_probabilities(model):
    n = len(model.classes_)
    ranked, p = model.topk_numbers(QUERIES, n)
    mask = np.isin(model.classes_, ["fig", "lemon", "plum"])
    for restriction in ({"only": ["fig", "lemon", "plum"]}, {"exclude": ~mask}, {"only": mask[None]}):
        numbers, own = model.topk_numbers(QUERIES, 3, **restriction)
        np.testing.assert_array_equal(numbers, ranked[mask[ranked]].reshape(-1, 3))
        np.testing.assert_allclose(own, p[mask[ranked]].reshape(-1, 3), rtol=1e-3, atol=1e-6)


def test_each_text_may_have_its_own_restriction(model):
    own = [["fig"], ["plum", "lemon"], [], ["apple"]]
    numbers, _ = model.topk_numbers(QUERIES, 2, only=own)
    assert [set(model.classes_[row[row >= 0]]) for row in numbers] == [set(row) for row in own]
    assert np.diff(model.predict_topk(QUERIES, 2, only=own).indptr).tolist() == [1, 2, 0, 1]
    numbers, _ = model.topk_numbers(QUERIES, 2, exclude=own)
    assert not any(set(model.classes_[row]) & set(left_out) for row, left_out in zip(numbers, own, strict=True))


def test_rejects_unknown_names(model):
    with pytest.raises(ValueError, match="only names 'kiwi', not among the"):
        model.topk(QUERIES, 1, only=["kiwi"])
    with pytest.raises(ValueError, match="exclude holds names for 1 rows, X has 4"):
        model.topk(QUERIES, 1, exclude=[["fig"]])


def test_predict_topk_is_sparse_with_the_best_first(model):
    top = model.predict_topk(QUERIES, 2)
    assert top.shape == (4, len(model.classes_))
    np.testing.assert_array_equal(top.indices.reshape(-1, 2), model.topk_numbers(QUERIES, 2)[0])


def test_indicator_converts_labels(model):
    y = LISTS if model.multilabel_ else LABELS
    truth = model.indicator(y)
    assert truth.shape == (len(y), len(model.classes_))
    assert precision_at_k(truth, model.topk_numbers(TEXTS, 1)[0], 1) == model.score(TEXTS, y)
    with pytest.warns(UserWarning, match="no label that the classifier knows"):
        assert model.indicator([["kiwi"]] if model.multilabel_ else ["kiwi"]).nnz == 0


def test_an_empty_list_of_texts_has_no_answers(model):
    assert len(model.predict([])) == 0
    assert model.topk([], 2)[0].shape == (0, 2)
    assert model.topk_numbers([], 2, only=["fig", "plum"])[0].shape == (0, 2)
    assert model.predict_topk([], 2, exclude=["fig"]).shape == (0, len(model.classes_))


# --- files and frames ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("fruits")
    rows = [f'"{text}",{label}' for text, label in zip(TEXTS, LABELS, strict=True)]
    (path / "train.csv").write_text("\n".join(["title,kind", *rows]) + "\n")
    many = [json.dumps({"title": text, "tags": own}) for text, own in zip(TEXTS, LISTS, strict=True)]
    (path / "train.jsonl").write_text("\n".join(many) + "\n")
    (path / "train.txt").write_text("".join(f"__label__{y} {x}\n" for x, y in zip(TEXTS, LABELS, strict=True)))
    (path / "other.csv").write_text("name,kind\napple,apple\n")
    return path


@pytest.fixture(scope="module")
def of_csv(folder):
    return TextClassifier(random_state=0).fit(folder / "train.csv", text="title", target="kind")


def test_answers_files_by_the_learnt_columns(of_csv, folder):
    path = folder / "train.csv"
    assert of_csv.predict(path).tolist() == of_csv.predict(TEXTS).tolist()
    assert of_csv.score(path) == of_csv.score(TEXTS, LABELS)
    assert of_csv.score(str(path)) == of_csv.score(path)
    np.testing.assert_array_equal(of_csv.topk(path, 2)[0], of_csv.topk(TEXTS, 2)[0])
    np.testing.assert_array_equal(of_csv.predict_proba(path), of_csv.predict_proba(TEXTS))


def test_answers_lines_with_labels(folder):
    model = TextClassifier(random_state=0).fit(folder / "train.txt")
    assert model.score(folder / "train.txt") == model.score(TEXTS, LABELS) > 0.9
    assert model.predict(folder / "train.txt").tolist() == model.predict(TEXTS).tolist()


def test_scores_lists_of_labels_in_a_file(folder):
    model = TextClassifier(random_state=0).fit(folder / "train.jsonl", text="title", target="tags")
    assert model.score(folder / "train.jsonl") == model.score(TEXTS, LISTS)


def test_labels_in_files_are_compared_by_their_spelling(folder):
    numbers = [WORDS.index(label) for label in LABELS]
    (folder / "numbers.csv").write_text(
        "\n".join(["title,kind", *(f"{x},{y}" for x, y in zip(TEXTS, numbers, strict=True))])
    )
    frame = pytest.importorskip("pandas").DataFrame({"title": TEXTS, "kind": numbers})
    model = TextClassifier(random_state=0).fit(frame, text="title", target="kind")
    assert model.score(folder / "numbers.csv") == model.score(frame) == model.score(TEXTS, numbers) > 0.9


def test_scores_a_data_frame_without_y(of_csv):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"kind": LABELS, "title": TEXTS})
    assert of_csv.score(frame) == of_csv.score(TEXTS, LABELS)
    with pytest.raises(
        ValueError, match="target='kind' is not a column of X; there are 'title', 'x': the model learnt"
    ):
        of_csv.score(frame[["title"]].assign(x=1))
    with pytest.raises(ValueError, match="y must be passed: only a file or data frame"):
        of_csv.score(TEXTS)


@pytest.mark.parametrize("method", ["predict", "score", "topk", "predict_proba"])
def test_refuses_files_without_the_learnt_columns(of_csv, folder, method):
    with pytest.raises(DataError, match=r"other\.csv.*'title'"):
        getattr(of_csv, method)(folder / "other.csv")


def test_refuses_a_table_if_no_columns_are_known(folder):
    model = TextClassifier(random_state=0).fit(TEXTS, LABELS)
    with pytest.raises(
        ValueError, match=r"does not know which columns of '.*train\.csv' to read, since it learnt from no"
    ):
        model.predict(folder / "train.csv")
    with pytest.raises(ValueError, match=r"y must be None if X is a path"):
        model.score(folder / "train.txt", LABELS)
    with pytest.raises(ValueError, match="X must be a sequence of texts, got a single one: pass"):
        model.predict("apple")


def test_refuses_to_score_a_file_if_labels_were_not_a_column(folder):
    pandas = pytest.importorskip("pandas")
    model = TextClassifier(random_state=0).fit(pandas.DataFrame({"title": TEXTS, "n": 1}), LABELS, text="title")
    assert model.predict(folder / "train.csv").tolist() == model.predict(TEXTS).tolist()
    with pytest.raises(ValueError, match="learnt from texts in 'title' and from y, not from a column of labels"):
        model.score(folder / "train.csv")


def test_a_missing_file_is_an_error(of_csv):
    with pytest.raises(FileNotFoundError):
        of_csv.predict("nowhere.csv")


def test_masks_of_rows_may_be_sparse(of_csv):
    mask = sparse.csr_array(np.eye(4, 6))
    assert of_csv.topk_numbers(QUERIES, 1, only=mask)[0].ravel().tolist() == [0, 1, 2, 3]


# --- validation and callbacks ---


def test_measures_validation_texts(folder, of_csv):
    model = TextClassifier(random_state=0).fit(TEXTS[:100], LABELS[:100], validation=(TEXTS[100:], LABELS[100:]))
    assert model.validation_["P@1"] == model.score(TEXTS[100:], LABELS[100:])
    assert of_csv.validation_ is None
    columns = {"text": "title", "target": "kind"}
    model = TextClassifier(random_state=0).fit(folder / "train.csv", **columns, validation=folder / "train.csv")
    assert model.validation_["P@1"] == model.score(folder / "train.csv")
    assert f"P@1 {100 * model.validation_['P@1']:.1f} % on validation data" in model._repr_html_()


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ((TEXTS, LABELS[:3]), "validation: X has 144 texts, y has 3 entries"),
        (([], []), "validation: X holds no texts"),
        (TEXTS, r"validation must be a pair \(X, y\), a data frame or a path, got list"),
        ("other.csv", "validation: the model does not know which columns of 'other.csv' to read"),
    ],
)
def test_refuses_validation_texts_before_training(validation, message):
    model = TextClassifier()
    with pytest.raises(ValueError, match=message):
        model.fit(TEXTS, LABELS, validation=validation)
    assert not hasattr(model, "classes_")


def test_refuses_callbacks_and_says_what_takes_them():
    with pytest.raises(ValueError, match=r"fit make_pipeline\(TextFeatures\(\), ExtremeClassifier\(\)\) with"):
        TextClassifier().fit(TEXTS, LABELS, callbacks=[print])


def test_a_pipeline_passes_callbacks_on():
    epochs = []
    callback = type("Callback", (), {"on_epoch": lambda self, record: epochs.append(record["epoch"])})()
    model = make_pipeline(TextFeatures(), ExtremeClassifier(hidden=0, epochs=2, random_state=0))
    model.fit(TEXTS, LABELS, extremeclassifier__callbacks=[callback])
    assert epochs == [1, 2]
