"""CPU names from /proc/cpuinfo on x86 and Arm."""

import pytest

from bench import machine

X86 = """processor\t: {}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 106
model name\t: Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz
flags\t\t: fpu vme
"""
ARM = """processor\t: {}
BogoMIPS\t: 2100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid sve bf16
CPU implementer\t: {}
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: {}
CPU revision\t: 1
"""


def several(text: str, *cores: tuple[str, ...]) -> str:
    return "\n".join(text.format(i, *core) for i, core in enumerate(cores)) + "\n"


def test_x86_has_a_name():
    found = machine.cpu_name(several(X86, (), ()), "x86_64")
    assert found == "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz, cpu family 6, model 106"


@pytest.mark.parametrize(
    ("implementer", "part", "name"),
    [
        ("0x41", "0xd0c", "Neoverse N1"),
        ("0x41", "0xd40", "Neoverse V1"),
        ("0x41", "0xd4f", "Neoverse V2"),
        ("0x46", "0x001", "A64FX"),
        ("0xc0", "0xac3", "Ampere-1"),
        ("0x41", "0xD40", "Neoverse V1"),
        ("0x99", "0x123", "unknown Arm core"),
    ],
)
def test_arm_numbers_become_names(implementer, part, name):
    found = machine.cpu_name(several(ARM, (implementer, part), (implementer, part)), "aarch64")
    assert found == f"{name}, implementer {implementer}, part {part.lower()}, r1p1"


def test_mixed_cores_are_all_named():
    found = machine.cpu_name(several(ARM, ("0x41", "0xd03"), ("0x41", "0xd08"), ("0x41", "0xd03")), "aarch64")
    assert [core.split(",")[0] for core in found.split(" + ")] == ["Cortex-A53", "Cortex-A72"]


def test_emulation_is_recognized():
    assert machine.cpu_name(several(X86, ()), "aarch64").startswith("aarch64 emulated on Intel(R) Xeon(R)")


def test_an_unknown_cpu_is_named_by_its_architecture():
    assert machine.cpu_name("processor\t: 0\nhart\t: 0\n", "riscv64") == "riscv64"


def test_this_machine_has_a_name():
    assert machine.cpu_model().strip()
