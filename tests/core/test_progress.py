"""Progress shows on terminals and in notebooks, and nowhere else by default."""

import io
import sys
from types import SimpleNamespace

import pytest

from sparsenet.core import progress


@pytest.fixture
def notebook(monkeypatch):
    shell = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return shell


def test_shows_in_notebooks_by_default(notebook):
    assert progress.is_wanted(None)
    assert not progress.is_wanted(False)


def test_does_not_show_in_scripts_by_default(monkeypatch):
    assert not progress.is_wanted(None)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))  # imported, but not running
    assert not progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(config={})))
    assert not progress.in_notebook()  # IPython on a terminal


def test_draws_a_bar_in_a_notebook_without_widgets(notebook, capsys):
    with progress.bar(total=3, desc="work") as drawn:
        drawn.update(3)
    assert "work" in "".join(capsys.readouterr())


def test_a_given_file_gets_text_in_a_notebook_too(notebook):
    file = io.StringIO()
    with progress.bar(file, total=2, desc="work") as drawn:
        drawn.update(2)
    assert "work" in file.getvalue()


def test_rounding_does_not_take_a_bar_beyond_its_end(capsys, monkeypatch):
    monkeypatch.setattr(progress, "A_MOMENT", 0.0)
    with progress.parts_done(0.3, "work", verbose=True) as done:
        for _ in range(4):
            done(0.1)  # three of these are already above 0.3; a bar beyond its end warns
    assert "100%" in capsys.readouterr().err
