"""Data sets from Python source: parsing, features and labels."""

import textwrap

import pytest

from bench import source_sets
from bench.sets import Points, split, write_set
from bench.source_sets import Function, calls_set, functions, names_set
from sparsenet.data import read_xmc

SOURCE = '''
class Reader:
    async def read_rows(self, path: str) -> list:
        """Read the rows of a file."""
        with open(path) as file:
            return [parse(line.strip()) for line in file]


def helpless(x): return x[0](1)
'''


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "source" / "package"
    folder.mkdir(parents=True)
    (folder / "reader.py").write_text(SOURCE)
    (folder / "copy.py").write_text(SOURCE)
    (folder / "template.py").write_text("def {{ name }}(): pass")
    (folder / "binary.py").write_bytes(b"\xff\x00\x81")
    return folder.parent


def test_finds_each_function_once_and_skips_other_files(sources):
    found = {function.name: function for function in functions([sources, sources / "package"])}
    assert set(found) == {"read_rows", "helpless"}
    assert len(list(functions([sources, sources / "package"]))) == 2
    read = found["read_rows"]
    assert read.docstring == "Read the rows of a file."
    assert read.calls == {"open", "parse", "strip"}
    assert {"self", "path", "line", "file"} <= set(read.variables)
    assert found["helpless"].calls == set()  # an element of a list has no name


def test_features_do_not_contain_the_labels():
    found = [Function("read_rows", "Rows of a file.", ("path", "openFile"), frozenset({"parse", "open"}))]
    points = calls_set(found)
    assert list(map(points.features, points.texts)) == [["rows", "of", "a", "file", "read", "rows"]]
    assert points.labels == [["open", "parse"]]
    points = names_set(found)
    (words,) = map(points.features, points.texts)
    assert sorted(words) == sorted(["rows", "of", "a", "file", "path", "open", "file", "parse()", "open()"])
    assert points.labels == [["read_rows"]]
    assert calls_set([Function("idle", "", (), frozenset())]).texts == []


def test_written_sets_are_readable_and_depend_on_the_seed_only(tmp_path):
    texts = [f"w{i % 7} w{i % 5} all once{i}" for i in range(60)]
    labels = [[f"l{i % 7}", f"m{i % 5}"] for i in range(60)]
    for name, seed in (("one", 0), ("again", 0), ("other", 1)):
        write_set(tmp_path / name, Points(texts, labels, str.split), split(60, seed))
    train, test = (read_xmc(tmp_path / "one" / f"{part}.txt") for part in ("train", "test"))
    assert (train.X.shape[0], test.X.shape[0]) == (50, 10)
    assert train.X.shape[1] == test.X.shape[1] == 8  # words of a single function are dropped
    assert train.Y.shape[1] == test.Y.shape[1] == 12
    assert train.X.power(2).sum(axis=1).tolist() == pytest.approx([1] * 50, rel=1e-4)
    assert (tmp_path / "one" / "train.txt").read_bytes() == (tmp_path / "again" / "train.txt").read_bytes()
    assert (tmp_path / "one" / "train.txt").read_bytes() != (tmp_path / "other" / "train.txt").read_bytes()


def test_the_command_writes_both_sets(sources, tmp_path, capsys):
    for i in range(30):
        body = (
            f'def name_{i % 3}(value_{i}):\n    """Do thing {i % 4}."""\n    return helper_{i % 5}(value_{i}, common)\n'
        )
        (sources / f"module_{i}.py").write_text(textwrap.dedent(body))
    source_sets.main(["--source", str(sources), "--out", str(tmp_path / "out")])
    assert capsys.readouterr().out == "calls: 31 points\nnames: 32 points\n"
    for name, most_labels in (("calls", 8), ("names", 5)):
        train = read_xmc(tmp_path / "out" / name / "train.txt")
        assert train.X.shape[0] > 20
        assert train.Y.shape[1] <= most_labels
