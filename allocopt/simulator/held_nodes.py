"""Tracks the units that jobs hold on nodes, and the guests that run on units of other jobs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.platform import Platform
from allocopt.errors import InvalidSolutionError
from allocopt.problems.coallocation.problem import LARGEST_PERCENT
from allocopt.simulator.kernels.backfilling import start_waiting
from allocopt.simulator.state import FREE, RUNNING, State


class Share(NamedTuple):
    """The distinct nodes of a job, shape ``(k,)``, and its units of each resource on each of them, shape ``(k, R)``."""

    nodes: IntArray
    units: IntArray

    @classmethod
    def whole(cls, nodes: IntArray) -> "Share":
        """Return whole nodes as a share."""
        return cls(nodes, np.ones((len(nodes), 1), dtype=np.int64))


class Allocator(Protocol):
    """Places jobs that start at the same time."""

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        """Return the share of each job.

        ``names`` are the numbers of the jobs, as text. ``request`` has their units of each resource, shape
        ``(jobs, R)``; the total does not exceed the units ``free`` on the nodes, shape ``(nodes, R)``.
        """


@dataclass(frozen=True, slots=True)
class DepthFirst(Allocator):
    """Fills one node after the other, in the order of their numbers (CuSH's depth-first placement, section 3.2)."""

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        left = free.copy()
        return [_take(left, _first_units(left, asked)) for asked in request]


@dataclass(frozen=True, slots=True)
class BreadthFirst(Allocator):
    """Takes one unit from every node in turn, so uses many nodes (CuSH's breadth-first placement, section 3.2)."""

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        left, shares = free.copy(), []
        for asked in request:
            units = np.zeros_like(left)
            for resource, wanted in enumerate(asked.tolist()):
                available = left[:, resource]
                # Find the largest level for which min(level, available), summed over the nodes, is at most ``wanted``.
                taken = np.minimum(available, np.arange(available.max(initial=0) + 1)[:, np.newaxis]).sum(axis=1)
                level = np.searchsorted(taken, wanted, "right") - 1
                units[:, resource] = np.minimum(available, level)
                # The first nodes with more available give the remaining units.
                over = np.flatnonzero(available > level)[: wanted - units[:, resource].sum()]
                units[over, resource] += 1
            shares.append(_take(left, units))
        return shares


def _take(left: IntArray, units: IntArray) -> Share:
    left -= units
    nodes = np.flatnonzero(units.any(axis=1))
    return Share(nodes, units[nodes])


def _first_units(free: IntArray, asked: IntArray) -> IntArray:
    # Take the units of each resource from the first nodes that have some free.
    before = np.cumsum(free, axis=0) - free
    return np.clip(asked - before, 0, free)


class HeldNodes:
    """Free units of every node, and the jobs that hold the other units; errors name jobs by their ``ids``."""

    def __init__(self, platform: Platform, ids: IntArray) -> None:
        self.capacity, self.free = platform.capacity, platform.capacity.copy()
        self.shares: list[Share | None] = [None] * len(ids)
        self._resources, self._is_shared, self._ids = platform.resources, platform.is_shared, ids
        self._idle = np.ones(len(self.free), dtype=np.bool_)
        self._holders: set[int] = set()

    def idle_nodes(self) -> IntArray:
        """Return the nodes without held units, in increasing order."""
        return np.flatnonzero(self._idle)

    def share_of(self, nodes: IntArray, request: IntArray) -> Share:
        """Return the share of a job that takes its request from the chosen nodes, in their order."""
        if nodes.size and not (0 <= nodes.min() and nodes.max() < len(self.free)):
            return Share(nodes, np.zeros((len(nodes), len(request)), dtype=np.int64))
        if not self._is_shared:
            return Share.whole(nodes)
        units = _first_units(self.free[nodes], request)
        used = units.any(axis=1)
        return Share(nodes[used], units[used])

    def held_by(self, job: int) -> Share:
        """Return the share of a job that has started."""
        share = self.shares[job]
        assert share is not None, "a job that runs holds something"
        return share

    def hold(self, job: int, share: Share, request: IntArray) -> None:
        """Let a job hold its share; raise `InvalidSolutionError` if it differs from the request, or is not free."""
        nodes, units = share
        name = f"job {self._ids[job]}"
        if nodes.ndim != 1 or units.shape != (len(nodes), len(self._resources)):
            fault = f"gets nodes of shape {nodes.shape} and units of shape {units.shape}"
            raise InvalidSolutionError(f"{name} {fault}, must be (k,) and (k, {len(self._resources)})")
        if len(nodes) and not (0 <= nodes.min() and nodes.max() < len(self.free)):
            wrong = nodes[(nodes < 0) | (nodes >= len(self.free))][0]
            raise InvalidSolutionError(f"{name} gets node {wrong}, but nodes are numbered 0 to {len(self.free) - 1}")
        if len(np.unique(nodes)) < len(nodes):
            raise InvalidSolutionError(f"{name} gets a node twice")
        short = (units < 0) | (units > self.free[nodes])
        if short.any():
            place, resource = np.argwhere(short)[0]
            node, held = nodes[place], ((self.held_by(other), other) for other in sorted(self._holders))
            names = [str(self._ids[by]) for share, by in held if share.units[share.nodes == node, resource].sum() > 0]
            what = f"{units[place, resource]} {self._resources[resource]} of which {self.free[node, resource]} are free"
            who = f"; held by job {', '.join(names)}" if names else ""
            raise InvalidSolutionError(f"{name} over-commits node {node}: gets {what}{who}")
        got = units.sum(axis=0)
        for resource, wanted, given in zip(self._resources, request, got, strict=True):
            if wanted != given:
                raise InvalidSolutionError(f"{name} gets {given} {resource}, but asks for {wanted}")
        self.free[nodes] -= units
        self._idle[nodes] = False
        self.shares[job] = share
        self._holders.add(job)

    def release(self, job: int) -> None:
        """Free the units that a job holds."""
        share = self.held_by(job)
        self._holders.remove(job)
        self.free[share.nodes] += share.units
        self._idle[share.nodes] = (self.free[share.nodes] == self.capacity[share.nodes]).all(axis=1)

    def nodes(self) -> tuple[IntArray, ...]:
        """Return the nodes of each job, empty for a job that never started."""
        none = np.empty(0, dtype=np.int64)
        return tuple(none if share is None else share.nodes for share in self.shares)


class Guest(NamedTuple):
    """A job that runs on units of another job, and its quota in percent of these units."""

    job: int
    percent: int


class Guests:
    """Guests by host. The request of a guest is kept here and set to 0 in the state, so that it holds no units."""

    def __init__(self, state: State, ids: IntArray) -> None:
        self._state, self._ids = state, ids
        self._of: dict[int, Guest] = {}
        self._asked: dict[int, IntArray] = {}
        self.of: Mapping[int, Guest] = MappingProxyType(self._of)
        """The guest of each host, by the number of the host."""
        self.ended_at: dict[int, float] = {}
        """Time at which each former guest began to hold its own units, or ended as a guest."""

    def start(self, job: int, host: int, percent: int) -> bool:
        """Start a waiting job as the guest of a running one; return False if it does not wait."""
        who = f"job {self._ids[job]} is to be a guest of job {self._ids[host]}"
        if host not in self._state.lists[RUNNING, : self._state.clock["n_running"][0]]:
            raise InvalidSolutionError(f"{who}, which does not run")
        if host in self._asked:
            raise InvalidSolutionError(f"{who}, which is a guest itself")
        if host in self._of:
            raise InvalidSolutionError(f"{who}, which already has a guest")
        asked, held = self._state.request[job].copy(), self._state.request[host]
        if (asked > held).any():
            raise InvalidSolutionError(f"{who}: the guest asks for {asked} units, its host holds {held}")
        self._check_percent(percent)
        self._state.request[job] = 0
        if not start_waiting(self._state, job):
            self._state.request[job] = asked
            return False
        self._asked[job] = asked
        self._of[host] = Guest(job, percent)
        return True

    def set_quota(self, host: int, percent: int) -> None:
        """Change the quota of a host's guest."""
        if host not in self._of:
            raise InvalidSolutionError(f"job {self._ids[host]} has no guest whose quota could change")
        self._check_percent(percent)
        self._of[host] = self._of[host]._replace(percent=percent)

    def leave(self, ended: Iterable[int]) -> None:
        """Remove ended jobs; a guest whose host has ended holds the units of its request from now on."""
        gone = set(ended)
        for host, guest in list(self._of.items()):
            if host in gone or guest.job in gone:
                del self._of[host]
                self._state.request[guest.job] = self._asked.pop(guest.job)
                self.ended_at[guest.job] = float(self._state.clock["now"][0])
                if guest.job not in gone:
                    units = self._state.request[guest.job]
                    self._state.units[FREE] -= units
                    self._state.held[self._state.jobs["user"][guest.job]] += units

    def _check_percent(self, percent: int) -> None:
        if not 0 < percent <= LARGEST_PERCENT:
            raise InvalidSolutionError(f"the quota is {percent} %, must be above 0 and at most {LARGEST_PERCENT} %")
