"""What the documents and docstrings say is run: code blocks, examples, options, links, names."""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

import sparsenet
from sparsenet.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(ROOT.glob("docs/*.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOTES = [ROOT / "bench/README.md", *sorted(ROOT.glob("bench/notes/*.md"))]
LINK = re.compile(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)|src=\"(?!https?://)([^\"]+)\"")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SOURCES = [*ROOT.glob("sparsenet/**/*.py"), *ROOT.glob("csrc/*.cpp"), ROOT / "setup.py", ROOT / "Makefile"]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

documents = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


class Block(NamedTuple):
    """A fenced block of a document, and the line before its first."""

    language: str
    text: str
    line: int


def blocks(path: Path, *languages: str) -> list[Block]:
    text = path.read_text()
    found = [Block(match[1], match[2], text.count("\n", 0, match.start()) + 1) for match in FENCE.finditer(text)]
    return [block for block in found if block.language in languages]


# --- Python ---


def run_session(block: Block, names: dict[str, Any], document: str) -> None:
    """Run a block with prompts, whose outputs must be those shown."""
    test = doctest.DocTestParser().get_doctest(block.text, names, document, document, block.line)
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, out=report.append, clear_globs=False)
    assert runner.failures == 0, "".join(report)
    names |= test.globs


@documents
def test_python_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a document run one after the other, as a reader would run them, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(path, "python", "pycon"):
        if block.language == "pycon":
            run_session(block, names, path.name)
        else:
            source = "\n" * block.line + block.text  # so that a traceback names the line of the document
            exec(compile(source, f"<{path.name}>", "exec"), names)


def modules_with_examples() -> list[str]:
    paths = sorted((ROOT / "sparsenet").rglob("*.py"))
    shown = [path for path in paths if re.search(r"^ *>>> ", path.read_text(), re.MULTILINE)]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in shown]


@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_in_docstrings_run(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))  # prints what differs
    assert result.failed == 0
    assert result.attempted > 0


def public_names() -> list[tuple[str, str]]:
    homes = ("sparsenet", "sparsenet.data", "sparsenet.metrics")
    return [(home, name) for home in homes for name in importlib.import_module(home).__all__]


@pytest.mark.parametrize(("home", "name"), public_names())
def test_every_public_name_has_an_example(home: str, name: str) -> None:
    documented = getattr(importlib.import_module(home), name).__doc__
    assert documented
    assert ">>>" in documented


def test_the_list_of_names_is_complete() -> None:
    listed = re.findall(r"^### `(\w+)`", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sparsenet.__all__


@pytest.mark.parametrize("module", ["data", "metrics", "plots", "samplers", "storage"])
def test_modules_that_documents_name_are_there_without_more_imports(module: str) -> None:
    code = f"import sparsenet; assert sparsenet.{module}.__name__ == 'sparsenet.{module}'"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the shell ---


def commands(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the commands of a document, each with the number of its line and as a list of words."""
    for block in blocks(path, "sh"):
        for number, line in enumerate(block.text.replace("\\\n", "  ").splitlines(), block.line + 1):
            words = shlex.split(re.sub(r" [<>] *\S+", "", line), comments=True)
            for is_operator, command in groupby(words, {"|", "&&", ";"}.__contains__):
                if not is_operator:
                    yield number, list(command)


def check_sparsenet(words: list[str]) -> None:
    """Have the command line parse the words, without running anything: wrong options and values raise."""
    group: Any = typer.main.get_command(app)
    group.commands[words[0]].make_context(words[0], words[1:])


def check_make(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        name, is_variable, _ = word.partition("=")
        assert re.search(rf"\$\({name}\)" if is_variable else rf"^{name}:", makefile, re.MULTILINE), word


def check_pip(words: list[str]) -> None:
    for extra in re.findall(r"\[([^]]+)\]", " ".join(words)):
        assert set(extra.split(",")) <= set(EXTRAS), extra


def check_python(words: list[str]) -> None:
    if words[0] != "-m":
        assert (ROOT / words[0]).exists(), words[0]


CHECKS = {"sparsenet": check_sparsenet, "make": check_make, "pip": check_pip, "python": check_python}
OTHERS = {"git", "cd", "head", "pre-commit", "zcat", "sort", "uniq", "sudo"}


def check(words: list[str]) -> None:
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):
        variable = words.pop(0).partition("=")[0]
        assert any(variable in source.read_text() for source in SOURCES), f"nothing reads {variable}"
    program = words[0].removeprefix(".venv/bin/")
    if program not in OTHERS:
        CHECKS[program](words[1:])


@documents
def test_commands_exist_with_the_options_shown(path: Path) -> None:
    for line, words in commands(path):
        try:
            check(words)
        except Exception as error:
            raise AssertionError(f"{path.name}, line {line}: {' '.join(words)}: {error!r}") from error


def test_a_command_with_a_wrong_option_would_be_seen() -> None:
    check(shlex.split("SPARSENET_ISA=avx2 sparsenet train a.txt --model b --epochs 3"))
    for wrong in (
        "sparsenet train a.txt --model b --epoch-count 3",
        "sparsenet tune",
        "make all",
        "NO_SUCH=1 make test",
    ):
        with pytest.raises(Exception):  # noqa: B017, PT011, each kind of check has its own
            check(shlex.split(wrong))


# --- links ---


def anchors(path: Path) -> set[str]:
    """Return the names that GitHub gives to the headings of a document."""
    headings = HEADING.findall(FENCE.sub("", path.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS + NOTES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    prose = FENCE.sub("", path.read_text())
    for name, anchor, source in LINK.findall(prose):
        target = path.parent / (name or source) if name or source else path
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target}#{anchor}"


def test_there_is_a_way_to_each_note() -> None:
    linked = {name for name, *_ in LINK.findall(NOTES[0].read_text())}
    assert {str(path.relative_to(NOTES[0].parent)) for path in NOTES[1:]} <= linked
