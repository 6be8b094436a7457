"""Data sets from a list of packages."""

import io

import pytest

from bench import package_sets
from bench.package_sets import LABELS, labelled, packages
from sparsenet.data import read_xmc

LIST = """Package: libed-dev
Source: ed (1.19-1)
Maintainer: Somebody <some@body>
Section: libdevel
Depends: libed1 (= 1.19-1), libc6 (>= 2.36) | libc6.1, python3:any, perl [amd64]
Description: line editor
 of development
Tag: devel::lang:c, role::devel-lib,
 uitoolkit::ncurses

Package: libed-dev
Section: older

Package: bare
"""


def test_parses_each_package_once():
    first, second = packages(LIST.splitlines(keepends=True))
    assert first["Description"] == "line editor of development"
    assert first["Section"] == "libdevel"
    assert second == {"Package": "bare"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("source", {"ed"}),
        ("maintainer", {"Somebody <some@body>"}),
        ("section", {"libdevel"}),
        ("tags", {"devel::lang:c", "role::devel-lib", "uitoolkit::ncurses"}),
        ("depends", {"libed1", "libc6", "libc6.1", "python3", "perl"}),
    ],
)
def test_labels_are_names_without_versions(name, expected):
    first, second = packages(LIST.splitlines())
    assert LABELS[name](first) == expected
    assert LABELS[name](second) == set()


def test_drops_rare_labels_and_packages_without_labels():
    found = [{"Package": f"p{i}", "Section": "many" if i < 3 else "few"} for i in range(5)]
    points = labelled(found, LABELS["section"])
    assert points.labels == [["many"]] * 3
    assert points.features(points.texts[1]) == ["p", "1"]


def test_the_command_writes_every_set(tmp_path, monkeypatch, capsys):
    entries = [
        f"Package: tool{i % 7}-{i}\nSource: s{i % 4}\nMaintainer: m{i % 3}\nSection: x{i % 2}\nDepends: d{i % 5}, all\n"
        f"Tag: t{i % 6}\nDescription: words {i % 7}\n"
        for i in range(60)
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(entries)))
    package_sets.main(["--out", str(tmp_path)])
    n_labels_of = {"source": 4, "maintainer": 3, "section": 2, "tags": 6, "depends": 6}
    assert capsys.readouterr().out.splitlines() == [f"{name}: 60 points" for name in n_labels_of]
    for name, n_labels in n_labels_of.items():
        train, test = (read_xmc(tmp_path / name / f"{part}.txt") for part in ("train", "test"))
        assert (train.X.shape[0], test.X.shape[0]) == (50, 10)
        assert train.Y.shape[1] == n_labels
