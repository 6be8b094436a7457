"""Word vectors: reading tables and tokenizers of each form, the vectors of texts, and bad files."""

import copy
import gzip
import json
import pickle
import sys
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest

from sparsenet import DataError, WordVectors
from sparsenet.core import progress
from sparsenet.features.text import vector_files, word_vectors
from sparsenet.features.text.tokenizing import HubTokenizer, WordListTokenizer
from tests.support import fake_tokenizers
from tests.support.vector_tables import WORDS, table, vectors, write_lines, write_safetensors, write_words

TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 9,
    }
    | {"vocab": {"[UNK]": 0, "cat": 1, "##s": 2, "dog": 3}},
}


# --- vectors of texts ---


def test_embeds_the_mean_at_unit_length():
    own = WordVectors.of_words(["up", "right"], [[0.0, 3.0], [3.0, 0.0]])
    np.testing.assert_allclose(own.embed(["up right", "up up", "right"]), [[0.5**0.5] * 2, [0, 1], [1, 0]], atol=1e-6)


def test_texts_without_known_tokens_are_zero():
    assert not vectors().embed(["", "   ", "xyzzy", "\ud800", "!?"]).any()


def test_results_do_not_depend_on_threads_or_other_texts():
    texts = [" ".join(WORDS[i : i + 7]) for i in range(20)]
    whole = vectors().embed(texts, n_jobs=1)
    assert (vectors().embed(texts, n_jobs=2) == whole).all()
    assert (np.concatenate([vectors().embed([text]) for text in texts]) == whole).all()


def test_rounding_to_8_bits_keeps_directions():
    rows = table()
    wanted = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert (vectors().embed(WORDS) * wanted).sum(axis=1).min() > 0.9999


def test_embed_refuses_what_is_no_list_of_texts():
    with pytest.raises(ValueError, match="texts must be a sequence of texts, got a single one"):
        vectors().embed("one text")
    with pytest.raises(ValueError, match="texts must hold texts, got 3 in row 1"):
        vectors().embed(["one", 3])


def test_is_shared_by_copies_and_survives_pickling():
    own = vectors()
    assert copy.deepcopy(own) is own
    own.embed(["goal"])
    again = pickle.loads(pickle.dumps(own))
    assert (again.embed(WORDS) == own.embed(WORDS)).all()
    assert repr(again) == f"WordVectors({len(WORDS)} tokens, 8 dimensions, from words)"


# --- lists of words ---


def test_words_are_found_as_they_are_then_in_lower_case_then_in_parts():
    found = WordListTokenizer(["us", "US", "don't", "don", "t", "e-mail", "."])
    assert found.encode("US us Us don't Don't. E-mail don-t") == [1, 0, 0, 2, 3, 4, 6, 5, 3, 4]


def test_spans_of_words_are_their_places():
    text = "Don't,  well-known CAT!"
    found = WordListTokenizer(["don't", "cat", "known"]).spans(text)
    assert [(own.token, text[own.begin : own.end]) for own in found] == [(2, "known"), (1, "CAT")]
    assert [own.token for own in found] == WordListTokenizer(["don't", "cat", "known"]).encode(text)


@pytest.mark.parametrize(
    ("words", "rows", "problem"),
    [
        (["a", "a"], [[1.0], [2.0]], "words holds 'a' twice"),
        (["a", 3], [[1.0], [2.0]], "words must hold words, got 3 in row 1"),
        ("ab", [[1.0], [2.0]], "words must be a list of words"),
        (["a", "b", "c"], [[1.0], [2.0]], "2 rows, and the tokenizer knows 3 tokens"),
        (["a"], [[1.0], [2.0]], "2 rows, and the tokenizer knows 1 tokens"),
        (["a", "b"], [1.0, 2.0], r"a row for each token, got float64 of shape \(2,\)"),
        (["a"], [["x"]], "must hold numbers"),
        (["a"], [[]], "holds no numbers"),
        (["a", "b"], [[1.0], [np.nan]], "row 1 of the table holds NaN or infinity"),
        (["a", "b"], [[np.inf], [1.0]], "row 0 of the table holds NaN or infinity"),
    ],
)
def test_refuses_tables_that_do_not_fit(words, rows, problem):
    with pytest.raises(ValueError, match=problem):
        WordVectors.of_words(words, rows)


# --- files ---


