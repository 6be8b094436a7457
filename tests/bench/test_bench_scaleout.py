"""Simulation of a training on a cluster."""

import pytest

from bench.scaleout_simulation import Costs, network_table, node_counts, simulate, stages

COSTS = Costs(1e-9, 1e-4, 1e-9, 1024.0, 1e-6, [1e-6, 2e-6, 4e-6], [1e-7, 1e-7], 1.0, 0.5)
SHAPE = {"points": 1e6, "labels": 1e5, "entries": 75.0, "labels_a_point": 5.0}


@pytest.mark.parametrize(
    ("labels", "counts"), [(16, [1]), (65, [1, 5]), (1000, [4, 63]), (10**6, [1, 16, 245, 3907, 62500])]
)
def test_levels_have_the_nodes_of_a_tree(labels, counts):
    assert node_counts(labels) == counts


def test_one_core_takes_the_time_of_all_tasks():
    found = simulate(COSTS, 1, **SHAPE)
    assert found.wall == pytest.approx(found.work + found.driver, rel=0.02)


def test_more_cores_are_never_slower_and_end_with_the_longest_tasks():
    walls = [simulate(COSTS, cores, **SHAPE).wall for cores in (1, 4, 16, 64, 10**6)]
    assert walls == sorted(walls, reverse=True)
    bound = sum(stage.seconds * stage.shared + stage.driver for stage in stages(COSTS, **SHAPE))
    assert bound <= walls[-1] < 1.3 * bound


def test_workers_share_the_work_of_a_network_and_wait_for_the_driver():
    run = {"driver": 0.01, "tasks": 0.2, "tidying": 0.0}
    found = {"sizes": {"hidden": 128, "batch_size": 1024}, "active": 5836.8, "workers": {"1": [run]}}
    lines = list(network_table({**found, "files": {"batch": 0.0, "records": 0.0}}))
    steps = [float(line.split("|")[2]) for line in lines[2:]]
    assert steps == pytest.approx([211, 62, 31], abs=1)
