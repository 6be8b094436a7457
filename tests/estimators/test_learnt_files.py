"""A model reads further files like its training file: delimiter, encoding and decimal mark are saved with it."""

import numpy as np
import pytest

from sparsenet import Recommender, TableClassifier, TextClassifier
from sparsenet.data.dialect import Dialect, LearntFile
from tests.support.command_line import run

SIZES = [0.5, 1.5, 1000.5, 1234.5]
ROWS = [(f"{size:,}".translate(str.maketrans(",.", ".,")), "small" if size < 2 else "large") for size in SIZES * 10]
TEXTS = [("what a lovely film", "good"), ("dull, and long", "bad")] * 20
EVENTS = [(f"u{i % 6}", f"i{(i * i) % 5}", f"{1 + i % 3},5") for i in range(60)]


def write(path, names, rows, delimiter=";"):
    path.write_text("\n".join(delimiter.join(row) for row in [names, *rows]) + "\n")
    return str(path)


@pytest.fixture
def table(tmp_path):
    path = write(tmp_path / "sizes.csv", ("size", "kind"), ROWS)
    model = TableClassifier(method="linear", random_state=0, n_jobs=1).fit(
        path, target="kind", delimiter=";", decimal=","
    )
    return model, path


def test_tables_keep_delimiter_and_decimal_mark(table, tmp_path):
    model, path = table
    assert "number" in model.columns_
    model.save(tmp_path / "model")
    for each in (model, TableClassifier.load(tmp_path / "model")):
        assert each.score(path) == 1
        new = write(tmp_path / "new.csv", ("size",), [("1.234,5",), ("0,7",)])
        assert each.predict(new).tolist() == each.predict({"size": [1234.5, 0.7]}).tolist() == ["large", "small"]
        (tmp_path / "new.jsonl").write_text('{"size": 0.7}\n')
        assert each.predict(str(tmp_path / "new.jsonl")).tolist() == ["small"]


def test_the_command_line_needs_options_in_training_only(tmp_path):
    path = write(tmp_path / "sizes.csv", ("size", "kind"), ROWS)
    how = ["--target", "kind", "--delimiter", ";", "--decimal", ",", "--method", "table"]
    run("train", path, "--model", tmp_path / "m", *how)
    assert "accuracy   100.00" in run("evaluate", tmp_path / "m", path).stdout
    assert run("predict", tmp_path / "m", path, "--k", 1).stdout.startswith("small:")
    other = write(tmp_path / "other.csv", ("size", "kind"), [("0,5", "small")], delimiter="|")
    assert run("predict", tmp_path / "m", other, "--k", 1, "--delimiter", "|").stdout.startswith("small:")


def test_names_the_other_delimiter_of_a_further_table(table, tmp_path):
    other = write(tmp_path / "other.csv", ("size", "kind"), [("0,5", "small")], delimiter="|")
    with pytest.raises(ValueError, match=r"other\.csv: the column 'size' is missing.*; its fields seem to be .* '\|'"):
        table[0].predict(other)


def test_texts_keep_the_delimiter(tmp_path):
    path = write(tmp_path / "films.csv", ("text", "label"), TEXTS)
    model = TextClassifier(random_state=0).fit(path, delimiter=";")
    model.save(tmp_path / "model")
    for each in (model, TextClassifier.load(tmp_path / "model")):
        assert each.score(path) == 1
        assert each.columns_["file"] == {"format": "csv", "delimiter": ";"}
    assert "accuracy   100.00" in run("evaluate", tmp_path / "model", path).stdout
    first, second = run("predict", tmp_path / "model", path, "--k", 1).stdout.splitlines()[:2]
    assert (first[:4], second[:3]) == ("good", "bad")


