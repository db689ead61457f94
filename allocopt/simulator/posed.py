"""Problems from the state of a machine: choosing nodes for waiting jobs, and running jobs that make room for them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.topology import Topology
from allocopt.problems.placement.problem import Placements
from allocopt.problems.relocation.problem import GETS_NODES, Action, Relocation, RelocationProblem
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.problems.windows import WindowProblem, WindowSolution
from allocopt.simulator.decisions import Decision, Requeue, Start


class PosedWindow(Protocol):
    """The problem of choosing nodes for jobs that start together."""

    @property
    def problem(self) -> WindowProblem | None:
        """The problem; None if there is nothing to choose."""

    def without_search(self, problem: WindowProblem) -> WindowSolution:
        """Return a solution by a fixed rule, which is feasible under every strategy of the problem."""

    def starts(self, solution: WindowSolution | None) -> Iterator[Start]:
        """Yield the starts of all jobs, with their nodes; ``solution`` is None if there is no problem."""


class WholeNodes(NamedTuple):
    """Jobs that get whole nodes: one-node jobs get the first idle nodes; a problem chooses the other jobs' nodes."""

    single: Mapping[int, IntArray]  # one-node jobs, each with its node
    jobs: tuple[int, ...]  # the jobs of several nodes, by priority
    problem: TopologyProblem | None  # the choice of their nodes among the other idle nodes; None without such jobs

    @classmethod
    def of(
        cls, topology: Topology, idle: IntArray, asked: Mapping[int, Job], name: str, hop_cost: float
    ) -> "WholeNodes":
        """Give the first idle nodes to the one-node jobs, which have no hop cost, and make a problem of the others."""
        single = [job for job, request in asked.items() if request.nodes == 1]
        several = {job: request for job, request in asked.items() if request.nodes > 1}
        first, rest = idle[: len(single), None], idle[len(single) :]
        problem = TopologyProblem(topology, rest, tuple(several.values()), hop_cost, name) if several else None
        return cls(dict(zip(single, first, strict=True)), tuple(several), problem)

    def without_search(self, problem: WindowProblem) -> WindowSolution:
        """Return the sequential allocation, which is feasible under every strategy."""
        assert isinstance(problem, TopologyProblem)
        return Allocation.sequential(problem)

    def starts(self, solution: WindowSolution | None) -> Iterator[Start]:
        """Yield the starts of all jobs, with their nodes."""
        for job, nodes in self.single.items():
            yield Start(job, nodes)
        if solution is not None:
            assert isinstance(solution, Allocation)
            for job, nodes in zip(self.jobs, solution.nodes, strict=True):
                yield Start(job, nodes)


class SharedNodesWindow(NamedTuple):
    """Jobs that get nodes of a cluster, which they may share."""

    jobs: tuple[int, ...]  # by priority
    problem: WindowProblem | None
    greedy: WindowSolution | None  # the choice of the rule of the lowest switch

    def without_search(self, problem: WindowProblem) -> WindowSolution:
        """Return the choice of the rule of the lowest switch."""
        assert self.greedy is not None
        return self.greedy

    def starts(self, solution: WindowSolution | None) -> Iterator[Start]:
        """Yield the starts of all jobs that are placed, with their nodes and tasks."""
        if isinstance(solution, Placements):
            for job, places in zip(self.jobs, solution.of_jobs, strict=True):
                if places:
                    nodes, tasks = np.array(places, dtype=np.int64).T
                    yield Start(job, nodes, tasks)
        elif solution is not None:
            for job, nodes in zip(self.jobs, solution.nodes, strict=True):
                yield Start(job, nodes)


class LeaveCosts(NamedTuple):
    """Costs of stopping and of moving a running job; None if that is not allowed."""

    stop: float | None = None
    move: float | None = None


class PosedRelocation(NamedTuple):
    """The problem of stopping or moving running jobs so that waiting jobs can start."""

    problem: RelocationProblem
    jobs: Mapping[str, int]  # numbers of the jobs by their ids in the problem

    def decisions(self, solution: Relocation) -> Iterator[Decision]:
        """Yield the decisions of a solution in order; a job that moves is requeued and started again at once."""
        at_end, has_left = self.problem.ends(solution), set()
        for action, name in solution.steps:
            job = self.jobs[name]
            if action is not Action.START and name not in has_left:
                yield Requeue(job)
                has_left.add(name)
            if action in GETS_NODES:
                nodes, tasks = np.array(at_end[name], dtype=np.int64).T
                yield Start(job, nodes, tasks)
