"""Settings of a hash index, and its memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from sparsenet.core.validation import choice, integer, real

Family = Literal["simhash", "dwta", "minhash"]

MAX_WIDTH = 8192  # beyond it, float32 sums of projections would no longer be exact: see `SimHash.codes`
MAX_BITS = 16  # a code is a uint16


@dataclass(frozen=True, kw_only=True)
class LSHConfig:
    """Settings of an `LSHIndex`.

    Parameters
    ----------
    family
        ``"simhash"`` (signed random projections; the general choice), ``"dwta"`` (densified winner-take-all) or
        ``"minhash"`` (densified one-permutation MinHash of the large coordinates). The latter two need non-negative
        hidden vectors, as after ReLU.
    n_tables
        Independent tables. More tables raise recall and take about 6 bytes per table and label.
    n_bits
        Bits of a code; a table has ``2**n_bits`` buckets. At most 16, for DWTA and MinHash a multiple of
        ``log2(window)``.
    window
        Coordinates that compete in one bin of DWTA and MinHash; a power of two.
    probe_limit
        Labels examined per bucket at most. It bounds the cost of a query by ``n_tables * probe_limit`` per point.
    covered
        Fraction of labels whose vector lengths the hashes distinguish; longer vectors count as equally long. At 1 all
        lengths count, but a single long vector then spoils the search for the others.
    headroom
        Label vectors may grow by about this factor before all labels are rehashed.
    seed
        Seed of the hash functions.

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
        choice("family", self.family, get_args(Family))
        checked = {
            "n_tables": integer("n_tables", self.n_tables, 1, 4096),
            "n_bits": integer("n_bits", self.n_bits, 1, MAX_BITS),
            "window": integer("window", self.window, 2, 64),
            "probe_limit": integer("probe_limit", self.probe_limit, 1, 2**31 - 1),
            "seed": integer("seed", self.seed, 0, 2**63 - 1),
            "headroom": real("headroom", self.headroom, 1, math.inf),
            "covered": real("covered", self.covered, 0, 1, open_low=True),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # of NumPy's types, they would overflow
        if self.window & (self.window - 1):
            raise ValueError(f"window must be a power of two from 2 to 64, got {self.window}")
        if self.family != "simhash" and self.n_bits % self.bits_per_bin:
            raise ValueError(
                f"n_bits must be a multiple of {self.bits_per_bin} for a window of {self.window}, got {self.n_bits}"
            )

    @classmethod
    def for_size(cls, n_labels: int, family: Family = "simhash", **settings: int | float) -> LSHConfig:
        """Choose settings by the number of labels and the family; `settings` override them.

        Buckets hold 32 labels on average. Smaller ones need more tables for the same recall; larger ones are mostly cut
        off by `probe_limit`.
        """
        bits = min(max(round(math.log2(max(n_labels, 1) / 32 + 1)), 4), MAX_BITS)
        # DWTA and MinHash examine half as many labels at a higher recall if the radius covers most lengths. For SimHash
        # a radius above the bulk of the lengths drowns the direction.
        covered = {"simhash": 0.25, "dwta": 0.75, "minhash": 0.75}[family]
        if family != "simhash":
            step = max(int(settings.get("window", cls.window)).bit_length() - 1, 1)
            bits = max(bits // step, 1) * step
        return cls(**{"family": family, "n_bits": bits, "covered": covered, **settings})  # type: ignore[arg-type]

    @property
    def bits_per_bin(self) -> int:
        """Bits of the symbol of one bin."""
        return self.window.bit_length() - 1

    @property
    def n_buckets(self) -> int:
        """Number of buckets in a table."""
        return 1 << self.n_bits

    def memory(self, n_labels: int, width: int, threads: int = 1) -> int:
        """Return the size in bytes of an index over `n_labels` vectors of `width` units."""
        per_label = self.n_tables * (2 + 4) + 4 + 4 * threads
        offsets = 4 * self.n_tables * (self.n_buckets + 1)
        if self.family == "simhash":
            functions = 4 * self.n_tables * self.n_bits * (width + 2)
        else:
            functions = 4 * self.n_tables * (self.n_bits // self.bits_per_bin) * self.window
        return n_labels * per_label + offsets + functions + 4 * (width + 1)
