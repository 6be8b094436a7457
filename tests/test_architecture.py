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
    ["torch", "distributed", "temporal"],
    ["demo"],
    ["cli"],
]
#: Optional packages on top: nothing else imports them.
WINGS = {"torch", "distributed", "temporal"}
#: Below `engines`, likewise: the later ones combine the others.
ENGINES = [["network", "tree", "linear", "neighbors", "boosting"], ["blend", "recommender"], ["text", "table"]]
#: Lazy imports of public names, and the old paths of pickles: everything, at first use.
ENTRY_POINTS = {"__init__.py", "__main__.py"}
#: Any file may import `__version__` from the root; only `kernels` may import the extension, as another test checks.
NOT_PUBLIC = ("sparsenet.__", "sparsenet._core")
SOURCES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def exported(path: Path) -> dict[str, str]:
    """Return what a package's `__init__` imports: the qualified name behind each of its own names."""
    return {
        item.asname or item.name: f"{node.module}.{item.name}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for item in node.names
    }


#: The root imports public names at first use, and no module may depend on that.
EXPORTS = {
    module: exported(path) for module, path in MODULES.items() if path.name == "__init__.py" and path.parent != PACKAGE
}


def modules_behind(name: str) -> set[str]:
    """Return the module of the package that defines a qualified name, and the `__init__` files that lead there."""
    if name in MODULES:
        return {name}
    owner, _, own = name.rpartition(".")
    if own in EXPORTS.get(owner, {}):
        return {owner, *modules_behind(EXPORTS[owner][own])}
    return modules_behind(owner) if owner else set()


def imported(path: Path, source: str) -> set[str]:
    """Return the modules of the package that a file imports, inside functions and for annotations too."""
    found: set[str] = set()
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [item.name for item in node.names if item.name != PACKAGE.name]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{item.name}" for item in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == PACKAGE.name:
            names.append(f"{PACKAGE.name}.{node.attr}")  # after `import sparsenet`
    for name in names:
        if not name.startswith(NOT_PUBLIC):
            found |= modules_behind(name)
    return found - {module_of(path)}


IMPORTS = {module: imported(path, path.read_text()) for module, path in MODULES.items()}


def rank(layers: list[list[str]], name: str) -> int:
    return next(i for i, layer in enumerate(layers) if name in layer)


def is_allowed(module: str, other: str) -> bool:
    """Tell whether `module` may import `other`."""
    own, its = module.split(".")[1:], other.split(".")[1:]
    if not its:
        return False  # a public name: import it from the module that defines it
    if own[0] != its[0]:
        return its[0] not in WINGS and rank(LAYERS, own[0]) > rank(LAYERS, its[0])
    if own[0] != "engines" or own[1] == its[1]:
        return True
    return rank(ENGINES, own[1]) > rank(ENGINES, its[1])


@pytest.mark.parametrize("module", [m for m, p in MODULES.items() if p.parent != PACKAGE])
def test_imports_only_lower_layers(module: str) -> None:
    assert [other for other in sorted(IMPORTS[module]) if not is_allowed(module, other)] == []


@pytest.mark.parametrize(
    ("line", "modules"),
    [
        ("from sparsenet import kernels", ["sparsenet.kernels"]),
        ("from sparsenet import BlendClassifier", ["sparsenet"]),
        ("import sparsenet\nsparsenet.load('model')", ["sparsenet"]),
        ("from sparsenet.storage import save", ["sparsenet.storage", "sparsenet.storage.directory"]),
        (
            "from sparsenet.index.hashing import LSHConfig as C",
            ["sparsenet.index.hashing", "sparsenet.index.hashing.lsh_config"],
        ),
        ("from sparsenet.kernels import backend", ["sparsenet.kernels"]),
        ("from sparsenet import __version__", []),
    ],
)
def test_finds_the_modules_behind_an_import(line: str, modules: list[str]) -> None:
    assert imported(PACKAGE / "core" / "new.py", line) == set(modules)
    assert all(is_allowed("sparsenet.core.new", module) for module in modules) == (
        modules in ([], ["sparsenet.kernels"])
    )


def test_no_circular_imports() -> None:
    graph = {module: others for module, others in IMPORTS.items() if MODULES[module].parent != PACKAGE}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {' -> '.join(error.args[1])}")


def test_every_package_has_its_place() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == {name for layer in LAYERS for name in layer}
    assert {path.name for path in PACKAGE.glob("*.py")} == ENTRY_POINTS


@pytest.mark.parametrize("module", EXPORTS)
def test_packages_have_the_names_in_all(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if "__getattr__" in functions:
        pytest.skip("imports names at first use")
    values = [
        each.value for each in tree.body if isinstance(each, ast.Assign) and ast.unparse(each).startswith("__all__")
    ]
    assert {name for value in values for name in ast.literal_eval(value)} <= EXPORTS[module].keys() | functions


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
    if module.split(".")[1:2] != ["torch"]:
        assert not any(name.split(".")[0] == "torch" for name in roots)
    if module.split(".")[1:2] != ["kernels"]:
        assert not any(name.split(".")[0] == "numba" or name.startswith("sparsenet._core") for name in roots)


def test_import_sparsenet_loads_little() -> None:
    unwanted = ["numba", "matplotlib", "typer", "sparsenet.cli", "torch", "pandas"]
    code = f"import sys, sparsenet; print(*(name for name in {unwanted} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
