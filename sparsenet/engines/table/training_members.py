"""Train each kind of model of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sparsenet.core.seeds import run_seed
from sparsenet.engines.blend import fit_blend
from sparsenet.engines.blend.fit_blend import WIDE_BUDGET, BlendOptions
from sparsenet.engines.boosting import fit_boosting
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.table import logistic
from sparsenet.engines.table.members import (
    BlendMember,
    BoostingMember,
    LinearMember,
    Member,
    NetworkMember,
    TreeMember,
)
from sparsenet.engines.table.table_options import Labelled, TableOptions
from sparsenet.engines.tree.machines import Rules
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.scaling import Scaling
from sparsenet.features.targets import Target

#: The parameters of the network that are not the defaults.
NETWORK: dict[str, Any] = {"verbose": False}
#: Methods that one training of a blend answers for: its tree and its network are models, too.
OF_BLEND = ("blend", "network", "tree")


@dataclass(frozen=True)
class MemberTraining:
    """How models of a table are trained."""

    options: TableOptions
    n_labels: int
    exclusive: bool
    seed: int
    threads: int

    def groups(self, methods: list[str]) -> list[list[str]]:
        """Group the methods by training."""
        shared = [method for method in methods if method in OF_BLEND]
        return [[method] for method in methods if method not in OF_BLEND] + ([shared] if shared else [])

    def settings(self, group: list[str]) -> tuple[float | None, ...]:
        """Return the settings to try of a group of methods, ascending; one that is None if there is nothing to set."""
        of_methods = {"linear": self.options.linear.costs, "boosting": self.options.boosting.rounds}
        return of_methods.get(group[0], (None,))

    def train(self, group: list[str], train: Labelled, setting: float | None = None) -> list[Member]:
        """Train a group of methods with one setting, by default the usual one."""
        usual = {"linear": self.options.linear.usual_cost, "boosting": self.options.boosting.usual_rounds}
        return next(self.path(group, train, [usual.get(group[0]) if setting is None else setting]))

    def path(self, group: list[str], train: Labelled, settings: Iterable[Any]) -> Iterator[list[Member]]:
        """Train a group of methods, and yield its models for each of the settings."""
        rows, rules = train.points.rows, self.options
        if group == ["linear"]:
            for regression in logistic.fit(rows, train.single, self.n_labels, rules.linear, settings):
                yield [LinearMember(regression)]
        elif group == ["boosting"]:
            points = train.points
            data = points.matrix, points.is_category, train.single, self.n_labels
            for trees in fit_boosting.fit(*data, rules.boosting, settings, seed=self.seed, threads=self.threads):
                yield [BoostingMember(trees)]
        else:
            yield self._blend(group, train)

    def _blend(self, methods: list[str], train: Labelled) -> list[Member]:
        rows = train.points.rows
        options = BlendOptions(
            rules=Rules(),
            network=None if methods == ["tree"] else NetworkOptions.of(NETWORK, max_wide_budget=WIDE_BUDGET),
            n_neighbors=BlendOptions.n_neighbors if "blend" in methods else 0,
            candidates=None,
            time_budget=None,
            verbose=False,
        )
        blend = fit_blend.fit(
            (rows, train.labels),
            options,
            seed=self.seed,
            threads=self.threads,
            target=Target.of_columns(self.n_labels),
            scaling=Scaling("none"),
            seen=LabelStats.of_rows(rows.width, self.n_labels),
            held_out=options.holdout.draw(train.labels, run_seed(self.seed), train.times),
        )
        found: list[Member] = []
        for method in methods:
            if method == "blend":
                found.append(BlendMember(blend, self.exclusive, rows.width))
            elif method == "tree":
                found.append(TreeMember(blend.tree, self.exclusive, rows.width))
            elif blend.network is not None:
                found.append(NetworkMember(blend.network, self.exclusive, rows.width))
        return found