@pytest.mark.parametrize("form", ["npy", "safetensors", "float16", "bfloat16", "folder", "lines", "header", "gzip"])
def test_reads_every_form_of_file(tmp_path, form):
    rows, path = table(), tmp_path / "table.safetensors"
    write_words(tmp_path / "words.txt")
    if form == "npy":
        np.save(path := tmp_path / "table.npy", rows.astype(np.float64))
    elif form == "bfloat16":
        upper = (rows.view(np.uint32) >> 16).astype(np.uint16)
        write_safetensors(path, {"one": ("F32", rows[0]), "embedding": ("BF16", upper)})
    elif form in ("lines", "header", "gzip"):
        write_lines(path := tmp_path / "vectors.txt")
        head = f"{len(rows)} {rows.shape[1]}\n" if form == "header" else ""
        text = head + path.read_text()
        path.write_bytes(gzip.compress(text.encode()) if form == "gzip" else text.encode())
    else:
        dtype = np.float16 if form == "float16" else np.float32
        write_safetensors(path, {"embedding": ("F16" if form == "float16" else "F32", rows.astype(dtype))})
    found = WordVectors.read(tmp_path if form == "folder" else str(path))
    assert found.codes.shape == rows.shape
    np.testing.assert_allclose(found.embed(WORDS), vectors().embed(WORDS), atol=0.02)


def test_a_tokenizer_may_lie_elsewhere(tmp_path):
    np.save(tmp_path / "table.npy", table())
    write_words(tmp_path / "other.txt")
    found = WordVectors.read(tmp_path / "table.npy", tmp_path / "other.txt")
    assert (found.embed(WORDS) == vectors().embed(WORDS)).all()


def test_words_with_blanks_are_read_from_the_right(tmp_path):
    (tmp_path / "v.txt").write_text("a 1 2\nat name 3 4\n")
    found = WordVectors.read(tmp_path / "v.txt")
    assert found.tokenizer.to_arrays()["words.utf8"].tobytes() == b"aat name"


def test_a_missing_file_names_what_may_be_given(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no package that ships vectors \(wordllama\)"):
        WordVectors.read(tmp_path / "nowhere")


def test_a_missing_package_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(vector_files, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"needs the package wordllama: pip install 'sparsenet\[vectors\]'"):
        WordVectors.read("wordllama")


@pytest.fixture
def library(monkeypatch):
    """The package `tokenizers`, or a stand-in where it is not installed."""
    if not find_spec("tokenizers"):
        monkeypatch.setitem(sys.modules, "tokenizers", fake_tokenizers.module())


def test_a_package_is_read_without_importing_it(library, monkeypatch, tmp_path):
    package = tmp_path / "wordllama"
    (package / "weights").mkdir(parents=True)
    (package / "tokenizers").mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    write_safetensors(package / "weights/small.safetensors", {"embedding.weight": ("F32", table()[:4])})
    (package / "tokenizers/small.json").write_text(json.dumps(TOKENIZER))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path / "wordllama")
    assert len(WordVectors.read("wordllama")) == 4
    (package / "weights/more.safetensors").write_bytes(b"")
    with pytest.raises(DataError, match=r"one file weights/\*.safetensors in the package, found 2"):
        WordVectors.read("wordllama")


def test_a_folder_must_hold_one_table(tmp_path):
    write_words(tmp_path / "words.txt")
    with pytest.raises(DataError, match=r"must hold one \.safetensors or \.npy file, found 0"):
        WordVectors.read(tmp_path)
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, table())
    with pytest.raises(DataError, match=r"found 2: a\.npy, b\.npy; name the file itself"):
        WordVectors.read(tmp_path)


def test_a_table_needs_a_tokenizer(tmp_path):
    np.save(tmp_path / "table.npy", table())
    with pytest.raises(DataError, match=r"no tokenizer next to it: add tokenizer\.json or vocab\.txt or words\.txt"):
        WordVectors.read(tmp_path / "table.npy")
    write_words(tmp_path / "words.txt", WORDS[:-1])
    with pytest.raises(ValueError, match=f"{len(WORDS)} rows, and the tokenizer knows {len(WORDS) - 1} tokens"):
        WordVectors.read(tmp_path / "table.npy")


