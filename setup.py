"""Builds sparsenet._core, one translation unit per instruction set, and nothing else.

Everything static lives in pyproject.toml. Without a working C++ compiler the package still installs and runs
on Numba; SPARSENET_REQUIRE_EXT=1 turns that into an error.
"""

import os
import platform
import sys
import tempfile
from glob import glob
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

# Never -ffast-math: linking it sets flush-to-zero for the whole process on import.
BASE_FLAGS = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fvisibility=hidden", "-Wall"]
BASE_FLAGS += ["-Wextra"]
# Reassociation lets plain loops vectorise; it is confined to the numeric kernels.
KERNEL_FLAGS = ["-fassociative-math", "-fno-signed-zeros", "-ffp-contract=fast", "-funroll-loops"]

AVX2 = ["-mavx2", "-mfma"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512"]
AVX512BF16 = [*AVX512, "-mavx512bf16"]
AMX = ["-mamx-tile", "-mamx-bf16"]
ISA_FLAGS: dict[str, dict[str, list[str]]] = {
    "x86": {"scalar": [], "avx2": AVX2, "avx512": AVX512, "avx512bf16": AVX512BF16, "amxbf16": [*AVX512BF16, *AMX]},
    "arm": {
        "scalar": ["-fno-tree-vectorize"],
        "neon": [],
        "sve": ["-march=armv8.2-a+sve"],
        "neonbf16": ["-march=armv8.2-a+bf16"],
        "svebf16": ["-march=armv8.2-a+sve+bf16"],
    },
    "other": {"scalar": []},
}
FAMILIES = {"x86_64": "x86", "amd64": "x86", "aarch64": "arm", "arm64": "arm"}


def machine() -> str:
    """Name the machine that is built for, which on a cross build is not the one that builds."""
    return os.environ.get("SPARSENET_TARGET", platform.machine()).lower()


HERE = Path(__file__).resolve().parent
FILE, MACRO = "csrc/isa/{}.cpp", "SPARSENET_HAS_{}"
LEVELS = ISA_FLAGS[FAMILIES.get(machine(), "other")]
ISA_FILES = {FILE.format(level): [*KERNEL_FLAGS, *flags] for level, flags in LEVELS.items()}
EVERY_ISA_FILE = {FILE.format(level) for levels in ISA_FLAGS.values() for level in levels}
#: Levels that not every compiler knows which can build the others, with instructions of theirs: a compiler may take
#: the flags whose assembler knows no such instruction.
PROBES = {"amxbf16": "#include <immintrin.h>\nvoid probe() { _tile_dpbf16ps(0, 1, 2); _tile_release(); }\n"}


class BuildCore(build_ext):  # type: ignore[misc]
    """Give each instruction set its own flags; fall back to Numba when there is no compiler."""

    def build_extensions(self) -> None:
        """Compile, and carry on without the extension where that fails."""
        compile_one = self.compiler._compile

        def compile_with_isa(obj, src, ext, cc_args, extra_postargs, pp_opts):  # type: ignore[no-untyped-def]
            compile_one(obj, src, ext, cc_args, [*extra_postargs, *ISA_FILES.get(src, [])], pp_opts)

        self.compiler._compile = compile_with_isa
        try:
            self._leave_out([level for level in PROBES if level in LEVELS and not self._knows(level)])
            super().build_extensions()
        except Exception as error:
            if os.environ.get("SPARSENET_REQUIRE_EXT") == "1":
                raise
            print(f"sparsenet: no C++ extension ({error}); it will run on Numba, slower.", file=sys.stderr)
            self.extensions.clear()  # an editable install would otherwise look for the file

    def _knows(self, level: str) -> bool:
        """Tell whether the compiler and its assembler take the level's flags and instructions."""
        with tempfile.TemporaryDirectory() as folder:
            probe = Path(folder) / "probe.cpp"
            probe.write_text(PROBES[level])
            try:
                self.compiler.compile([str(probe)], output_dir=folder, extra_postargs=LEVELS[level])
            except CompileError:
                return False
        return True

    def _leave_out(self, levels: list[str]) -> None:
        for extension in self.extensions:
            files, macros = [FILE.format(level) for level in levels], [MACRO.format(level.upper()) for level in levels]
            extension.sources = [source for source in extension.sources if source not in files]
            extension.define_macros = [macro for macro in extension.define_macros if macro[0] not in macros]


core = Pybind11Extension(
    "sparsenet._core",
    sources=sorted({*glob("csrc/**/*.cpp", root_dir=HERE, recursive=True)} - EVERY_ISA_FILE | {*ISA_FILES}),
    depends=sorted(glob("csrc/**/*.h", root_dir=HERE, recursive=True)),
    define_macros=[(MACRO.format(level.upper()), "1") for level in LEVELS],
    extra_compile_args=BASE_FLAGS,
    extra_link_args=["-pthread"],
    cxx_std=17,
)

if __name__ == "__main__":
    with ParallelCompile("SPARSENET_BUILD_JOBS", default=os.cpu_count() or 1):
        setup(ext_modules=[core], cmdclass={"build_ext": BuildCore})
