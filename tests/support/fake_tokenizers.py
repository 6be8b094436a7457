"""A stand-in for the package `tokenizers`, for tests where it is not installed: WordPiece of lower-case words."""

import json
import re
from types import ModuleType
from typing import NamedTuple


class Encoding(NamedTuple):
    ids: list
    offsets: list


class Tokenizer:
    def __init__(self, about):
        self.vocab = about["model"]["vocab"]
        self.longest = about["model"]["max_input_chars_per_word"]
        self.most = (about.get("truncation") or {}).get("max_length")

    @classmethod
    def from_str(cls, source):
        about = json.loads(source)
        if "model" not in about:
            raise Exception("missing field `model`")  # as the package does
        return cls(about)

    def no_padding(self):
        pass

    def no_truncation(self):
        self.most = None

    def get_vocab(self, with_added_tokens):
        return self.vocab

    def encode(self, text, add_special_tokens):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise TypeError(str(error)) from None
        pieces = [own for word in re.finditer(r"\w+|[^\w\s]+", text) for own in self._pieces(word)][: self.most]
        return Encoding([number for number, _ in pieces], [span for _, span in pieces])

    def _pieces(self, word):
        found, begin = [], 0
        while begin < len(word[0]):
            mark = "##" if begin else ""
            ends = range(len(word[0]), begin, -1)
            end = next((end for end in ends if mark + word[0][begin:end].lower() in self.vocab), None)
            if end is None or len(word[0]) > self.longest:
                return [(self.vocab["[UNK]"], word.span())]
            found.append((self.vocab[mark + word[0][begin:end].lower()], (word.start() + begin, word.start() + end)))
            begin = end
        return found


def module():
    found = ModuleType("tokenizers")
    found.__dict__["Tokenizer"] = Tokenizer
    return found
