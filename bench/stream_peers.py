"""Simple predictors of the next item of a stream, for `bench.streams`. Each one ranks all items.

A peer has `scores(user)`, a score for each item, and `learn(user, item)`. Scores rarely tie, except in EdgeBank, whose
ties count as the mean of the best and the worst rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

#: Half-lives in events that the decayed popularity chooses from, by the last fifth of the training events.
HALF_LIVES = (32, 256, 2048, 16384)


class Peer(Protocol):
    """What `ranks` calls."""

    def scores(self, user: int) -> np.ndarray:
        """Return a score for each item."""
        ...

    def learn(self, user: int, item: int) -> None:
        """Learn an event."""
        ...


class Popularity:
    """Popularity: the number of events of each item, decayed by a half-life in events if one is given."""

    def __init__(self, n_items: int, half_life: float | None = None) -> None:
        self.counts = np.zeros(n_items)
        self.growth = 1.0 if half_life is None else 2 ** (1 / half_life)
        self.weight = 1.0

    def scores(self, user: int) -> np.ndarray:
        """Return the counts."""
        return self.counts

    def learn(self, user: int, item: int) -> None:
        """Count an event; later events weigh more, which orders like a decay."""
        self.counts[item] += self.weight
        self.weight *= self.growth
        if self.weight > 1e100:
            self.counts /= self.weight
            self.weight = 1.0


class Recency:
    """The user's own items, the latest first, then popular ones."""

    def __init__(self, n_items: int) -> None:
        self.popular, self.now = Popularity(n_items), 0
        self.last: dict[int, dict[int, int]] = {}

    def scores(self, user: int) -> np.ndarray:
        """Return scores above 1 for own items, and shares of popularity below 1 for others."""
        found: np.ndarray = self.popular.counts / (self.popular.counts.max() + 1)
        for item, when in self.last.get(user, {}).items():
            found[item] = 1 + when
        return found

    def learn(self, user: int, item: int) -> None:
        """Remember when."""
        self.now += 1
        self.last.setdefault(user, {})[item] = self.now
        self.popular.learn(user, item)


class MutualRecency(Recency):
    """Recency where users and items are the same: the latest partners, whoever began."""

    def learn(self, user: int, item: int) -> None:
        """Remember both ways."""
        super().learn(user, item)
        self.last.setdefault(item, {})[user] = self.now


class EdgeBank:
    """1 for items that the user has taken before, 0 for others."""

    def __init__(self, n_items: int) -> None:
        self.n_items = n_items
        self.own: dict[int, set[int]] = {}

    def scores(self, user: int) -> np.ndarray:
        """Return 0 or 1."""
        found = np.zeros(self.n_items)
        found[list(self.own.get(user, ()))] = 1
        return found

    def learn(self, user: int, item: int) -> None:
        """Remember the pair."""
        self.own.setdefault(user, set()).add(item)


class Transitions:
    """How often each item came next after the user's last one, then popular ones."""

    def __init__(self, n_items: int) -> None:
        self.popular = Popularity(n_items)
        self.last: dict[int, int] = {}
        self.counts: dict[int, dict[int, int]] = {}

    def scores(self, user: int) -> np.ndarray:
        """Return counts, plus shares of popularity below 1."""
        found: np.ndarray = self.popular.counts / (self.popular.counts.max() + 1)
        for item, count in self.counts.get(self.last.get(user, -1), {}).items():
            found[item] += count
        return found

    def learn(self, user: int, item: int) -> None:
        """Count the transition."""
        if user in self.last:
            own = self.counts.setdefault(self.last[user], {})
            own[item] = own.get(item, 0) + 1
        self.last[user] = item
        self.popular.learn(user, item)


def ranks(peer: Peer, log: dict[str, Any], first: int, refresh: int) -> np.ndarray:
    """Return the rank of the item of each event from `first` on; the peer learns at the end of each block."""
    found = []
    users, items = log["user"], log["item"]
    for begin in range(0, len(users), refresh):
        block = range(begin, min(begin + refresh, len(users)))
        for e in block:
            if e >= first:
                scores = peer.scores(users[e])
                mine = scores[items[e]]
                found.append(1 + np.count_nonzero(scores > mine) + (np.count_nonzero(scores == mine) - 1) / 2)
        for e in block:
            peer.learn(users[e], items[e])
    return np.array(found)


def decayed(n_items: int, log: dict[str, Any], first: int) -> Peer:
    """Return a decayed popularity, with the half-life that is best on the end of the training events."""
    before = {name: values[:first] for name, values in log.items()}
    return Popularity(n_items, max(HALF_LIVES, key=lambda half: _mrr(Popularity(n_items, half), before)))


def _mrr(peer: Peer, log: dict[str, Any]) -> float:
    return float(np.mean(1 / ranks(peer, log, len(log["user"]) * 4 // 5, 1)))


#: A maker of each peer, from the number of items, the log and the number of training events.
PEERS: dict[str, Callable[[int, dict[str, Any], int], Peer]] = {
    "recency": lambda n_items, log, first: Recency(n_items),
    "recency, mutual": lambda n_items, log, first: MutualRecency(n_items),
    "EdgeBank": lambda n_items, log, first: EdgeBank(n_items),
    "popularity": lambda n_items, log, first: Popularity(n_items),
    "decayed popularity": decayed,
    "transitions": lambda n_items, log, first: Transitions(n_items),
}