def test_lines_take_no_tokenizer(tmp_path):
    write_lines(tmp_path / "v.txt")
    with pytest.raises(ValueError, match="tokenizer and tensor are for"):
        WordVectors.read(tmp_path / "v.txt", tmp_path / "v.txt")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is empty"),
        ("\n \n", "holds no vectors"),
        ("2 3\n", "holds no vectors"),
        ("word\n", "line 1: expected a word and its numbers"),
        ("a 1 2\nb 1\n", "line 2: expected a word and 2 numbers"),
        ("a 1 2\nb 1 x\n", "line 2: expected a word and 2 numbers, separated by single blanks, got 'b 1 x'"),
        ("a 1\na 2\n", "holds 'a' twice"),
        ("a 1\nb nan\n", "row 1 of the table holds NaN"),
    ],
)
def test_bad_lines_are_named(tmp_path, text, problem):
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(ValueError, match=problem):
        WordVectors.read(tmp_path / "v.txt")


def test_several_tensors_are_chosen_by_name(tmp_path):
    path = tmp_path / "table.safetensors"
    write_words(tmp_path / "words.txt")
    write_safetensors(path, {"one": ("F32", table()), "two": ("F32", table(seed=1))})
    with pytest.raises(DataError, match=r"which tensor is the table\? It holds one \(50, 8\), two \(50, 8\)"):
        WordVectors.read(path)
    found = WordVectors.read(path, tensor="two")
    assert (found.embed(WORDS) == vectors(seed=1).embed(WORDS)).all()


@pytest.mark.parametrize("damage", ["short", "cut", "no json", "size", "type", "pickle"])
def test_damaged_tables_are_refused(tmp_path, damage):
    path = tmp_path / ("table.npy" if damage == "pickle" else "table.safetensors")
    write_words(tmp_path / "words.txt")
    if damage == "pickle":
        np.save(path, np.array([{}], object), allow_pickle=True)
    else:
        write_safetensors(path, {"table": ("Q9" if damage == "type" else "F32", table())})
        raw = path.read_bytes()
        changed = {
            "short": raw[:3],
            "cut": raw[:-1],
            "no json": raw[:8] + b"?" + raw[9:],
            "size": b"\xff" * 8 + raw[8:],
        }
        path.write_bytes(changed.get(damage, raw))
    with pytest.raises(DataError):
        WordVectors.read(path)


# --- tokenizers of Hugging Face ---


@pytest.fixture
def hub(library):
    return HubTokenizer(json.dumps(TOKENIZER))


def test_a_tokenizer_file_is_used(tmp_path, hub):
    np.save(tmp_path / "table.npy", np.eye(6, dtype=np.float32))  # two rows of padding
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    found = WordVectors.read(tmp_path / "table.npy")
    np.testing.assert_allclose(found.embed(["CATS", "dog"]), [[0, 0.5**0.5, 0.5**0.5, 0, 0, 0], [0, 0, 0, 1, 0, 0]])
    np.save(tmp_path / "table.npy", np.eye(3, dtype=np.float32))
    with pytest.raises(ValueError, match="3 rows, and the tokenizer knows 4 tokens"):
        WordVectors.read(tmp_path / "table.npy")


def test_tokens_have_places(hub):
    text = "Cats, dog"
    assert [(own.token, text[own.begin : own.end]) for own in hub.spans(text)] == [
        *[(1, "Cat"), (2, "s"), (0, ","), (3, "dog")]
    ]
    assert hub.spans("") == []


@pytest.mark.parametrize("kind", ["Metaspace", "ByteLevel"])
def test_pieces_are_tokenized_as_inside_a_text(kind):
    """Some tokenizers mark the blank before each word but the first."""
    pytest.importorskip("tokenizers")
    about = {"type": kind, "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    mark = "Ġ"
    if kind == "Metaspace":
        about, mark = {"type": kind, "replacement": "▁", "prepend_scheme": "never", "split": True}, "▁"
    model = {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "cat": 1, f"{mark}cat": 2, f"{mark}dog": 3}}
    model["vocab"] |= {"word": 4, f"{mark}word": 5}
    own = HubTokenizer(json.dumps(TOKENIZER | {"pre_tokenizer": about, "normalizer": None, "model": model}))
    assert own.encode("cat dog\ncat") == [2, 3, 2]
    assert [(begin, end) for _, begin, end in own.spans("cat  dog")] == [(0, 3), (5, 8)]


def test_lone_surrogates_are_replaced(hub):
    assert hub.encode("cat \ud800 dog") == [1, 0, 3]


