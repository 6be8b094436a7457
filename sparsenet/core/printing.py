"""Escape untrusted text before it is printed on a terminal."""

from __future__ import annotations

#: Escapes for the control characters of ASCII and Latin-1: a terminal would obey some of them.
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_INLINE = {code: shown for code, shown in CONTROLS.items() if chr(code) not in "\n\t"}


def printable(text: str, *, lines: bool = False) -> str:
    r"""Replace control characters by ``\xNN``; `lines` keeps newlines and tabs.

    >>> print(printable("a\x1b[31mb\n"))
    a\x1b[31mb\x0a
    """
    return text.translate(_INLINE if lines else CONTROLS)
