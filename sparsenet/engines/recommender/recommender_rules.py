"""What bounds the training and the answers of a recommender, and what its hold-out decides."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparsenet.selection.choose import Rule


@dataclass(frozen=True)
class RecommenderRules:
    """Bounds of the work, defaults without a hold-out, and the evidence that a decision needs.

    Attributes
    ----------
    n_users : int
        Users held out at most.
    fewest : int
        With fewer users who have a hit among the candidates, nothing is decided.
    n_next : int
        The next items after the cut in time that count as right: later ones depend less on the history.
    depth : int
        Depth of the ranking that decisions are measured on, as the metrics below say.
    debias : tuple of float
        Options for `RecommenderParts.debias`.
    dimensions : tuple of int
        Options for the number of singular vectors, the most first.
    better : Rule
        The rule of `dimensions`.
    clearly_better : Rule
        The rule of `debias`: held-out items are easier to find than future items.
    best : Rule
        The rule of the weights, since no option is dearer than another.
    prior, timed_prior : tuple of float
        Weights of the parts without a hold-out, in the order of `NAMES`, of logs without and with times.
    precision : float
        Precision of the prior of the weights, in the scale of a log-likelihood summed over users.
    max_per_user : int
        A user's items beyond this many, the latest ones kept, do not count: work grows with the square.
    max_numbers : int
        Numbers in the singular vectors, and entries of all lists of one kind: both are shorter for millions of items.
    shortest : int
        Lists and singular vectors of the largest catalogues.
    reach : int
        How far apart two events of a user may be to count as a transition.
    n_near : int
        Items in a regression at most.
    work : int
        Multiplications of all regressions together, about: items of large logs have fewer neighbors.
    fewest_users : int
        An item of fewer users tells too little to fit it.
    grain : int
        Regressions in a task of a thread: they share the pool's overhead.
    spare : int
        Additional random vectors, which make the last of the wanted singular vectors accurate.
    passes : int
        Passes over the matrix and its transpose: the spectrum of a log falls slowly, so one is too few.
    noise : float
        Directions whose share of the largest variance is below this are noise of float32.
    product_cells : int
        Numbers in the dense outputs of the kernel: bounds the memory of a product.
    n_candidates : int
        Unseen items proposed for each user.
    fading : float
        The weight of an item in a user's recent history falls by this factor for each later item.
    users_at_a_time : int
        Users answered by one call of a kernel, which Ctrl-C waits for.
    """

    n_users: int = 4096
    fewest: int = 50
    n_next: int = 5
    depth: int = 20
    debias: tuple[float, ...] = (0.0, 0.1, 0.2, 0.35)
    dimensions: tuple[int, ...] = (512, 256, 128, 64)
    better: Rule = field(default_factory=lambda: Rule("nDCG@20", standard_errors=1.0))
    clearly_better: Rule = field(default_factory=lambda: Rule("nDCG@20", standard_errors=2.0, min_gain=0.005))
    best: Rule = field(default_factory=lambda: Rule("nDCG@20", standard_errors=0.0))
    prior: tuple[float, ...] = (2.0, 1.4, 1.6, 0.0, 0.0, 0.0, 0.0)
    timed_prior: tuple[float, ...] = (1.2, 0.8, 1.4, 0.2, 0.2, 1.0, 0.5)
    precision: float = 4.0
    max_per_user: int = 1000
    max_numbers: int = 1 << 26
    shortest: int = 16
    reach: int = 3
    n_near: int = 100
    work: int = 1 << 36
    fewest_users: int = 3
    grain: int = 64
    spare: int = 32
    passes: int = 4
    noise: float = 1e-5
    product_cells: int = 1 << 22
    n_candidates: int = 96
    fading: float = 0.8
    users_at_a_time: int = 1 << 12


RULES = RecommenderRules()
