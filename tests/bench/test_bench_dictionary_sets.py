"""Data sets from dictionaries."""

import gzip

import pytest

from bench import dictionary_sets
from bench.dictionary_sets import EDICT, ENAMDICT, FEATURES, FREEDICT, MYTHES, SETS, labelled
from bench.sets import words
from sparsenet.data import read_xmc

JAPANESE = "雨林 [うりん] /(n) rain forest/(P)/EntL1171220/\nあえか /(adj-na) delicate/\n"
NAMES = "上野 [うえの] /(p,s) Ueno/\nかやな /(f) Kayana/\n"
GERMAN = """Abschluss /apʃlʊs/ <masc, n, sg>
[econ.] closing <n>, end
 see: {Schluss}

Verb /vɛɾb/ <neut>
/verb/
"""
ENGLISH = """UTF-8
car|2
(noun)|auto|automobile (generic term)|machine
(noun)|railcar
auto|1
(noun)|car|automobile|machine
"""


ONE_TO_SEVEN = "一二三四五六七"
FILES = {EDICT: JAPANESE, ENAMDICT: NAMES, FREEDICT: GERMAN, MYTHES: ENGLISH}


def write(folder, files=FILES):
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode("euc_jp" if path in (EDICT, ENAMDICT) else "utf-8")
        file.write_bytes(gzip.compress(data) if path == FREEDICT else data)
    return folder


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kanji", [(["rain", "forest"], {"雨", "林"}), (["delicate"], set())]),
        ("readings", [(["上", "野", "上野"], {"ueno"})]),
        ("translations", [([" abs", "absc", "bsch", "schl", "chlu", "hlus", "luss", "uss "], {"closing", "end"})]),
    ],
)
def test_parses_entries(tmp_path, name, expected):
    features = FEATURES.get(name, words)
    assert [(features(text), labels) for text, labels in SETS[name](write(tmp_path))] == expected


def test_each_meaning_is_one_point_split_into_halves(tmp_path):
    found = [(text.splitlines(), labels) for text, labels in SETS["synonyms"](write(tmp_path))]
    assert [sorted({*features, *labels}) for features, labels in found] == [
        ["auto", "automobile", "car", "machine"],
        ["car", "railcar"],
    ]
    assert all(len(features) == len(labels) for features, labels in found)
    assert [text.splitlines() for text, _ in SETS["synonyms"](write(tmp_path))] == [features for features, _ in found]


def test_drops_rare_labels_and_entries_without_labels():
    entries = [(f"w {i}", {"many" if i < 3 else "few"}) for i in range(5)]
    points = labelled([*entries, ("W-0", {"many"})])  # the last one has the same words as the first
    assert sorted(points.texts) == ["W-0", "w 1", "w 2"]
    assert points.labels == [["many"]] * 3


def test_the_command_writes_every_set(tmp_path, capsys):
    words = [f"{chr(97 + i % 7)}{chr(97 + i % 11)}x" for i in range(60)]
    files = {
        EDICT: "".join(f"{ONE_TO_SEVEN[i % 3]}{i} [x] /(n) {word} {i % 5}/\n" for i, word in enumerate(words)),
        ENAMDICT: "".join(f"{ONE_TO_SEVEN[i % 7]}{i} [x] /(p) Name{i % 4}/\n" for i in range(60)),
        FREEDICT: "".join(f"{word[0]}bcdef{i} /x/ <n>\n{words[i % 6]} of\n" for i, word in enumerate(words)),
        MYTHES: "UTF-8\n" + "".join(f"{word}|1\n(noun)|w{i % 3}|w{i % 5}|w{i % 7}\n" for i, word in enumerate(words)),
    }
    arguments = ["--dictionaries", str(write(tmp_path / "in", files)), "--out", str(tmp_path / "out")]
    dictionary_sets.main(arguments)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == list(SETS)
    for name in SETS:
        train, test = (read_xmc(tmp_path / "out" / name / f"{part}.txt") for part in ("train", "test"))
        assert train.X.shape[0] > 4 * test.X.shape[0] > 0
        assert train.Y.shape[1] == test.Y.shape[1] > 1
