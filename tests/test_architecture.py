"""Imports run one way, and only `kernels` knows what the kernels are made of."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "sparsenet"
CHAIN = ["cli", "blend", "tree", "text", "estimators", "training", "model", "output", "layers", "optim", "kernels"]
LEAVES = ["data", "metrics", "storage", "_validation", "_matrices", "_memory", "_machine"]


def imports(nodes: list[ast.stmt]) -> Iterator[str]:
    """Yield the modules imported, also inside of functions, but not for annotations alone."""
    for node in nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{item.name}" for item in node.names)
        for field in ("body", "orelse", "finalbody", "handlers"):
            yield from imports(getattr(node, field, []))


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


SOURCES = sorted(PACKAGE.rglob("*.py"))
IMPORTS = {path: set(imports(ast.parse(path.read_text()).body)) for path in SOURCES}
GRAPH: dict[str, set[str]] = {part(path): set() for path in SOURCES}
for path, names in IMPORTS.items():
    inner = {name.split(".")[1] for name in names if name.startswith("sparsenet.")}
    GRAPH[part(path)] |= {name for name in inner if name in GRAPH} - {part(path)}


def below(name: str) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = GRAPH[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_no_import_runs_in_a_circle() -> None:
    order = [*TopologicalSorter(GRAPH).static_order()]
    assert set(order) == set(GRAPH)


@pytest.mark.parametrize("position", range(1, len(CHAIN)))
def test_imports_run_down_the_chain(position: int) -> None:
    lower = CHAIN[position]
    assert below(lower).isdisjoint(CHAIN[:position]), f"{lower} must not know what is built on it"
    assert lower in below(CHAIN[0])


@pytest.mark.parametrize("leaf", LEAVES)
def test_leaves_know_the_kernels_at_most(leaf: str) -> None:
    assert below(leaf) & set(CHAIN) <= {"kernels"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_kernels_import_what_they_are_made_of(path: Path) -> None:
    roots = {name.partition(".")[0] for name in IMPORTS[path]}
    assert "torch" not in roots
    if part(path) != "kernels":
        assert "numba" not in roots
        assert not any(name.startswith("sparsenet._core") for name in IMPORTS[path])


def test_importing_sparsenet_imports_no_more_than_it_needs() -> None:
    unwanted = ["numba", "matplotlib", "typer", "sparsenet.cli", "torch", "pandas"]
    code = f"import sys, sparsenet; print(*(name for name in {unwanted} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
