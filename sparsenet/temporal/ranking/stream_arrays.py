"""The arrays of a stream's state: their shapes, growth, and the removal of users and items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenet.kernels.types import F32, F64, I32, I64, Arrays, Bools
from sparsenet.temporal.ranking.stream_rules import RULES, StreamRules

#: The longest history that the kernels take.
MAX_HISTORY = 48
#: Features of a candidate, without features of events and items.
N_FEATURES = 37

#: Weights of the first unit: rank in the history, successor, own item and popularity; of its bias and the output.
_START, _START_BIAS = {0: -0.5, 9: 0.1, 15: 1.0, 20: 0.1}, (3.0, 1.0)

#: Columns of `user_values` and of `item_values`; the levels are the last ones.
USER_EVENT = 6
ITEM_EVENT, ITEM_USER, _ITEM_REPEATS, _ITEM_LEVELS = 1, 2, 3, 4
#: Arrays with a row for each user, and for each item.
OF_USERS = ("pair_items", "pair_times", "pair_counts", "pair_features", "user_values")
OF_ITEMS = ("item_counts", "item_values", "item_features")
#: The first rows belong to items, the last ones to pairs of items.
OF_CONTEXTS = ("context_items", "context_counts")


@dataclass(eq=False)
class StreamArrays:
    """The state and the ranker, as `sparsenet.kernels.learn_stream` takes them.

    Rows of users and items without events are blank; items without a name have the count -1.
    """

    pair_items: I32
    pair_times: F64
    pair_counts: F32
    pair_features: F32
    user_values: F64
    item_counts: F64
    item_values: F64
    item_features: F32
    context_items: I32
    context_counts: F32
    context_keys: I64
    popular: I32
    half_lives: F64
    clock: F64
    rates: F64
    weights: F32
    squares: F32
    moments: F64

    @classmethod
    def blank(
        cls, history: int, n_event_features: int = 0, n_item_features: int = 0, *, rules: StreamRules = RULES
    ) -> StreamArrays:
        """Return a state without users and items, and a ranker whose other hidden units are random."""
        rng = np.random.default_rng(0)
        n_features = N_FEATURES + 2 * (n_event_features + n_item_features)
        weights = np.zeros((n_features + 2, rules.n_units), np.float32)
        weights[:n_features] = rng.normal(size=(n_features, rules.n_units)) / np.sqrt(n_features)
        # Before it learns, the ranker orders by the own history, its latest items first, then by successors and
        # popularity: the first unit adds these up, and the output takes only this unit.
        weights[:, 0] = 0
        for feature, weight in _START.items():
            weights[feature, 0] = weight
        weights[n_features:, 0] = _START_BIAS
        return cls(
            **_blank_users(0, history, n_event_features),
            **_blank_items(0, n_item_features, len(rules.half_lives)),
            **_blank_contexts(rules.n_pairs, rules.n_successors),
            context_keys=np.full(rules.n_pairs, -1, np.int64),
            popular=np.full((len(rules.half_lives), rules.n_popular), -1, np.int32),
            half_lives=np.array(rules.half_lives),
            clock=np.zeros(3),
            rates=rules.rates.as_array(),
            weights=weights,
            squares=np.zeros_like(weights),
            moments=np.zeros((n_features + 1, 2)),
        )

    def state(self) -> Arrays:
        """Return the arrays that ranking needs, by name."""
        return {name: array for name, array in vars(self).items() if name != "squares"}

    def make_room(self, n_users: int, n_items: int, max_users: int, max_items: int) -> None:
        """Add blank rows until there are enough for this many users and items; doubles what there is, up to a maximum.

        Nothing changes if memory runs out.
        """
        grown: Arrays = {}
        more = _room(n_users, len(self.user_values), max_users)
        if more:
            grown |= self._longer(_blank_users(more, *self.pair_features.shape[1:]))
        more, n_items = _room(n_items, len(self.item_counts), max_items), len(self.item_counts)
        if more:
            grown |= self._longer(self._no_items(more))
            for name, rows in _blank_contexts(more, self.context_items.shape[1]).items():
                own = getattr(self, name)
                grown[name] = np.concatenate((own[:n_items], rows, own[n_items:]))
        vars(self).update(grown)

    def _no_items(self, n: int) -> Arrays:
        return _blank_items(n, self.item_features.shape[1], len(self.half_lives))

    def _longer(self, blank: Arrays) -> Arrays:
        return {name: np.concatenate((getattr(self, name), rows)) for name, rows in blank.items()}

    def cut(self, n_users: int, n_items: int) -> Arrays:
        """Return all arrays by name, with this many users and items."""
        found = dict(vars(self))
        found |= {name: found[name][:n_users] for name in OF_USERS}
        found |= {name: found[name][:n_items] for name in OF_ITEMS}
        ends = {name: (found[name][:n_items], found[name][len(self.item_counts) :]) for name in OF_CONTEXTS}
        return found | {name: np.concatenate(parts) for name, parts in ends.items()}

    def remove_users(self, dropped: Bools) -> None:
        """Make the rows of some users blank."""
        for name, rows in _blank_users(int(dropped.sum()), *self.pair_features.shape[1:]).items():
            getattr(self, name)[dropped] = rows
        users = self.item_values[:, ITEM_USER]
        users[(users >= 0) & dropped[users.astype(np.int64)]] = -1

    def remove_items(self, dropped: Bools) -> None:
        """Make the rows of some items blank, and remove them from histories, successors and lists."""
        n_items = len(self.item_counts)
        for name, rows in self._no_items(int(dropped.sum())).items():
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
        for name in ("pair_items", "pair_times", "pair_counts", "pair_features"):
            array = getattr(self, name)
            array[users] = array[users[:, None], order]


def _room(wanted: int, there: int, most: int) -> int:
    return 0 if wanted <= there else max(wanted, min(max(2 * there, 64), most)) - there


def _blank_users(n: int, history: int, n_features: int) -> Arrays:
    return {
        "pair_items": np.full((n, history, 2), -1, np.int32),
        "pair_times": np.zeros((n, history)),
        "pair_counts": np.zeros((n, history, 6), np.float32),
        "pair_features": np.zeros((n, history, n_features), np.float32),
        "user_values": np.zeros((n, 7)),
    }


def _blank_items(n: int, n_features: int, n_half_lives: int) -> Arrays:
    values = np.zeros((n, _ITEM_LEVELS + n_half_lives + 1))
    values[:, ITEM_USER], values[:, _ITEM_REPEATS], values[:, _ITEM_LEVELS:] = -1, 0.5, -np.inf
    features = np.zeros((n, n_features), np.float32)
    return {"item_counts": np.full(n, -1.0), "item_values": values, "item_features": features}


def _blank_contexts(n: int, n_successors: int) -> Arrays:
    items, counts = np.full((n, n_successors), -1, np.int32), np.zeros((n, n_successors), np.float32)
    return {"context_items": items, "context_counts": counts}
