"""The settings of an index, and what it will cost in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

Family = Literal["simhash", "dwta", "minhash"]

MAX_WIDTH = 8192  # see families.LENGTH: beyond it float32 sums of projections would no longer be exact
MAX_BITS = 16  # a code is a uint16
# Mean size of a bucket at the default number of bits. Smaller buckets need more tables for the same recall,
# larger ones are mostly cut off by `probe_limit`.
BUCKET_SIZE = 32
# Measured on planted data with spread-out lengths: completing bins to a longer radius makes DWTA look at half as many
# labels for a higher recall, while for SimHash a radius above the bulk of the lengths drowns the direction.
COVERED = {"simhash": 0.25, "dwta": 0.75, "minhash": 0.75}


@dataclass(frozen=True, kw_only=True)
class LSHConfig:
    """How labels are hashed.

    Parameters
    ----------
    family
        ``"simhash"`` (signed random projections; the general choice), ``"dwta"`` (densified winner-take-all) or
        ``"minhash"`` (densified one-permutation MinHash of the large coordinates). The latter two want
        non-negative hidden vectors, as ReLU makes them.
    n_tables
        Independent tables. Memory is about 6 bytes a table and label; recall grows with it.
    n_bits
        Bits of a code, so that a table has ``2**n_bits`` buckets; at most 16. For DWTA and MinHash a multiple of
        ``log2(window)``.
    window
        Coordinates that compete in one bin of DWTA and MinHash; a power of two.
    probe_limit
        At most so many labels of a bucket are looked at: the cost of a query is bounded by
        ``n_tables * probe_limit`` for each point.
    covered
        Share of labels whose vector lengths the hashes tell apart; longer ones pass for equally long. With 1 that
        is all, but one long vector then spoils the search for the others.
    headroom
        Label vectors may grow by about this factor before everything is hashed anew.
    seed
        Fixes the hash functions.

    Examples
    --------
    >>> config = LSHConfig(n_tables=8, n_bits=6)
    >>> config.memory(n_labels=1000, width=32)
    64740
    """

    family: Family = "simhash"
    n_tables: int = 50
    n_bits: int = 12
    window: int = 8
    probe_limit: int = 128
    covered: float = 0.5
    headroom: float = 1.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.family not in get_args(Family):
            raise ValueError(f"family must be one of {', '.join(get_args(Family))}, got {self.family!r}")
        for name, least, most in (
            ("n_tables", 1, 4096),
            ("n_bits", 1, MAX_BITS),
            ("probe_limit", 1, 2**31 - 1),
            ("seed", 0, 2**63 - 1),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{name} must be an integer from {least} to {most}, got {value!r}")
        if not 1 <= self.headroom < math.inf:
            raise ValueError(f"headroom must be at least 1, got {self.headroom!r}")
        if not 0 < self.covered <= 1:
            raise ValueError(f"covered must be above 0 and at most 1, got {self.covered!r}")
        if self.family != "simhash":
            self._check_window()

    def _check_window(self) -> None:
        if self.window not in (2, 4, 8, 16, 32, 64):
            raise ValueError(f"window must be a power of two from 2 to 64, got {self.window!r}")
        if self.n_bits % self.bits_per_bin:
            raise ValueError(
                f"n_bits must be a multiple of {self.bits_per_bin} for a window of {self.window}, got {self.n_bits}"
            )

    @classmethod
    def for_size(cls, n_labels: int, family: Family = "simhash", **settings: int | float) -> LSHConfig:
        """Choose settings from the number of labels and the family; those given override.

        Bits are chosen so that a bucket holds a few dozen labels.
        """
        bits = min(max(round(math.log2(max(n_labels, 1) / BUCKET_SIZE + 1)), 4), MAX_BITS)
        if family != "simhash":
            step = max(int(settings.get("window", cls.window)).bit_length() - 1, 1)
            bits = max(bits // step, 1) * step
        return cls(**{"family": family, "n_bits": bits, "covered": COVERED[family], **settings})  # type: ignore[arg-type]

    @property
    def bits_per_bin(self) -> int:
        """Bits of the symbol that one bin yields."""
        return self.window.bit_length() - 1

    @property
    def n_buckets(self) -> int:
        """Buckets of a table."""
        return 1 << self.n_bits

    def memory(self, n_labels: int, width: int, threads: int = 1) -> int:
        """Return the bytes an index over `n_labels` vectors of `width` units takes, all arrays together."""
        per_label = self.n_tables * (2 + 4) + 4 + 4 * threads
        offsets = 4 * self.n_tables * (self.n_buckets + 1)
        if self.family == "simhash":
            functions = 4 * self.n_tables * self.n_bits * (width + 2)
        else:
            functions = 4 * self.n_tables * (self.n_bits // self.bits_per_bin) * self.window
        return n_labels * per_label + offsets + functions + 4 * (width + 1)
