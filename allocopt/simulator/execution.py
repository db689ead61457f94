"""Execution models: how fast a started job runs where it was put."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import HopFormula, Topology, hop_costs
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.simulator.held_nodes import Guest, Share


class Placed(Protocol):
    """What jobs hold on which nodes; one object for each simulation."""

    def held_by(self, job: int) -> Share:
        """Return the share of a job that has started."""


class Change(NamedTuple):
    """Changes on the machine since the last event.

    Jobs in ``ended`` have ended since the last change. Where nodes are not tracked there is no placement; guests are by
    the number of the job that has one.
    """

    now: float  # the time in seconds
    started: IntArray
    ended: IntArray
    running: IntArray
    placement: Placed | None
    guests: Mapping[int, Guest]


@runtime_checkable
class ExecutionModel(Protocol):
    """Says at which speed jobs run; without one, all run at speed 1, as recorded."""

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the jobs whose speed is another one from now on, and that speed.

        A job that has just started runs at speed 1 unless this says otherwise. Speeds are seconds of recorded run time
        per second, not negative.
        """


@dataclass(frozen=True, slots=True)
class Locality:
    """A job takes longer by a penalty that depends on how many nodes it is spread over (CuSH, section 3.2).

    Raises `InvalidProblemError` if a penalty would make a job end before it starts, or a job has fewer nodes at most
    than at least.
    """

    run: FloatArray  # run times of the jobs in seconds, shape ``(n,)`` as all arrays here
    # Nodes that the job has when it is packed and when it is spread as far as it can be.
    fewest: IntArray
    most: IntArray
    # Seconds that it takes longer then; linear between.
    packed_s: FloatArray
    spread_s: FloatArray

    def __post_init__(self) -> None:
        if (np.minimum(self.packed_s, self.spread_s) <= -self.run).any():
            raise InvalidProblemError("locality", "a penalty takes more than the whole run time away")
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

    With h the mean over its pairs of nodes and h_1 the hops within a leaf, it takes ``1 + share * (h / h_1 - 1)`` times
    as long as recorded: no longer within one leaf, and ``1 + share`` times as long where pairs are twice as far apart.

    Raises `UsageError` if the share is negative, or nodes of one leaf are no hop apart.
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