def test_padding_and_truncation_of_the_file_are_ignored(hub):
    about = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    assert HubTokenizer(json.dumps(TOKENIZER | {"truncation": about})).encode("dog cat dog") == [3, 1, 3]


def test_a_damaged_tokenizer_is_named(tmp_path, hub):
    np.save(tmp_path / "table.npy", np.eye(4, dtype=np.float32))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a tokenizer\.json of Hugging Face"):
        WordVectors.read(tmp_path / "table.npy")


def test_a_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"needs the package tokenizers: pip install 'sparsenet\[vectors\]'"):
        HubTokenizer("{}")


def test_the_library_is_asked_without_special_tokens(monkeypatch):
    """Also where the package is not installed."""
    asked = []

    class Fake:
        @classmethod
        def from_str(cls, source):
            return cls()

        def no_padding(self):
            asked.append("no padding")

        def no_truncation(self):
            asked.append("no truncation")

        def encode(self, text, add_special_tokens):
            asked.append(f"{text}, special tokens: {add_special_tokens}")
            ids = [len(text)] if text.startswith(" ") else [0]
            return type("Encoding", (), {"ids": ids if text != "a word" else [1, 5], "offsets": [(9, 9)]})

    fake = ModuleType("tokenizers")
    fake.__dict__["Tokenizer"] = Fake
    monkeypatch.setitem(sys.modules, "tokenizers", fake)
    found = HubTokenizer("{}")
    assert asked[:2] == ["no padding", "no truncation"]
    asked.clear()
    assert found.encode("a cat, a cat") == [2, 5, 2, 4]  # each after a blank, as inside a text
    assert asked == [f" {piece}, special tokens: False" for piece in ("a", "cat,", "cat")]
    assert found.spans("a cat") == [(2, 0, 1), (4, 4, 5)]


def test_texts_are_taken_in_parts():
    texts = [f"{word} the" for word in WORDS]
    assert (vectors().vectors_of(texts, 1, texts_at_a_time=7) == vectors().embed(texts)).all()


def test_rows_are_rounded_in_parts():
    table = np.random.default_rng(0).normal(size=(len(WORDS), 8))
    whole, parts = (
        WordVectors.of_table(table, WordListTokenizer(WORDS), "words", **how) for how in ({}, {"rows_at_a_time": 7})
    )
    assert (parts.codes == whole.codes).all()
    assert (parts.factors == whole.factors).all()


def test_too_many_texts_are_refused_before_memory_runs_out(monkeypatch):
    own = vectors()
    monkeypatch.setattr(word_vectors, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"the vectors of 50 texts take 1\.6 kB, and there are 1\.0 kB"):
        own.embed(WORDS)
    with pytest.raises(MemoryError, match=r"words: the table of shape \(50, 8\) takes 2\.0 kB"):
        vectors()


def test_lines_are_refused_before_memory_runs_out(monkeypatch, tmp_path):
    write_lines(tmp_path / "v.txt")
    monkeypatch.setattr(vector_files, "available_memory", lambda: 1000)
    with pytest.raises(
        MemoryError, match=r"v.txt: its first 16 vectors of 8 numbers take 1\.0 kB, and there are 1\.0 kB"
    ):
        WordVectors.read(tmp_path / "v.txt")


def test_a_table_in_half_precision_is_refused_before_memory_runs_out(monkeypatch, tmp_path):
    halves = (table().view(np.uint32) >> 16).astype(np.uint16)
    write_safetensors(tmp_path / "v.safetensors", {"t": ("BF16", halves)})
    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    monkeypatch.setattr(vector_files, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"v.safetensors: its 50 vectors of 8 numbers take 3\.2 kB"):
        WordVectors.read(tmp_path / "v.safetensors")


@pytest.mark.skipif(not (find_spec("wordllama") and find_spec("tokenizers")), reason="wordllama is not installed")
def test_the_package_knows_which_words_are_alike():
    own = WordVectors.read("wordllama")
    assert own.codes.shape == (32000, 256)
    lorry, truck, plum = own.embed(["a lorry", "a truck", "a plum"])
    assert lorry @ truck > lorry @ plum


def test_reading_lines_shows_progress(tmp_path, monkeypatch, capsys):
    write_lines(tmp_path / "v.txt")
    monkeypatch.setattr(progress, "A_MOMENT", 0.0)
    with progress.shown_by_default(True):
        WordVectors.read(tmp_path / "v.txt")
    assert "reading v.txt 100%" in capsys.readouterr().err
