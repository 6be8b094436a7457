import io
import random
import sys
from pathlib import Path

import pytest

from sparsenet import demo
from sparsenet.demo import docstring_points as corpora
from sparsenet.demo import docstrings, talk

NUMPYDOC = """sort(a, axis=-1)

    Sort an array.  See :func:`numpy.argsort` for indices.

    The order is ``ascending``.

    >>> sort([2, 1])
    [1, 2]

    .. versionadded:: 1.4

    Parameters
    ----------
    a : array_like
        The array that gets sorted.

    Returns
    -------
    sorted : ndarray
        An array of the same type.

    See Also
    --------
    argsort : The indices that would do it.
    """


class TestSentences:
    def test_keeps_prose_with_the_summary_first(self) -> None:
        assert [*corpora.sentences(NUMPYDOC)] == [
            "Sort an array.",
            "See numpy.argsort for indices.",
            "The order is ascending.",
            "An array of the same type.",
        ]

    def test_no_sentences_without_prose(self) -> None:
        assert [*corpora.sentences("")] == []
        assert [*corpora.sentences("f(x) -> float")] == []

    def test_name_words(self) -> None:
        assert corpora.name_words("numpy.ma.MaskedArray.sort_2d") == "numpy ma Masked Array sort 2 d"


class TestCorpus:
    def test_training_and_held_out_texts_are_disjoint(self) -> None:
        docstrings = {f"module.name{i}": f"Does thing {i}.\n\nDetail one of {i}. Detail two of {i}." for i in range(50)}
        corpus = corpora.build(docstrings, held_out=15, seed=0)
        assert len(corpus.held_out.texts) == 15
        assert set(corpus.held_out.texts).isdisjoint(corpus.train.texts)
        assert all("Detail" in text for text in corpus.held_out.texts), "summaries are learnt"
        assert {label for row in corpus.train.labels for label in row} == set(range(50))

    def test_equal_sentences_share_labels_and_set_phrases_are_dropped(self) -> None:
        docstrings = {f"a.f{i}": f"Return the item number {i}.\n\nThis is said everywhere." for i in range(30)}
        docstrings |= {"b.x": "Sort an array.", "b.y": "Sort an array."}
        corpus = corpora.build(docstrings, held_out=0, seed=0)
        labels = dict(zip(corpus.train.texts, corpus.train.labels, strict=True))
        assert [corpus.symbols[label] for label in labels["Sort an array."]] == ["b.x", "b.y"]
        assert "This is said everywhere." not in labels


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package on the path with public, private and broken modules, and one that fails when run."""
    name = f"package{random.randrange(10**9)}"
    folder = tmp_path / name
    folder.mkdir()
    sources = {
        "__init__.py": "from ._private import shown as exported\nfrom .inner import *",
        "_private.py": 'def shown(): "Shown under another name."\ndef hidden(): "Not shown."',
        "inner.py": 'class Box:\n    "A box."\n    def open(self): "Open the box."\n    def _lid(self): "Private."',
        "explodes.py": 'raise RuntimeError("ran")\ndef quiet(): "Parsed, not run."',
        "broken.py": "def (:",
    }
    for file, text in sources.items():
        (folder / file).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


class TestDocstrings:
    def test_source_files_are_parsed_without_running_them(self, package: Path) -> None:
        (package / "__init__.py").write_text("from ._private import shown as exported\nfrom .inner import *")
        found = docstrings.collect(parsed=[package.name], packages=[], modules=[])
        assert found.docstrings == {
            f"{package.name}.exported": "Shown under another name.",
            f"{package.name}.Box": "A box.",
            f"{package.name}.Box.open": "Open the box.",
            f"{package.name}.explodes.quiet": "Parsed, not run.",
        }
        assert [*found.problems] == [f"{package.name}.broken"]
        assert package.name not in sys.modules

    def test_failed_imports_are_reported(self, package: Path) -> None:
        (package / "__init__.py").write_text("")
        found = docstrings.collect(parsed=[], packages=[package.name], modules=[])
        assert found.problems[f"{package.name}.explodes"] == "RuntimeError: ran"
        assert "SyntaxError" in found.problems[f"{package.name}.broken"]
        assert found.docstrings[f"{package.name}.inner.Box.open"] == "Open the box."

    def test_functions_in_c_have_their_best_names(self) -> None:
        found = docstrings.collect(parsed=[], packages=[], modules=["builtins", "math", "collections"]).docstrings
        assert {"list.sort", "math.sqrt", "collections.deque.append", "dict.keys"} <= set(found)
        assert "collections.OrderedDict.get" not in found, "it is dict.get, inherited"
        assert "math.pi" not in found, "a number has no docstring of its own"

    def test_modules_with_side_effects_are_skipped(self) -> None:
        assert {"antigravity", "this", "tkinter", "idlelib", "test"} <= docstrings.SKIPPED_PARTS
        assert docstrings.SKIPPED_PARTS.isdisjoint([*docstrings.LIVE_MODULES, *docstrings.LIVE_PACKAGES])


THINGS = ["apple", "boat", "candle", "drum", "engine", "flute", "garden", "hammer", "island", "jacket"]
DEEDS = ["paint", "carry", "repair", "measure", "rotate", "borrow"]


def sixty_symbols() -> docstrings.Symbols:
    """Return sixty short docstrings, which a demo learns in a second."""
    texts = {
        f"tools.{thing}.{deed}": f"To {deed} the {thing}.\n\nWill {deed} one {thing} well. "
        f"Use it to {deed} a {thing} today. You can {deed} any {thing} here."
        for thing in THINGS
        for deed in DEEDS
    }
    return docstrings.Symbols(texts, {"tools.broken": "SyntaxError: invalid syntax"})


class TestDemo:
    def test_trains_evaluates_draws_and_answers(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("matplotlib")
        talk.teach(sixty_symbols(), tmp_path / "out", held_out=30, questions=["repair my boat", "carry an apple"])
        shown = capsys.readouterr()
        assert (tmp_path / "out" / "training.png").stat().st_size > 1000
        assert "P@1" in shown.out
        assert shown.out.index("tools.boat.repair") < shown.out.index("tools.apple.carry")
        assert "left out tools.broken: SyntaxError" in shown.err
        assert "epoch 1/" in shown.err

    def test_output_directory_is_checked_before_training(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("no directory")
        with pytest.raises(NotADirectoryError, match="file: is a file; results go into a directory"):
            demo.run(tmp_path / "file")

    def test_missing_matplotlib_is_reported(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        talk._draw([{"epoch": 1.0, "loss": 1.0, "P@1": 0.5}], tmp_path)
        assert "sparsenet[plot]" in capsys.readouterr().err
        assert not [*tmp_path.iterdir()]

    @pytest.mark.parametrize("end", ["\n", ""])
    def test_interactive_mode_ends_at_an_empty_line_or_end_of_input(
        self, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"measure the drum\n{end}"))
        talk.teach(sixty_symbols(), tmp_path / "out", interactive=True, questions=[])
        shown = capsys.readouterr().out
        assert "> " not in shown
        assert shown.index("measure the drum") < shown.rindex("tools.drum.measure")
