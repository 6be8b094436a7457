"""README, docs and docstrings: their snippets run, and their options, links and names exist."""

from __future__ import annotations

import csv
import doctest
import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import sparsenet
from sparsenet.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOTES = [ROOT / "bench/README.md", *sorted(ROOT.glob("bench/notes/*.md"))]
LINK = re.compile(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)|src=\"(?!https?://)([^\"]+)\"")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SOURCES = [*ROOT.glob("sparsenet/**/*.py"), *ROOT.glob("csrc/**/*.cpp"), ROOT / "setup.py", ROOT / "Makefile"]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
#: Packages that pages may import although the tests do not install them: a page is skipped where they are missing.
OPTIONAL = ("torch", "lightning", "transformers", "onnxruntime")
#: Their own warnings are none of ours.
FRAMEWORKS = {"lightning", "transformers"}

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


# --- snippets ---


def write_points(path: Path, n: int, rng: np.random.Generator) -> None:
    """Write points of 20 labels, each with ten features of its own, in the format of the XMC repository."""
    labels = rng.integers(0, 20, n)
    features = [np.unique(10 * label + rng.integers(0, 10, 6)) for label in labels]
    lines = [f"{label} " + " ".join(f"{f}:1" for f in row) for label, row in zip(labels, features, strict=True)]
    path.write_text("\n".join([f"{n} 200 20", *lines]) + "\n")


