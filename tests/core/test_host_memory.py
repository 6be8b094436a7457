"""The memory that a step takes on each machine."""

from typing import Any

from sparsenet.core.host_memory import needs_by_host
from sparsenet.core.tasks import Host


class OnHosts:
    def __init__(self, *hosts):
        self.found = [Host(*host) for host in hosts]

    def hosts(self):
        return self.found


RUNNER: Any = OnHosts(("here", True, 2, 900), ("near", False, 1, 700), ("far", False, 4, 800))


def needs(size, **how):
    return needs_by_host(RUNNER, {"points": 100, "tree": 0}, 900, of_workers=lambda host: size * host.n_workers, **how)


def test_workers_count_on_their_own_host():
    own, other = needs(50, is_given=False)
    assert own == ({"points": 100, "2 workers": 100}, 900, True)
    assert other == ({"4 workers on far": 200}, 800, False), "which leaves less than near does"


def test_a_given_limit_holds_for_each_host():
    assert [limit for _, limit, _ in needs(50, is_given=True)] == [900, 900]


def test_hosts_that_need_nothing_are_left_out():
    assert needs(0, is_given=False) == [({"points": 100}, 900, True)]
