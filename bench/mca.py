"""Cost of the hot loops on other CPUs, by static analysis: llvm-mca on the compiler's output.

    python bench/mca.py [--details]

Each level is compiled with its release flags. LLVM's model of each CPU then simulates the innermost loop of a kernel
that does most of its arithmetic. "Limit" is the bound of the busiest execution port, or of the dispatch width, for
these instructions; "cycles" adds latencies and dependences. Both assume data in the first-level cache and perfect
branch prediction. They assess the compiled code, not memory, and are computed, not measured.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from driver import setup_for  # noqa: E402

ITERATIONS = 200


@dataclass(frozen=True)
class Cpu:
    """A CPU by its LLVM name: its common name, its levels, and the bits of its SVE vectors."""

    name: str
    meaning: str
    target: str
    levels: tuple[str, ...]
    sve_bits: int = 0


@dataclass(frozen=True)
class Kernel:
    """A hot loop: its name, its function, and the instructions that count elements, with the elements per lane."""

    name: str
    function: str
    keys: dict[str, float]


FUSED = r"vfn?m(add|sub)\d+ps|fmla|fmad"
CPUS = (
    Cpu("neoverse-n1", "Graviton2", "aarch64", ("neon",)),
    Cpu("neoverse-v1", "Graviton3", "aarch64", ("neon", "sve", "svebf16"), 256),
    Cpu("neoverse-v2", "Graviton4", "aarch64", ("neon", "sve", "svebf16"), 128),
    Cpu("icelake-server", "Ice Lake", "x86_64", ("avx512",)),
    Cpu("sapphirerapids", "Sapphire Rapids", "x86_64", ("avx512bf16",)),
    Cpu("znver4", "Zen 4", "x86_64", ("avx512bf16",)),
    Cpu("znver5", "Zen 5", "x86_64", ("avx512bf16",)),
)
KERNELS = (
    Kernel("tile, float32", r"8multiplyI\w*Single", {FUSED: 1}),
    Kernel("tile, bfloat16", r"8multiplyI\w*(Pairs|Squares)", {"vdpbf16ps": 2, "bfmmla": 4}),
    Kernel("csr_matmul, wide_forward", r"(11sum_columnsILi16E|10csr_matmul)", {FUSED: 1}),
    Kernel("dot_rows", r"8dot_rows", {FUSED: 1}),
    Kernel("wide_gradient", r"13wide_gradient", {FUSED: 1}),
    Kernel("sparse_dot", r"10sparse_dot", {FUSED: 1}),
    Kernel("sgd_rows", r"8sgd_rows", {FUSED: 1}),
    Kernel("adam_rows", r"9adam_rows", {"vsqrtps|fsqrt": 1}),
    Kernel("adagrad_rows", r"12adagrad_rows", {"vsqrtps|fsqrt": 1}),
    Kernel("bce_gradient", r"12bce_gradient", {r"vdivps|fdivr?": 0.5}),
    Kernel("softmax_gradient", r"16softmax_gradient", {r"vcvttps2dq|fcvtzs": 1}),
    Kernel("dual_epoch", r"10dual_visitILi16E", {FUSED: 1}),
    Kernel("add_rows", r"8add_rows", {r"vcvtdq2ps|scvtf": 1}),
    Kernel("above", r"5above", {r"vcmp\w*ps|fcmgt": 1}),
)
COMPILERS = {"x86_64": "g++", "aarch64": "aarch64-linux-gnu-g++"}


def analyser() -> str:
    """Find the newest llvm-mca; LLVM 17 is the first with models of Neoverse V1 and V2."""
    for version in range(30, 16, -1):
        if found := shutil.which(f"llvm-mca-{version}"):
            return found
    sys.exit("llvm-mca 17 or newer is missing. On Debian or Ubuntu: sudo apt-get install llvm-19")


def compile_level(target: str, level: str, folder: Path) -> str:
    """Compile the source file of a level with its release flags to assembly."""
    compiler = COMPILERS[target]
    if shutil.which(compiler) is None:
        sys.exit(f"{compiler} is missing. On Debian or Ubuntu: sudo apt-get install g++-aarch64-linux-gnu g++")
    setup, source, out = setup_for(target), f"csrc/isa/{level}.cpp", folder / f"{level}.s"
    flags = [*setup.BASE_FLAGS, *setup.ISA_FILES[source]]
    command = [compiler, "-std=c++17", *flags, "-fno-asynchronous-unwind-tables", "-S", source, "-o", str(out)]
    subprocess.run(command, cwd=ROOT, check=True)
    return out.read_text()


def functions(assembly: str, pattern: str) -> list[str]:
    """Return the lines of every function whose mangled name matches `pattern`, clones included."""
    lines, found, inside = assembly.splitlines(), [], False
    for line in lines:
        if re.match(rf"_Z\w*{pattern}[\w.]*:", line):
            inside = True
        elif re.match(r"\s+\.size\s+_Z", line):
            inside = False
        elif inside:
            found.append(line.split("//")[0].rstrip())
    return found


def innermost_loops(lines: list[str]) -> list[list[str]]:
    """Return the innermost loops, each from a label to a jump back to it."""
    labels = {line[:-1]: i for i, line in enumerate(lines) if re.match(r"\.L\w+:$", line)}
    spans = []
    for i, line in enumerate(lines):
        jump = re.match(r"\s+(?:j\w+|b\.?(?:[a-z]{2,5})?|cbn?z\s+\w+,|tbn?z\s+\w+,.*,)\s+(\.L\w+)$", line)
        if jump and labels.get(jump[1], i) < i:
            spans.append((labels[jump[1]], i))
    inner = [(a, b) for a, b in spans if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in spans)]
    return [[line for line in lines[a : b + 1] if re.match(r"\s+[a-z]", line)] for a, b in inner]


def lanes(instruction: str, cpu: Cpu) -> int:
    """Return the number of floats per instruction; 1 for scalar ones."""
    for pattern, count in ((r"%zmm", 16), (r"%ymm", 8), (r"\bz\d+\.s", cpu.sve_bits // 32), (r"\bv\d+\.4s", 4)):
        if re.search(pattern, instruction):
            return count
    return 4 if re.search(r"v\w+ps\s.*%xmm", instruction) else 1


def elements(loop: list[str], kernel: Kernel, cpu: Cpu) -> float:
    """Return the number of elements that one iteration processes."""
    counted = ((line, each) for line in loop for key, each in kernel.keys.items() if re.match(rf"\s+({key})\b", line))
    return sum(lanes(line, cpu) * each for line, each in counted if lanes(line, cpu) > 1)


def analyse(mca: str, loop: list[str], cpu: Cpu) -> tuple[float, float, str]:
    """Return cycles per iteration, its port limit, and the report of llvm-mca."""
    triple = f"--mtriple={cpu.target}-linux-gnu"
    command = [mca, triple, f"--mcpu={cpu.name}", f"--iterations={ITERATIONS}", "--bottleneck-analysis"]
    done = subprocess.run(command, input="\n".join(loop) + "\n", capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} refused\n{done.stderr}")
    report = done.stdout
    total, limit = (re.search(rf"{name}:\s+([\d.]+)", report) for name in ("Total Cycles", "Block RThroughput"))
    assert total is not None
    assert limit is not None
    return float(total[1]) / ITERATIONS, float(limit[1]), report


def rows(mca: str, folder: Path, details: bool) -> list[tuple[str, ...]]:
    """Analyse every kernel at every level on every CPU."""
    table = []
    for cpu in CPUS:
        for level in cpu.levels:
            assembly = compile_level(cpu.target, level, folder)
            for kernel in KERNELS:
                loops = innermost_loops(functions(assembly, kernel.function))
                loop = max(loops, key=lambda lines: elements(lines, kernel, cpu), default=[])
                done = elements(loop, kernel, cpu)
                if not done:  # a kernel that this level lacks, such as bfloat16
                    continue
                cycles, limit, report = analyse(mca, loop, cpu)
                if details:
                    print(f"=== {cpu.name} {level} {kernel.name}: {done:g} elements", *loop, report, sep="\n")
                table.append(row(cpu, level, kernel, cycles / done, limit / done))
    return table


def row(cpu: Cpu, level: str, kernel: Kernel, cycles: float, limit: float) -> tuple[str, ...]:
    """Return a row of the table in cycles per element."""
    where = f"{cpu.meaning} ({cpu.name})"
    return kernel.name, where, level, f"{cycles:.3f}", f"{limit:.3f}", f"{100 * (cycles / limit - 1):+.0f} %"


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--details", action="store_true", help="also print each loop and its report")
    options, mca = parser.parse_args(), analyser()
    with tempfile.TemporaryDirectory() as folder:
        table = rows(mca, Path(folder), options.details)
    print("| loop | CPU | level | cycles per element | limit | above it |\n|---|---|---|---|---|---|")
    order = [kernel.name for kernel in KERNELS]
    for line in sorted(table, key=lambda line: order.index(line[0])):
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
