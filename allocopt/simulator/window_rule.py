"""The window rule: which waiting jobs start together at the next multiple of the period (NSA paper, section III-C)."""

import math
from dataclasses import dataclass

import numpy as np

from allocopt.cluster.topology import Topology
from allocopt.errors import UsageError
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.simulator.scheduler import Start
from allocopt.simulator.view import View

ROUNDING = 1e-9
"""Part of a period by which a job may miss the multiple that it was submitted at because times are rounded."""

SHORTEST_S, LONGEST_S = 1e-3, 1e9
"""Range of the period: beyond any that makes sense, and safe from rounding."""


@dataclass(frozen=True, slots=True)
class Window:
    """Jobs that start together.

    Parameters
    ----------
    single
        The one-node jobs, each with its node.
    jobs
        The other jobs, in the order of priority.
    problem
        Where those go, a problem over the idle nodes that remain, strategy ``free``; None where there are none.
    """

    single: tuple[Start, ...]
    jobs: tuple[int, ...]
    problem: TopologyProblem | None

    def starts(self, allocation: Allocation) -> tuple[Start, ...]:
        """Start all jobs, those of the problem where an allocation says."""
        others = zip(self.jobs, allocation.nodes, strict=True)
        return (*self.single, *(Start(job, nodes) for job, nodes in others))


@dataclass(frozen=True, slots=True)
class WindowRule:
    """Which jobs start at a multiple of the period.

    The waiting jobs are taken by number of waiting periods, most first, then by nodes, fewest first, then by
    submission and id, until one does not fit the idle nodes. One-node jobs, which have no cost, take the first ones.

    Parameters
    ----------
    period_s
        The period tau in seconds, ``SHORTEST_S`` to ``LONGEST_S``.

    Raises
    ------
    UsageError
        If the period is out of range.
    """

    period_s: float

    def __post_init__(self) -> None:
        if not SHORTEST_S <= self.period_s <= LONGEST_S:
            raise UsageError(f"the period is {self.period_s} s, must be within {SHORTEST_S:g} and {LONGEST_S:g} s")

    def due(self, time: float) -> float:
        """Return the first multiple of the period that is not before a time, in seconds."""
        number = math.ceil(time / self.period_s)
        # The quotient is rounded, so that the multiple may be off by one.
        candidates = (multiple * self.period_s for multiple in (number - 1, number, number + 1))
        return min(candidate for candidate in candidates if candidate >= time)

    def number(self, time: float) -> int:
        """Return which multiple of the period a time is nearest to."""
        return round(time / self.period_s)

    def select(self, view: View) -> list[int]:
        """Jobs of the window, in the order of priority; `view` is at a multiple of the period."""
        queue = view.queue
        waited = np.array([view.waited(job) for job in queue.tolist()])
        periods = np.floor(waited / self.period_s + ROUNDING)
        order = queue[np.lexsort((view.ids[queue], view.submit[queue], view.processors[queue], -periods))]
        fitting = np.cumsum(view.processors[order]) <= view.free_processors
        chosen: list[int] = order[fitting].tolist()
        return chosen

    def window(self, view: View, topology: Topology, hop_cost: float = 1000.0, name: str = "window") -> Window:
        """Select jobs, give nodes to those that ask for one, and pose the problem of the others.

        Parameters
        ----------
        view
            A cluster whose nodes are given away whole, at a multiple of the period.
        topology
            How the nodes are connected.
        hop_cost
            Cost of one hop.
        name
            Name of the problem.
        """
        selected, idle = self.select(view), view.idle_nodes
        single = [job for job in selected if view.processors[job] == 1]
        several = [job for job in selected if view.processors[job] > 1]
        first, rest = idle[: len(single), None], idle[len(single) :]
        starts = tuple(Start(job, nodes) for job, nodes in zip(single, first, strict=True))
        asked = tuple(Job(str(view.ids[job]), int(view.processors[job])) for job in several)
        problem = TopologyProblem(topology, rest, asked, hop_cost, name) if several else None
        return Window(starts, tuple(several), problem)
