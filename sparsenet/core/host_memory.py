"""The memory that a step takes in this process and on the machines of its workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sparsenet.core.tasks import Host, TaskRunner


class HostNeeds(NamedTuple):
    """The bytes that a host needs, by purpose, and its limit; `is_own` for the host of this process."""

    needed: dict[str, int]
    limit: int
    is_own: bool


def needs_by_host(
    runner: TaskRunner, own: Mapping[str, int], limit: int, *, is_given: bool, of_workers: Callable[[Host], int]
) -> list[HostNeeds]:
    """Return the needs of this process with the workers on its host, and of the other host with the least memory left.

    Parameters
    ----------
    own : mapping
        Bytes of this process, by purpose.
    limit : int
        The limit of a host, if a user has given it; else that of this one.
    of_workers : function
        Returns the bytes of the workers of a host.
    """
    here, others = dict(own), list[HostNeeds]()
    for host in runner.hosts() or []:
        name, size = f"{host.n_workers} worker{'s' if host.n_workers > 1 else ''}", of_workers(host)
        if host.is_own:
            here[name] = size
        elif size:
            others.append(HostNeeds({f"{name} on {host.name}": size}, limit if is_given else host.available, False))
    found = [HostNeeds(here, limit, True), *sorted(others, key=lambda each: each.limit - sum(each.needed.values()))]
    return [HostNeeds({name: size for name, size in each.needed.items() if size}, *each[1:]) for each in found[:2]]
