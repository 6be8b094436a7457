"""What the linker sees of the files that are compiled once for each instruction set."""

import importlib.util
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMPILER = sysconfig.get_config_var("CXX") or "g++"

pytestmark = pytest.mark.skipif(
    shutil.which(COMPILER.split()[0]) is None or shutil.which("nm") is None, reason="needs a C++ compiler and nm"
)


def isa_files(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    pytest.importorskip("pybind11")
    monkeypatch.chdir(ROOT)
    spec = importlib.util.spec_from_file_location("sparsenet_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ISA_FILES


def test_levels_share_no_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A weak symbol could be taken from one level's file by all: an illegal instruction on the next older CPU."""
    for source, flags in isa_files(monkeypatch).items():
        compiled = tmp_path / "level.o"
        subprocess.run([*COMPILER.split(), "-std=c++17", "-O2", *flags, "-c", source, "-o", str(compiled)], check=True)
        listing = subprocess.run(["nm", str(compiled)], capture_output=True, text=True, check=True).stdout
        kinds = {line.split()[-1]: line.split()[-2] for line in listing.splitlines()}
        assert not {"W", "V", "u"} & set(kinds.values()), f"{source} has weak symbols:\n{listing}"
        shared = [name for name, kind in kinds.items() if kind.isupper() and kind != "U"]
        assert len(shared) == 1, f"{source} should show the linker its table alone:\n{listing}"
        assert "_table" in shared[0]
