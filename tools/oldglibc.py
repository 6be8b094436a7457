"""Link against the C library of 2018 on a newer system, with stubs that have no symbol version above 2.28.

A library that is linked here would ask for the newest version of each symbol, and fail to load on an older system.
glibc keeps the old versions. A stub that names only those makes the linker choose them. auditwheel checks the result.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

NEWEST = (2, 28)
LIBRARIES = {"c": "libc.so.6", "m": "libm.so.6", "pthread": "libpthread.so.0"}
# New in 2.32: the C++ library skips atomic operations if it is not zero. Zero is always right.
SINGLE_THREADED = '__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;\n'


def link_flags(compiler: str, folder: Path) -> str:
    """Make the stubs in `folder` and return the flags that link against them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in LIBRARIES.items():
        make_stub(compiler, name, file, folder)
    extra = folder / "single_threaded.o"
    compile_text(compiler, SINGLE_THREADED, "c", "-fPIC", "-c", "-o", str(extra))
    return f"-s -L{folder} {extra} -static-libstdc++ -static-libgcc"


def compile_text(compiler: str, text: str, language: str, *arguments: str) -> None:
    """Compile a text."""
    subprocess.run([compiler, "-x", language, "-", *arguments], input=text, text=True, check=True)


def make_stub(compiler: str, name: str, file: str, folder: Path) -> None:
    """Make an empty lib`name`.so with the symbols of `file` in the versions of old systems."""
    chosen = old_versions(real_path(compiler, file))
    lines, versions = [], sorted({version for version, _ in chosen.values()}, key=as_number)
    for i, (symbol, (version, kind)) in enumerate(sorted(chosen.items())):
        lines.append(f".globl stub{i}\n.type stub{i}, %{kind}\nstub{i}: .quad 0\n.size stub{i}, 8")
        lines.append(f".symver stub{i}, {symbol}@@@{version}")
    script = folder / f"{name}.map"
    script.write_text("".join(f"{version} {{ }};\n" for version in versions))
    stub = folder / file
    flags = ("-shared", "-nostdlib", f"-Wl,-soname,{file}", f"-Wl,--version-script={script}", "-o", str(stub))
    compile_text(compiler, ".data\n" + "\n".join(lines) + "\n", "assembler", *flags)
    rest = real_path(compiler, "libc_nonshared.a") if name == "c" else ""
    (folder / f"lib{name}.so").write_text(f"GROUP ( {stub} {rest} )\n")


def real_path(compiler: str, file: str) -> Path:
    """Return the path of one of the compiler's libraries."""
    out = subprocess.run([compiler, f"-print-file-name={file}"], capture_output=True, text=True, check=True).stdout
    return Path(out.strip()).resolve(strict=True)


def as_number(version: str) -> tuple[int, ...]:
    """Return 2, 2, 5 for GLIBC_2.2.5."""
    return tuple(int(part) for part in version.removeprefix("GLIBC_").split("."))


def old_versions(library: Path) -> dict[str, tuple[str, str]]:
    """Return for each symbol its newest version that is old enough, and its kind: function or object."""
    command = ["readelf", "--dyn-syms", "--wide", str(library)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, tuple[str, str]] = {}
    for kind, symbol, version in re.findall(r" (FUNC|IFUNC|OBJECT) .* (\w+)@@?(GLIBC_[\d.]+)\b", listing):
        if as_number(version) <= NEWEST and as_number(version) > as_number(found.get(symbol, ("GLIBC_0", ""))[0]):
            found[symbol] = (version, "object" if kind == "OBJECT" else "function")
    return found
