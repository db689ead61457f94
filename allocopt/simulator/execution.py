"""Execution models: the speed of a started job, depending on its placement."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import HopFormula, Topology, hop_costs
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.simulator.held_nodes import Guest, Share


class Placed(Protocol):
    """The nodes and units that jobs hold; there is one object for each simulation."""

    def held_by(self, job: int) -> Share:
        """Return the share of a job that has started."""


class Change(NamedTuple):
    """Changes on the machine since the last event.

    Jobs in ``ended`` have ended since the last change. ``placement`` is None if nodes are not tracked. ``guests`` has
    the guest of each host, by the number of the host.
    """

    now: float  # the time in seconds
    started: IntArray
    ended: IntArray
    running: IntArray
    placement: Placed | None
    guests: Mapping[int, Guest]


@runtime_checkable
class ExecutionModel(Protocol):
    """Determines the speeds of jobs; without an execution model all run at speed 1, as recorded."""

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the jobs whose speed changes now, and their new speeds.

        A job that has just started runs at speed 1 if it is not among them. Speeds are seconds of recorded run time per
        second, not negative.
        """


@dataclass(frozen=True, slots=True)
class Locality:
    """A job takes longer by a penalty that depends on its number of nodes (CuSH, section 3.2).

    Raises `InvalidProblemError` if a penalty would make a job end before it starts, or ``most`` is below ``fewest``.
    """

    run: FloatArray  # run times of the jobs in seconds; all arrays have shape ``(n,)``
    # Numbers of nodes of each job if it is packed, and if it is spread as widely as possible.
    fewest: IntArray
    most: IntArray
    # Penalties in seconds for these numbers of nodes; linear between them.
    packed_s: FloatArray
    spread_s: FloatArray

    def __post_init__(self) -> None:
        if (np.minimum(self.packed_s, self.spread_s) <= -self.run).any():
            raise InvalidProblemError("locality", "a penalty leaves no run time")
        if (self.most < self.fewest).any():
            raise InvalidProblemError("locality", "a job has fewer nodes when spread than when packed")

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the speeds of the jobs that have just started; they keep them."""
        if change.placement is None:
            raise UsageError("the locality model needs a platform with nodes")
        for job in change.started.tolist():
            span = max(1, self.most[job] - self.fewest[job])
            nodes = len(change.placement.held_by(job).nodes)
            spread = min(1.0, max(0.0, (nodes - self.fewest[job]) / span))
            penalty = (1 - spread) * self.packed_s[job] + spread * self.spread_s[job]
            yield job, float(self.run[job] / (self.run[job] + penalty))


@dataclass(frozen=True, slots=True)
class HopSlowdown:
    """A job's run time grows with the mean number of hops between two of its nodes.

    Let h be the mean over its pairs of nodes, and h_1 the hops within a leaf. A job takes
    ``1 + share * (h / h_1 - 1)`` times as long as recorded: as long as recorded within one leaf, and ``1 + share``
    times as long if pairs are twice as far apart.

    Raises `UsageError` if the share is not within 0 .. 1000, or there is no hop between nodes of a leaf.
    """

    topology: Topology
    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1000:
            raise UsageError(f"the slowdown by hops is {self.share:g}, must be within 0 .. 1000")
        if self.topology.hops[0] < 1:
            raise UsageError("a slowdown by hops needs a topology with at least one hop within a leaf")

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the speeds of the jobs that have just started; they keep them."""
        if change.placement is None:
            raise UsageError("a slowdown by hops needs a platform with nodes")
        unit = HopFormula.of(self.topology, 1.0).scale
        for job in change.started.tolist():
            nodes = change.placement.held_by(job).nodes
            if len(nodes) > 1:
                mean = hop_costs(self.topology, 1.0 / unit, [nodes])[0] / (len(nodes) - 1)
                yield job, float(1.0 / (1.0 + self.share * (mean / self.topology.hops[0] - 1.0)))
