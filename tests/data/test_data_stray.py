"""Ids that look mistyped are reported with their line; large ids of large spaces are not."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from sparsenet.data import DataError, iter_batches, read, read_svmlight, stray
from sparsenet.data.blocks import Block, line_blocks
from sparsenet.data.sources import Source
from sparsenet.data.stray import is_out_of_proportion, line_of
from tests.support.command_line import fails, run
from tests.support.data_cases import in_blocks


def written(labels: list[int] | None = None, features: list[int] | None = None) -> bytes:
    """Write a point for each id, with labels and features from 0 to 99 unless they are given."""
    n = len(labels or features or ())
    pairs = zip(labels or [i % 100 for i in range(n)], features or [i % 100 for i in range(n)], strict=True)
    return b"".join(b"%d %d:1\n" % pair for pair in pairs)


SMALL = [*range(100)] * 3


@pytest.mark.parametrize("kind", ["label", "feature"])
@pytest.mark.parametrize("place", [0, 150, 300])
def test_warns_of_a_mistyped_id_with_its_line(kind: str, place: int) -> None:
    ids = [*SMALL[:place], 100_000_000, *SMALL[place:]]
    message = (
        rf"^<stream>, line {place + 1}: {kind} 100000000 is far beyond all others, the next is 99: correct it, or .* "
        rf"99999900 of them are empty; if it is right, confirm it with n_{kind}s=100000001$"
    )
    with pytest.warns(UserWarning, match=message):
        found = read(BytesIO(written(**{f"{kind}s": ids})))
    assert (found.Y if kind == "label" else found.X).shape == (301, 100_000_001)
    data = read_svmlight(BytesIO(written(**{f"{kind}s": ids})), **{f"n_{kind}s": 100_000_001})  # without a word
    assert (data.Y if kind == "label" else data.X).nnz == 301


def test_warning_shows_the_id_in_the_file() -> None:
    with pytest.warns(UserWarning, match=r"line 2: feature 30000000 is .* n_features=30000001"):
        read_svmlight(BytesIO(b"0 1:1 2:1\n1 2:1 30000000:1\n0 3:1\n"), zero_based="auto")


def test_the_line_is_found_among_comments_and_in_later_blocks() -> None:
    lines = written(features=SMALL).splitlines(keepends=True)
    lines[200:200] = [b"# a comment\n", b" \t\r\n", b"\n", b"1 50000000:1\n", b"\n"]
    with pytest.warns(UserWarning, match="line 204: feature 50000000"):
        read_svmlight(in_blocks(b"".join(lines), block=64))
    with pytest.warns(UserWarning, match="line 204: feature 50000000"):
        read_svmlight(BytesIO(b"".join(lines)))


def test_lines_of_rows() -> None:
    text = b" # 1\n1 1:1\n\n2 1:1 # 4\n\t\n3 1:1\n"
    block: Block = next(line_blocks(Source(BytesIO(text), "t")))
    assert [line_of(block, row, 3) for row in range(3)] == [2, 4, 6]


@pytest.mark.parametrize("bits", [20, 24, 30])
@pytest.mark.parametrize("n", [2, 10, 1000, 20_000])
def test_no_warning_for_hashed_features(bits: int, n: int) -> None:
    for seed in range(20):
        read(BytesIO(written(features=np.random.default_rng(seed).integers(2**bits, size=n).tolist())))


@pytest.mark.parametrize(
    "ids",
    [
        [5_000_000, 5_000_001, 5_000_003],  # a space that begins late
        [*SMALL, *range(20_000_000, 20_000_050)],  # two blocks of ids
        [*SMALL, 999_999],  # a few more columns than are used
        [123_456_789],  # nothing to compare with
        [*range(0, 1_500_000_000, 10_000_000)],
    ],
)
def test_no_warning_for_ids_with_gaps(ids: list[int]) -> None:
    for kind in ("labels", "features"):
        read(BytesIO(written(**{kind: ids})))


def test_no_warning_for_ids_without_a_column() -> None:
    with_names = read(BytesIO(b"-1 0:1\n0 1:1\n1 2:1\n900000000 3:1\n"))
    assert with_names.n_labels == 4
    read(BytesIO(b"2 100000000 100000000\n0 1:1\n99999999 2:1 99999999:1\n"))  # the header says so
    lines = written(labels=[*SMALL, 100_000_000])
    [batch] = iter_batches(BytesIO(lines), batch_rows=999, n_features=100, with_labels=False)
    assert batch.X.shape == (301, 100)


def test_few_ids_may_have_large_gaps_by_chance() -> None:
    assert not is_out_of_proportion(20_000_000, 1_000_000, 1)
    assert is_out_of_proportion(20_000_000, 1_000_000, 5)
    assert not is_out_of_proportion(20_000_000, 3_000_000, 5000)


@pytest.mark.parametrize("kind", ["label", "feature"])
def test_refuses_ids_that_no_model_can_hold(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(stray, "available_memory", lambda: 100 << 20)
    bytes_each = stray.BYTES_PER_COLUMN[kind]
    lines = written(**{f"{kind}s": [*SMALL, 50_000_000]})
    message = (
        rf"line 301: {kind} 50000000 is .*; they take at least {50_000_001 * bytes_each >> 20} MB, and 100 MB are free"
    )
    with pytest.raises(DataError, match=message):
        read(BytesIO(lines))
    read(BytesIO(lines), "svmlight", **{f"n_{kind}s": 50_000_001})  # as they say that it is right


@pytest.mark.filterwarnings("always:.*is far beyond all others")
def test_command_line_warns_and_names_its_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = tmp_path / "points.txt"
    points.write_bytes(written(features=[*SMALL, 2_000_000]))
    train = ("train", points, "--model", tmp_path / "m", "--method", "tree")
    said = run(*train).stderr
    assert said.startswith(f"sparsenet: warning: {points}, line 301: feature 2000000 is far beyond all others")
    assert said.endswith("; if it is right, confirm it with --features 2000001\n")
    assert run(*train, "--features", 2_000_001).stderr == ""
    monkeypatch.setattr(stray, "available_memory", lambda: 1 << 20)
    assert f"error: {points}, line 301: feature 2000000 is far beyond" in fails(*train)
