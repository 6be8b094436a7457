"""Imports run one way: each file is checked against the order that docs/architecture.md gives, annotations included."""

import ast
import subprocess
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "sparsenet"
#: From the lowest layer to the highest. A file imports from lower layers and from its own package only.
LAYERS = [
    ["kernels"],
    ["core"],
    ["data", "storage", "metrics", "index", "selection"],
    ["features"],
    ["engines"],
    ["estimators"],
    ["plots"],
    ["demo"],
    ["cli"],
]
#: Below `engines`, likewise: the last two combine the others.
ENGINES = [["network", "tree", "linear", "neighbors"], ["text", "blend"]]
#: Lazy imports of public names, and the old paths of pickles: everything, at first use.
ENTRY_POINTS = {"__init__.py", "__main__.py"}
SOURCES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def imported(path: Path) -> set[str]:
    """Return the modules of the package that a file imports, inside functions and for annotations too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{item.name}" for item in node.names]
        for name in names:
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            if name and name != module_of(path):
                found.add(name)
    return found


IMPORTS = {module: imported(path) for module, path in MODULES.items()}


def rank(layers: list[list[str]], name: str) -> int:
    return next(i for i, layer in enumerate(layers) if name in layer)


def is_allowed(module: str, other: str) -> bool:
    """Tell whether `module` may import `other`."""
    own, its = module.split(".")[1:], other.split(".")[1:]
    if not its:
        return True  # `from sparsenet import kernels`, or the version
    if own[0] != its[0]:
        return rank(LAYERS, own[0]) > rank(LAYERS, its[0])
    if own[0] != "engines" or len(its) == 1 or own[1] == its[1]:
        return True
    return rank(ENGINES, own[1]) > rank(ENGINES, its[1])


@pytest.mark.parametrize("module", [m for m, p in MODULES.items() if p.parent != PACKAGE])
def test_imports_only_lower_layers(module: str) -> None:
    assert [other for other in sorted(IMPORTS[module]) if not is_allowed(module, other)] == []


def test_no_circular_imports() -> None:
    # A package's __init__ names what its modules export; an import of the package alone is one of these modules.
    graph = {
        module: {other for other in others if MODULES[other].name != "__init__.py"}
        for module, others in IMPORTS.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {' -> '.join(error.args[1])}")


def test_every_package_has_its_place() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == {name for layer in LAYERS for name in layer}
    assert {path.name for path in PACKAGE.glob("*.py")} == ENTRY_POINTS


def test_file_names_are_unique() -> None:
    names = Counter(path.name for path in SOURCES if path.name not in ENTRY_POINTS)
    assert [name for name, count in names.items() if count > 1] == []


def test_class_names_are_unique() -> None:
    classes = Counter(
        node.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []


@pytest.mark.parametrize("module", MODULES)
def test_only_kernels_import_their_backends(module: str) -> None:
    roots = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            roots |= {item.name for item in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            roots.add(node.module)
    assert not any(name.split(".")[0] == "torch" for name in roots)
    if module.split(".")[1:2] != ["kernels"]:
        assert not any(name.split(".")[0] == "numba" or name.startswith("sparsenet._core") for name in roots)


def test_import_sparsenet_loads_little() -> None:
    unwanted = ["numba", "matplotlib", "typer", "sparsenet.cli", "torch", "pandas"]
    code = f"import sys, sparsenet; print(*(name for name in {unwanted} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
