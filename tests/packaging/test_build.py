"""Levels export only their kernel tables, and numbers are read correctly with other C++ libraries too."""

import importlib.util
import os
import random
import shutil
import struct
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.support.data_cases import HARD_NUMBERS, nearest_float32

ROOT = Path(__file__).parents[2]
COMPILER = sysconfig.get_config_var("CXX") or "g++"
#: The emulator that runs compiled programs, if this machine cannot.
RUNNER = os.environ.get("SPARSENET_TEST_RUNNER", "").split()

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


@pytest.mark.slow
def test_levels_share_no_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All levels could share one level's weak symbol, which would be an illegal instruction on older CPUs."""
    for source, flags in isa_files(monkeypatch).items():
        compiled = tmp_path / "level.o"
        subprocess.run([*COMPILER.split(), "-std=c++17", "-O2", *flags, "-c", source, "-o", str(compiled)], check=True)
        listing = subprocess.run(["nm", str(compiled)], capture_output=True, text=True, check=True).stdout
        kinds = {line.split()[-1]: line.split()[-2] for line in listing.splitlines()}
        assert not {"W", "V", "u"} & set(kinds.values()), f"{source} has weak symbols:\n{listing}"
        shared = [name for name, kind in kinds.items() if kind.isupper() and kind != "U"]
        assert len(shared) == 1, f"{source} should show the linker its table alone:\n{listing}"
        assert "_table" in shared[0]


def many_numbers() -> list[str]:
    """Return numbers of every size with more digits than the fast path takes, and numbers that are hard to round."""
    rng = random.Random(0)

    def digits(n: int) -> str:
        return "".join(rng.choices("0123456789", k=n))

    drawn = [f"{digits(rng.randint(1, 30))}.{digits(rng.randint(0, 30))}e{rng.randint(-70, 5)}" for _ in range(300)]
    return [*HARD_NUMBERS, *drawn, "4.9e-324", "1.7976931348623157e308", "0." + "0" * 310 + digits(40)]


@pytest.mark.parametrize("define", [[], ["-DSPARSENET_NO_FLOAT_FROM_CHARS"]], ids=["from_chars", "strtod"])
def test_numbers_round_correctly_without_from_chars_too(tmp_path: Path, define: list[str]) -> None:
    """Apple's library has no std::from_chars for float and double."""
    program, texts = tmp_path / "decimals", many_numbers()
    source = str(ROOT / "tests/native/decimals.cpp")
    subprocess.run([*COMPILER.split(), "-std=c++17", *define, source, "-o", str(program)], check=True)
    lines = "\n".join([*texts, "1e400", "0x10", "1e", "inf", "nan", "1,5", ""])
    done = subprocess.run([*RUNNER, program], input=lines, text=True, capture_output=True, check=True)
    found = [line.split() for line in done.stdout.splitlines()]
    for text, (as_double, as_float) in zip(texts, found, strict=False):
        assert as_double == struct.pack(">d", float(text)).hex(), text
        if abs(float(text)) < 3.4e38:
            assert as_float == struct.pack(">f", nearest_float32(text)).hex(), text
    assert found[len(texts) :] == [["none", "none"]] * 6
    # Functions that follow the program's locale must not be called: its decimal point may be a comma.
    listing = subprocess.run(["nm", "-u", str(program)], capture_output=True, text=True, check=True).stdout
    called = {line.split()[-1].partition("@")[0] for line in listing.splitlines()}
    assert called.isdisjoint({"strtod", "strtof", "sscanf"})
    assert not define or {"strtod_l", "strtof_l"} <= called