@pytest.mark.parametrize("column", ["time", "weight"])
def test_logs_name_decimal_commas(column, tmp_path):
    path = write(tmp_path / "log.csv", ("user", "item", "amount"), [("ann", "tea", "1.234,5")])
    with pytest.raises(ValueError, match=r"line 2: column 'amount' .*; read decimal commas with decimal=','"):
        Recommender().fit(path, delimiter=";", **{column: "amount"})
    how = ["--user", "user", "--item", "item", f"--{column}", "amount", "--delimiter", ";"]
    assert (
        "read decimal commas with --decimal ," in run("train", path, *how, "--model", tmp_path / "m", status=1).stderr
    )


def test_logs_keep_delimiter_and_decimal_mark(tmp_path):
    path = write(tmp_path / "log.csv", ("user", "item", "plays"), EVENTS)
    model = Recommender(random_state=0, n_jobs=1).fit(path, weight="plays", delimiter=";", decimal=",")
    expected = Recommender(random_state=0, n_jobs=1).fit(
        {
            "user": [user for user, _, _ in EVENTS],
            "item": [item for _, item, _ in EVENTS],
            "plays": [float(plays.replace(",", ".")) for _, _, plays in EVENTS],
        },
        weight="plays",
    )
    model.save(tmp_path / "model")
    for each in (model, Recommender.load(tmp_path / "model")):
        found = each.recommend(history=path, k=2, exclude_seen=False)
        np.testing.assert_array_equal(found["score"], expected.recommend(k=2, exclude_seen=False)["score"])
    said = run("evaluate", tmp_path / "model", path, "--include-seen", "--split", "random").stdout
    assert "recall" in said


@pytest.mark.parametrize(
    ("cell", "problem"),
    [("1.2", "'1.2'"), ("1,2,3", "'1,2,3'"), ("1.234,5.6", "'1.234,5.6'"), ("about 3", "'about 3'")],
    ids=["point", "two", "a point behind", "word"],
)
def test_refuses_other_numbers_next_to_decimal_commas(cell, problem, tmp_path):
    path = write(tmp_path / "log.csv", ("user", "item", "plays"), [*EVENTS, ("u1", "i1", cell)])
    with pytest.raises(ValueError, match=f"line 62: column 'plays' holds {problem}, which is not a number"):
        Recommender().fit(path, weight="plays", delimiter=";", decimal=",")


def test_another_format_does_not_take_the_delimiter():
    learnt = LearntFile(format="csv", dialect=Dialect(delimiter=";", encoding="latin-1", decimal=","))
    assert learnt.like("a.csv.gz")[1] == learnt.dialect
    assert learnt.like("a.tsv")[1] == Dialect(encoding="latin-1", decimal=",")
    assert learnt.like("a.parquet")[1] == learnt.like("a.jsonl")[1] == Dialect()
    assert learnt.like("no suffix") == ("csv", learnt.dialect)
    assert learnt.like("a.csv", dialect=Dialect(delimiter="|"))[1].delimiter == "|"
    assert LearntFile.of_json(learnt.as_json()) == learnt
    assert LearntFile.of_json(None).like("a.csv") == ("auto", Dialect())


@pytest.mark.parametrize(
    "forged",
    [
        {"format": "xml"},
        {"format": "csv", "decimal": ";"},
        {"format": "csv", "rows": 3},
        {"format": "csv", "header": "no"},
    ],
)
def test_refuses_forged_options(forged):
    with pytest.raises(ValueError, match="must be"):
        LearntFile.of_json(forged)


def test_a_dict_of_cells_is_one_row(table):
    model, _ = table
    row = {"size": 0.7}
    assert model.predict(row).tolist() == model.predict([row]).tolist() == ["small"]
    assert model.predict_proba(row).shape == (1, 2)
    assert model.topk(row, 1)[0].tolist() == [["small"]]
    assert model.explain(row).label == "small"
    assert model.predict({"size": np.array([0.7, 1100])}).tolist() == ["small", "large"]
    assert model.predict({"size": np.float64(0.7)}).tolist() == ["small"]


def test_a_row_of_a_pandas_frame_is_one_row(table):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [0.7, 1100.0]})
    assert table[0].predict(frame.iloc[1]).tolist() == ["large"]
