"""The arrays of a stream's state: their shapes, growth, and the removal of users and items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenet.kernels.types import F32, F64, I32, I64, Arrays, Bools

#: Popularity decays to one half within this many events.
HALF_LIVES = (32.0, 256.0, 2048.0, 16384.0)
#: Most popular items that are candidates, for each half-life.
N_POPULAR = 8
#: Successors of an item, or of two items.
N_SUCCESSORS = 16
#: Pairs of items whose successors are counted; a pair may replace another one.
N_PAIRS = 65536
#: The longest history that the kernels take.
MAX_HISTORY = 48
N_FEATURES, N_UNITS = 37, 32

#: Weights of the first unit: rank in the history, successor, own item, popularity, bias and output.
_START = {0: -0.5, 9: 0.1, 15: 1.0, 20: 0.1, N_FEATURES: 3.0, N_FEATURES + 1: 1.0}

#: Columns of `user_values` and of `item_values`; the levels are the last ones.
USER_LAST = 1
ITEM_LAST, ITEM_USER, _ITEM_REPEATS, _ITEM_LEVELS = 0, 2, 3, 4
#: Arrays with a row for each user, and for each item.
OF_USERS = ("pair_items", "pair_times", "pair_counts", "user_values")
OF_ITEMS = ("item_counts", "item_values")
#: The first rows belong to items, the last `N_PAIRS` to pairs of items.
OF_CONTEXTS = ("context_items", "context_counts")


@dataclass(eq=False)
class StreamArrays:
    """The state and the ranker, as `sparsenet.kernels.learn_stream` takes them.

    Rows of users and items without events are blank; items without a name have the count -1.
    """

    pair_items: I32
    pair_times: F64
    pair_counts: F32
    user_values: F64
    item_counts: F64
    item_values: F64
    context_items: I32
    context_counts: F32
    context_keys: I64
    popular: I32
    half_lives: F64
    clock: F64
    weights: F32
    squares: F32
    moments: F64

    @classmethod
    def blank(cls, history: int) -> StreamArrays:
        """Return a state without users and items, and a ranker whose other hidden units are random."""
        rng = np.random.default_rng(0)
        weights = np.zeros((N_FEATURES + 2, N_UNITS), np.float32)
        weights[:N_FEATURES] = rng.normal(size=(N_FEATURES, N_UNITS)) / np.sqrt(N_FEATURES)
        # Before it learns, the ranker orders by the own history, its latest items first, then by successors and
        # popularity: the first unit adds these up, and the output takes only this unit.
        weights[:, 0] = 0
        for feature, weight in _START.items():
            weights[feature, 0] = weight
        return cls(
            **_blank_users(0, history),
            **_blank_items(0),
            **_blank_contexts(N_PAIRS),
            context_keys=np.full(N_PAIRS, -1, np.int64),
            popular=np.full((len(HALF_LIVES), N_POPULAR), -1, np.int32),
            half_lives=np.array(HALF_LIVES),
            clock=np.zeros(3),
            weights=weights,
            squares=np.zeros_like(weights),
            moments=np.zeros((N_FEATURES + 1, 2)),
        )

    def state(self) -> Arrays:
        """Return the arrays that ranking needs, by name."""
        return {name: array for name, array in vars(self).items() if name != "squares"}

    def make_room(self, n_users: int, n_items: int) -> None:
        """Add blank rows until there are enough for this many users and items; doubles what there is."""
        more = _room(n_users, len(self.user_values))
        if more:
            self._append(_blank_users(more, self.pair_items.shape[1]))
        more = _room(n_items, len(self.item_counts))
        if more:
            n_items = len(self.item_counts)
            self._append(_blank_items(more))
            for name, rows in _blank_contexts(more).items():
                own = getattr(self, name)
                setattr(self, name, np.concatenate((own[:n_items], rows, own[n_items:])))

    def _append(self, blank: Arrays) -> None:
        for name, rows in blank.items():
            setattr(self, name, np.concatenate((getattr(self, name), rows)))

    def cut(self, n_users: int, n_items: int) -> Arrays:
        """Return all arrays by name, with this many users and items."""
        found = dict(vars(self))
        found |= {name: found[name][:n_users] for name in OF_USERS}
        found |= {name: found[name][:n_items] for name in OF_ITEMS}
        ends = {name: (found[name][:n_items], found[name][len(self.item_counts) :]) for name in OF_CONTEXTS}
        return found | {name: np.concatenate(parts) for name, parts in ends.items()}

    def remove_users(self, dropped: Bools) -> None:
        """Make the rows of some users blank."""
        for name, rows in _blank_users(int(dropped.sum()), self.pair_items.shape[1]).items():
            getattr(self, name)[dropped] = rows
        users = self.item_values[:, ITEM_USER]
        users[(users >= 0) & dropped[users.astype(np.int64)]] = -1

    def remove_items(self, dropped: Bools) -> None:
        """Make the rows of some items blank, and remove them from histories, successors and lists."""
        n_items = len(self.item_counts)
        for name, rows in _blank_items(int(dropped.sum())).items():
            getattr(self, name)[dropped] = rows
        self.context_items[:n_items][dropped], self.context_counts[:n_items][dropped] = -1, 0
        is_gone = np.append(dropped, False)  # so that -1 finds False
        self.popular[is_gone[self.popular]] = -1
        gone = is_gone[self.context_items]
        self.context_items[gone], self.context_counts[gone] = -1, 0
        keys = self.context_keys
        pairs = np.flatnonzero(keys >= 0)
        keys[pairs[is_gone[keys[pairs] >> 32] | is_gone[keys[pairs] & 0xFFFFFFFF]]] = -1
        self._remove_from_histories(is_gone)

    def _remove_from_histories(self, is_gone: Bools) -> None:
        """Move the items that stay to the front of each history."""
        gone = is_gone[self.pair_items]
        self.pair_items[gone] = -1
        users = np.flatnonzero(gone[:, :, 0].any(axis=1))
        order = np.argsort(self.pair_items[users, :, 0] < 0, axis=1, kind="stable")
        for name in ("pair_items", "pair_times", "pair_counts"):
            array = getattr(self, name)
            array[users] = array[users[:, None], order]


def _room(wanted: int, there: int) -> int:
    return 0 if wanted <= there else max(wanted, 2 * there, 64) - there


def _blank_users(n: int, history: int) -> Arrays:
    return {
        "pair_items": np.full((n, history, 2), -1, np.int32),
        "pair_times": np.zeros((n, history)),
        "pair_counts": np.zeros((n, history, 6), np.float32),
        "user_values": np.zeros((n, 6)),
    }


def _blank_items(n: int) -> Arrays:
    values = np.zeros((n, _ITEM_LEVELS + len(HALF_LIVES) + 1))
    values[:, ITEM_USER], values[:, _ITEM_REPEATS], values[:, _ITEM_LEVELS:] = -1, 0.5, -np.inf
    return {"item_counts": np.full(n, -1.0), "item_values": values}


def _blank_contexts(n: int) -> Arrays:
    items, counts = np.full((n, N_SUCCESSORS), -1, np.int32), np.zeros((n, N_SUCCESSORS), np.float32)
    return {"context_items": items, "context_counts": counts}