def write_table(path: Path, header: list[str], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture
def reader_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder that holds small data under the file names of the shell snippets."""
    rng = np.random.default_rng(0)
    for name, n in (("train", 400), ("valid", 100), ("test", 100), ("new", 20)):
        write_points(tmp_path / f"{name}.txt", n, rng)
    for name, n in (("histories", 400), ("new-histories", 20)):
        write_points(tmp_path / f"{name}.txt", n, rng)
        lines = (tmp_path / f"{name}.txt").read_text().splitlines()
        (tmp_path / f"{name}.txt").write_text("\n".join([f"{n} 200 200", *lines[1:]]) + "\n")
    kinds = [("printer broken", "no paper in tray", "hardware"), ("cannot log in", "password rejected", "accounts")]
    tickets = [(f"{title} {i}", body, team) for i in range(20) for title, body, team in kinds]
    for name in ("tickets", "new-tickets"):
        write_table(tmp_path / f"{name}.csv", ["title", "body", "team"], tickets)
    flights = [(f"C{i % 6}", str(i * 7 % 24), f"city {i % 2}-{i * 7 % 24 // 12}") for i in range(120)]
    write_table(tmp_path / "flights.csv", ["carrier", "hour", "dest"], flights)
    reviews = [(f"a lovely film {i}", "good") for i in range(20)] + [(f"a dull film {i}", "bad") for i in range(20)]
    for name in ("reviews", "held-out-reviews"):
        write_table(tmp_path / f"{name}.csv", ["review", "stars"], reviews)
    log = [(f"user {i % 40}", f"item {i * i % 23}", f"2026-03-{1 + i // 20:02}") for i in range(500)]
    for name, part in (("log", log[:400]), ("later-log", log[400:])):
        write_table(tmp_path / f"{name}.csv", ["user", "item", "time"], part)
    things = ("tent", "stove", "flour", "kettle", "helmet", "frame", "map")
    later = [(f"user {i}", thing, "2027-01-01") for i in range(200) for thing in things]
    write_table(tmp_path / "later-purchases.csv", ["user", "item", "when"], later)
    (tmp_path / "users.txt").write_text("".join(f"user {i}\n" for i in range(20)))
    (tmp_path / "baskets.txt").write_text("tent, stove\nkettle\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_python(block: Block, names: dict[str, Any], document: str) -> None:
    source = "\n" * block.line + block.text  # so that a traceback names the line of the document
    exec(compile(source, f"<{document}>", "exec"), names)


def run_session(block: Block, names: dict[str, Any], document: str) -> None:
    """Run a block with prompts, whose outputs must be those shown."""
    test = doctest.DocTestParser().get_doctest(block.text, names, document, document, block.line)
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, out=report.append, clear_globs=False)
    assert runner.failures == 0, "".join(report)
    names |= test.globs


#: Programs that the tests run. A block with any other, such as pip or make, is only checked by `check` below.
RUN = {"sparsenet", "cat", "head", "sort", "uniq"}


def pipelines(block: Block) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of a shell block as tokens, without comments, each with its number in the document."""
    text = block.text.replace("\\\n", "  ")
    for number, line in enumerate(text.splitlines(), block.line + 1):
        tokens = shlex.shlex(line, posix=True, punctuation_chars="|<>&;")
        tokens.whitespace_split = True
        words = list(tokens)
        if words:
            yield number, words


def stages(words: list[str]) -> list[list[str]]:
    return [list(part) for is_bar, part in groupby(words, lambda word: word == "|") if not is_bar]


def run_stage(words: list[str], given: bytes) -> bytes:
    """Run one program of a pipeline; sparsenet in this process, which saves its imports, unless it reads a pipe."""
    if "<" in words:
        given, words = Path(words[-1]).read_bytes(), words[:-2]
    if words[0] != "sparsenet" or given:
        command = [sys.executable, "-m", *words] if words[0] == "sparsenet" else words
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout
    result = CliRunner().invoke(app, words[1:], input=given)
    assert result.exit_code == 0, f"{' '.join(words)}: {result.output}"
    return result.stdout_bytes


def run_shell(block: Block, document: str) -> bool:
    """Run a shell block, and return whether it was run: blocks that install or build are not."""
    found = list(pipelines(block))
    if not all(stage[0] in RUN for _, words in found for stage in stages(words)):
        return False
    for number, words in found:
        output = b""
        for stage in stages(words):
            try:
                output = run_stage(stage, output)
            except Exception as error:
                raise AssertionError(f"{document}, line {number}: {error}") from error
    return True


@documents
def test_snippets_run(path: Path, reader_folder: Path) -> None:
    """The blocks of a document run one after the other, as a reader would run them."""
    found = blocks(path, "python", "pycon", "sh")
    needed = {name for name in OPTIONAL for block in found if re.search(rf"^(import|from) {name}\b", block.text, re.M)}
    for name in sorted(needed):
        pytest.importorskip(name)
    if needed & FRAMEWORKS:
        warnings.simplefilter("ignore")  # until the end of this test
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in found:
        if block.language == "python":
            run_python(block, names, path.name)
        elif block.language == "pycon":
            run_session(block, names, path.name)
        else:
            run_shell(block, path.name)


def test_most_shell_snippets_run(reader_folder: Path) -> None:
    """A snippet that only looks as if it could not run would go untested."""
    shown = [block for path in DOCUMENTS for block in blocks(path, "sh") if "sparsenet train" in block.text]
    assert len(shown) > 5
    for block in shown:
        assert all(stage[0] in RUN for _, words in pipelines(block) for stage in stages(words)), block


def test_a_failing_shell_snippet_is_seen(reader_folder: Path) -> None:
    with pytest.raises(AssertionError, match=r"page\.md, line 4: .*no-such-file"):
        run_shell(Block("sh", "sparsenet info\nsparsenet predict no-such-file train.txt | head\n", 2), "page.md")


def test_pages_have_only_known_languages() -> None:
    """A fence with another language name would be shown and never run."""
    checked_elsewhere = {"scale.md": {"yaml", "bash", "dockerfile"}}  # by tests/distributed/test_scale_page.py
    for path in DOCUMENTS:
        for match in FENCE.finditer(path.read_text()):
            known = {"", "python", "pycon", "sh", "text"} | checked_elsewhere.get(path.name, set())
            assert match[1] in known, f"{path.name}: {match[0]}"


# --- docstrings and names ---


def modules_with_examples() -> list[str]:
    paths = sorted((ROOT / "sparsenet").rglob("*.py"))
    shown = [path for path in paths if re.search(r"^ *>>> ", path.read_text(), re.MULTILINE)]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in shown]


