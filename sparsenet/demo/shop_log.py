"""A made-up log of a shop: users, items and dates."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

#: The things of each department. Who buys the first ones often buys the next ones later.
DEPARTMENTS = {
    "camping": "tent, sleeping bag, stove, lantern, water bottle, map, compass, rope, hammock, head torch",
    "baking": "flour, yeast, scale, mixing bowl, whisk, bread tin, cake tin, rolling pin, oven gloves, icing sugar",
    "painting": "easel, canvas, brushes, oil paint, palette, varnish, sketchbook, charcoal, frame, apron",
    "gardening": "spade, seeds, watering can, gloves, compost, flower pots, rake, secateurs, trellis, bird feeder",
    "cycling": "bicycle, helmet, pump, lock, bell, saddle bag, bicycle light, repair kit, mudguards, child seat",
    "tea": "kettle, teapot, green tea, black tea, cups, tea strainer, honey, biscuits, tea towel, tray",
    "music": "guitar, strings, tuner, capo, music stand, song book, plectrums, strap, amplifier, headphones",
    "sewing": "sewing machine, thread, needles, scissors, cotton, buttons, zips, tape measure, pins, patterns",
    "office": "desk, chair, lamp, notebook, pens, stapler, paper, folders, calculator, calendar",
    "pets": "dog lead, dog bowl, dog food, dog toy, cat litter, cat food, scratching post, brush, basket, treats",
}
_FIRST_NAMES = """
    Ada Ben Cleo Dan Eva Finn Gina Hugo Iris Jack Kira Leo Mona Nils Olga Pia Quinn Rosa Sam Tara Umar Vera Will Xenia
    Yara Zoe
"""
FIRST_NAMES = _FIRST_NAMES.split()


def things() -> dict[str, list[str]]:
    """Return the names of the things of each department."""
    return {department: listed.split(", ") for department, listed in DEPARTMENTS.items()}


def make_log(
    n_users: int = 1500, seed: int = 0, *, opening: datetime = datetime(2026, 1, 5, 9)
) -> dict[str, list[str]]:
    """Return the columns user, item and time of purchases since the `opening`, in the order of the time.

    A user shops in two departments, mostly from the first things of a department to the later ones, and sometimes buys
    anything.
    """
    rng = np.random.default_rng(seed)
    departments = list(things().values())
    rows: list[tuple[float, str, str]] = []
    for number in range(n_users):
        user = f"{FIRST_NAMES[number % len(FIRST_NAMES)]} {number // len(FIRST_NAMES) + 1}"
        favourites = rng.choice(len(departments), 2, replace=False)
        day, depth = rng.uniform(0, 200), [0, 0]
        for _ in range(int(rng.integers(4, 13))):
            day += rng.exponential(6)
            which = int(rng.integers(2))
            department = departments[favourites[which] if rng.random() < 0.85 else rng.integers(len(departments))]
            place = min(depth[which] + int(rng.integers(3)), len(department) - 1)
            depth[which] += 1
            rows.append((day, user, department[place]))
    rows.sort()
    times = [(opening + timedelta(days=day)).isoformat(timespec="minutes") for day, _, _ in rows]
    return {"user": [user for _, user, _ in rows], "item": [item for _, _, item in rows], "time": times}
