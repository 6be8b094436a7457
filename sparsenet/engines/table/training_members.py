"""Train each kind of model of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
from sparsenet.engines.table.table_options import Labelled, Setting, TableOptions
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

    def train(
        self, methods: list[str], train: Labelled, held: Labelled | None = None, setting: Setting | None = None
    ) -> list[tuple[Member, Setting]]:
        """Train a group of methods; held-out points, or an earlier `setting`, decide on cost and rounds."""
        setting = setting or Setting()
        if methods == ["linear"]:
            return [self._linear(train, held, setting)]
        if methods == ["boosting"]:
            return [self._boosting(train, held, setting)]
        return [(member, Setting()) for member in self._blend(methods, train)]

    def _linear(self, train: Labelled, held: Labelled | None, setting: Setting) -> tuple[Member, Setting]:
        test = None if held is None else (held.points.rows, held.single)
        rules = self.options.linear
        model = logistic.fit(train.points.rows, train.single, self.n_labels, rules, held=test, cost=setting.cost)
        return LinearMember(model), Setting(cost=model.cost)

    def _boosting(self, train: Labelled, held: Labelled | None, setting: Setting) -> tuple[Member, Setting]:
        points, test = train.points, None if held is None else (held.points.matrix, held.single)
        model = fit_boosting.fit(
            *(points.matrix, points.is_category, train.single, self.n_labels, self.options.boosting),
            seed=self.seed,
            threads=self.threads,
            held=test,
            rounds=setting.rounds,
        )
        return BoostingMember(model), Setting(rounds=model.trees.n_rounds)

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