@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_in_docstrings_run(module: str) -> None:
    if module.startswith("sparsenet.torch"):
        pytest.importorskip("torch")
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


def test_the_api_page_lists_every_public_name() -> None:
    listed = re.findall(r"^::: (sparsenet\S*)\.(\w+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
    assert sorted(name for home, name in listed if home == "sparsenet") == sparsenet.__all__
    for home in ("data", "metrics", "plots"):
        module = importlib.import_module(f"sparsenet.{home}")
        also_here = {name for own, name in listed if own == module.__name__} | set(sparsenet.__all__)
        assert set(module.__all__) <= also_here
        assert all(hasattr(module, name) for own, name in listed if own == module.__name__)


@pytest.mark.parametrize("module", ["data", "metrics", "plots", "samplers", "storage"])
def test_modules_that_documents_name_are_there_without_more_imports(module: str) -> None:
    code = f"import sparsenet; assert sparsenet.{module}.__spec__.name.endswith('.{module}')"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- commands ---


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
OTHERS = {"git", "cd", "cat", "head", "pre-commit", "zcat", "sort", "uniq", "sudo"}


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


def test_each_note_is_linked() -> None:
    linked = {name for name, *_ in LINK.findall(NOTES[0].read_text())}
    assert {str(path.relative_to(NOTES[0].parent)) for path in NOTES[1:]} <= linked


def test_each_result_is_named_where_its_figures_are_quoted() -> None:
    prose = "\n".join(path.read_text() for path in [*NOTES, *DOCUMENTS])
    named = set(re.findall(r"[\w.-]+\.(?:json|svg)", prose))
    results = [path.name for path in sorted((ROOT / "bench/results").iterdir())]
    assert len(results) > 50
    assert [name for name in results if name not in named] == []


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs/hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("markdown", "source", "page", "expected"),
    [
        ("[a](api.md#x)", "docs/guide/texts.md", "guide/texts.md", "[a](api.md#x)"),
        ("[a](../api.md)", "docs/guide/texts.md", "guide/texts.md", "[a](../api.md)"),
        ("[a](../../SECURITY.md)", "docs/guide/texts.md", "guide/texts.md", "[a](../security.md)"),
        ("[a](docs/guide/texts.md)", "CONTRIBUTING.md", "contributing.md", "[a](guide/texts.md)"),
        ("[a](CHANGELOG.md)", "CONTRIBUTING.md", "contributing.md", "[a](changelog.md)"),
        ("[notes](../bench/README.md#x)", "docs/api.md", "api.md", "notes (`bench/README.md` in the repository)"),
        ("[`LICENSE`](LICENSE)", "CONTRIBUTING.md", "contributing.md", "`LICENSE`"),
        ("[a](https://example.org/b.md)", "docs/api.md", "api.md", "[a](https://example.org/b.md)"),
        ("![a](blend.svg)", "docs/index.md", "index.md", "![a](blend.svg)"),
    ],
)
def test_links_on_the_site(hooks: ModuleType, markdown: str, source: str, page: str, expected: str) -> None:
    assert hooks.site_links(markdown, source, page) == expected


# --- what must agree ---


def test_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    latest = re.search(r"^## \[(\d\S*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert cited is not None
    assert latest is not None
    assert version == cited[1] == latest[1]
    assert f"date-released: {latest[2]}\n" in (ROOT / "CITATION.cff").read_text()


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_actions_are_pinned_by_commit() -> None:
    workflows = list((ROOT / ".github/workflows").glob("*.yml"))
    uses = [line.strip() for path in workflows for line in path.read_text().splitlines() if "uses:" in line]
    assert uses
    for line in uses:
        assert re.fullmatch(r"(- )?uses: [\w/.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
