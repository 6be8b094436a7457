"""The docstrings of the installed scientific Python packages, the training data of the demo.

Packages whose functions are written in C or assembled at import (NumPy, SciPy, scikit-learn, and some modules of the
standard library) are imported and inspected. All others are parsed without running them.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

#: Packages to import, since importing them has no side effects.
LIVE_PACKAGES = ("numpy", "scipy", "sklearn")
_LIVE_MODULES = """
    array binascii bisect bz2 builtins cmath codecs collections contextvars csv datetime decimal errno fcntl functools
    gc hashlib heapq io ipaddress itertools json locale lzma math mmap operator os os.path pathlib pickle queue random
    re resource select shutil signal socket sqlite3 statistics string struct subprocess sys tempfile threading time
    types unicodedata uuid warnings weakref xml.etree.ElementTree zipfile zlib zoneinfo
"""
#: Modules of the standard library to import, whose docstrings are in C.
LIVE_MODULES = tuple(_LIVE_MODULES.split())
#: Packages to parse, where installed. None is the standard library.
PARSED_PACKAGES = (None, "numba", "matplotlib", "pandas")
_SKIPPED_PARTS = """
    test tests testing conftest setup externals idlelib lib2to3 turtledemo tkinter ensurepip pydoc_data encodings
    site-packages dist-packages distutils f2py typing antigravity this cuda posixpath ntpath
"""
#: Modules with these name parts contain nothing that users look for.
SKIPPED_PARTS = frozenset(_SKIPPED_PARTS.split())

#: Symbols in a module of this name are internal, unless the package exports them.
INTERNAL_PART = "core"


@dataclass
class Symbols:
    """Docstrings by symbol, and the modules that could not be read, with the reason."""

    docstrings: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def collect(
    on_source: Callable[[str], None] = lambda name: None,
    *,
    parsed: Sequence[str | None] = PARSED_PACKAGES,
    packages: Sequence[str] = LIVE_PACKAGES,
    modules: Sequence[str] = LIVE_MODULES,
) -> Symbols:
    """Collect the docstrings of all public symbols; `on_source` receives the name of each package.

    The `parsed` packages are read as source files. The `packages`, with all that is in them, and the `modules` are
    imported.
    """
    found = Symbols()
    for package in parsed:
        on_source(package or "standard library")
        _parse(package, found)
    objects: dict[int, tuple[object, _Alias]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated attributes warn when they are read
        for name in (*packages, *modules):
            if name in packages or name == "builtins":
                on_source(name)
            for path, module in _modules(name, found.problems, deep=name in packages):
                for thing, alias in _members(path, module):
                    _, known = objects.get(id(thing), (thing, alias))
                    objects[id(thing)] = thing, min(alias, known)
    for thing, alias in objects.values():
        if text := _own_docstring(thing):
            found.docstrings[alias.name.removeprefix("builtins.")] = text
    return found


# --- imported objects ---


class _Alias(NamedTuple):
    """A name of an object. The smallest alias is shown."""

    inherited: bool
    borrowed: bool  # from another module
    depth: int
    length: int
    name: str


def _modules(name: str, problems: dict[str, str], *, deep: bool) -> Iterator[tuple[str, ModuleType]]:
    """Import a module, and all modules in it if `deep`."""
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # optional modules may raise anything
        problems[name] = f"{type(error).__name__}: {error}"
        return
    yield name, module
    for info in pkgutil.iter_modules(getattr(module, "__path__", ())) if deep else ():
        if _is_public(info.name):
            yield from _modules(f"{name}.{info.name}", problems, deep=True)


def _members(path: str, module: ModuleType) -> Iterator[tuple[object, _Alias]]:
    """Yield the public functions, classes and methods of a module with their names."""
    exported = getattr(module, "__all__", None)
    root = path.partition(".")[0]
    for name, thing in vars(module).items():
        if name.startswith("_") or inspect.ismodule(thing):
            continue
        home = str(getattr(thing, "__module__", None) or path)
        is_exported = name in exported if exported is not None else home.partition(".")[0] == root
        if not is_exported:
            continue
        borrowed = not home.startswith(path)
        yield thing, _alias(f"{path}.{name}", borrowed=borrowed, inherited=False)
        for member in dir(thing) if inspect.isclass(thing) else ():
            value = inspect.getattr_static(thing, member, None)
            if not member.startswith("_") and not inspect.isclass(value):
                inherited = member not in vars(thing)
                yield value, _alias(f"{path}.{name}.{member}", borrowed=borrowed, inherited=inherited)


def _alias(name: str, *, borrowed: bool, inherited: bool) -> _Alias:
    return _Alias(inherited, borrowed, name.count("."), len(name), name)


def _own_docstring(thing: object) -> str | None:
    """Return the docstring of the object itself, without one inherited from its class."""
    text = getattr(thing, "__doc__", None)
    if not isinstance(text, str) or text == type(thing).__doc__:
        return None
    return text


def _is_public(name: str) -> bool:
    return not name.startswith("_") and name not in SKIPPED_PARTS


# --- source files ---


def _parse(package: str | None, found: Symbols) -> None:
    folder = _folder(package)
    if folder is None:
        return
    defined: dict[str, str] = {}
    exports: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        parts = [*([package] if package else []), *path.relative_to(folder).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        if SKIPPED_PARTS.intersection(parts):
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError) as error:
            found.problems[module] = f"{type(error).__name__}: {error}"
            continue
        defined |= {f"{module}.{name}": text for name, text in _definitions(tree)}
        if is_package or parts[-1] == "api":
            exports |= _exports(tree, module)
    for name, text in defined.items():
        name = _shortest(name, exports)
        if all(map(_is_public, name.split("."))) and INTERNAL_PART not in name.split("."):
            found.docstrings[name] = text


def _folder(package: str | None) -> Path | None:
    if package is None:
        return Path(sysconfig.get_path("stdlib"))
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else None


def _definitions(tree: ast.Module | ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield the public functions, classes and methods with a docstring."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and _is_public(node.name):
            text = ast.get_docstring(node)
            if text:
                yield node.name, text
            if isinstance(node, ast.ClassDef):
                yield from ((f"{node.name}.{name}", text) for name, text in _definitions(node))


def _exports(tree: ast.Module, package: str) -> dict[str, str]:
    """Return the re-exports of a package: `{"package.module.name": "package.name"}`, or with ``*``."""
    exports: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            source = ".".join(filter(None, [package if node.level else "", node.module]))
            if source.partition(".")[0] == package.partition(".")[0]:
                exports |= {f"{source}.{item.name}": f"{package}.{item.asname or item.name}" for item in node.names}
    return exports


def _shortest(name: str, exports: dict[str, str]) -> str:
    """Follow re-exports to the shortest name of a symbol."""
    met = [name]
    while (further := _exported_as(met[-1], exports)) and further not in met:
        met.append(further)
    return min(met, key=lambda candidate: candidate.count("."))


def _exported_as(name: str, exports: dict[str, str]) -> str | None:
    parts = name.split(".")
    for i in range(len(parts) - 1, 0, -1):
        module, (first, *rest) = ".".join(parts[:i]), parts[i:]
        target = exports.get(f"{module}.{first}") or exports.get(f"{module}.*", "").replace("*", first)
        if target and target.count(".") <= i:
            return ".".join([target, *rest])
    return None
