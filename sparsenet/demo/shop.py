"""The demo of logs: learn from the purchases in a made-up shop, and recommend further items."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sparsenet.demo.shop_log import make_log
from sparsenet.estimators.recommender import Recommender

USERS = ("Ada 1", "Hugo 2", "Zoe 3")
BASKETS = (["tent"], ["flour", "yeast"], ["bicycle", "helmet"])
ANSWERS = 3


def run(
    output: Path, *, interactive: bool = False, threads: int | None = None, seed: int = 0, n_users: int = 1500
) -> None:
    """Run the demo: write a log, train, measure, recommend. Results go to stdout, messages to stderr."""
    log, path = make_log(n_users, seed), output / "log.csv"
    output.mkdir(parents=True, exist_ok=True)
    _write(log, path)
    _say(f"{len(log['item'])} purchases of {len(set(log['user']))} users: {path}")
    model = Recommender(n_jobs=threads, random_state=seed).fit(path)
    scores = model.evaluate()
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(
        f"The last purchase of {scores['users']} users, held out: it comes first of {model.n_items_} items for "
        f"{scores['P@1']:.1%} of them, and is among the best 20 for {scores['recall@20']:.1%}",
        highlight=False,
    )
    console.print(_for_users(model, log), _for_baskets(model, BASKETS), _similar(model, ["tent", "kettle"]))
    _say(f"now try: sparsenet train {path} --user user --item item --model shop")
    _say("and then: echo 'Ada 1' | sparsenet predict shop")
    if interactive:
        _converse(model, console)


def _write(log: Mapping[str, Sequence[str]], path: Path) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([log, *zip(*log.values(), strict=True)])


def _for_users(model: Recommender, log: Mapping[str, Sequence[str]], *, n_bought: int = 4) -> Table:
    found = model.recommend(list(USERS), k=ANSWERS)
    table = Table("user", "bought last", "recommended", title="What users may buy next")
    for place, user in enumerate(USERS):
        bought = [item for own, item in zip(log["user"], log["item"], strict=True) if own == user]
        table.add_row(user, ", ".join(bought[-n_bought:]), _items(found, place * ANSWERS))
    return table


def _for_baskets(model: Recommender, baskets: Sequence[list[str]]) -> Table:
    found = model.recommend_for(list(baskets), k=ANSWERS)
    table = Table("basket", "recommended", title="What goes with a basket")
    for place, basket in enumerate(baskets):
        table.add_row(", ".join(basket), _items(found, place * ANSWERS))
    return table


def _similar(model: Recommender, items: list[str]) -> Table:
    found = model.similar(items, k=ANSWERS)
    table = Table("item", "similar items", title="What is similar")
    for place, item in enumerate(items):
        table.add_row(item, _items(found, place * ANSWERS, "similar"))
    return table


def _items(found: Mapping[str, Any], begin: int, name: str = "item") -> str:
    return ", ".join(found[name][begin : begin + ANSWERS].tolist())


def _converse(model: Recommender, console: Console) -> None:
    """Recommend for baskets typed at a prompt, until an empty line or the end of input."""
    _say("type things that you have bought, separated by commas; an empty line ends the demo")
    known = set(model.items_.tolist())
    while True:
        if sys.stdin.isatty():
            print("> ", end="", file=sys.stderr, flush=True)  # input() would write it among the answers
        try:
            words = [word.strip() for word in input().split(",")]
        except EOFError:
            return
        if not any(words):
            return
        unknown = [word for word in words if word not in known]
        if unknown:
            _say(f"the shop does not sell {', '.join(unknown)}; it sells {', '.join(sorted(known)[:12])} and so on")
        if basket := [word for word in words if word in known]:
            console.print(_for_baskets(model, [basket]))


def _say(text: str) -> None:
    print(f"sparsenet: {text}", file=sys.stderr, flush=True)
