"""Solver ``simanneal``: the paper's move with the simanneal package, as a reference for the kernel."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version as package_version
from typing import Any, ClassVar

import numpy as np
from simanneal import Annealer

from allocopt.arrays import IntArray
from allocopt.cluster.topology import hop_costs
from allocopt.errors import InvalidSolutionError
from allocopt.heuristics.topology.annealing import DRAWS, Schedule, WindowAnnealing
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.problem import check_non_crossing
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Clock

LARGEST_WINDOW, MOST_JOBS = 20_000, 1_000


def _destroy_and_repair(owners: IntArray, sizes: IntArray, most_removed: int, rng: np.random.Generator) -> IntArray:
    """Return the owners of all idle positions after the NSA paper's move; the simple counterpart of the kernel."""
    owners = owners.copy()
    most = min(most_removed, len(sizes))
    removed = rng.choice(len(sizes), size=rng.integers(1, most + 1), replace=False)
    owners[np.isin(owners, removed)] = -1
    for job in sorted(removed, key=lambda job: -sizes[job]):
        idle = np.flatnonzero(owners < 0)
        first = rng.integers(len(idle))
        owners[np.roll(idle, -first)[: sizes[job]]] = job
    return owners


class _WindowAnnealer(Annealer):  # type: ignore[misc]
    """A window for simanneal; the state is the owner of every idle position."""

    copy_strategy = "method"
    updates = 0

    def __init__(
        self, problem: TopologyProblem, start: Allocation, schedule: Schedule, seed: int, clock: Clock
    ) -> None:
        # Do not call the constructor of the base class: it would permanently replace the process's handler of Ctrl-C.
        self.state = self.best_state = start.owners(problem)
        self.Tmax, self.Tmin = schedule.hottest * problem.hop_cost, schedule.coldest * problem.hop_cost
        self.steps, self._most_removed = schedule.steps, schedule.most_removed
        self._problem, self._clock, self._rng = problem, clock, np.random.default_rng(seed)

    def move(self) -> None:
        """Change the state, keeping it non-crossing under ``dcas``; request the end once the time is over."""
        self.user_exit = self._clock.expired()
        for _ in range(DRAWS):
            moved = _destroy_and_repair(self.state, self._problem.sizes, self._most_removed, self._rng)
            try:
                if self._problem.strategy is not Strategy.FREE:
                    check_non_crossing(self._problem, moved)
            except InvalidSolutionError:
                continue
            self.state = moved
            return

    def energy(self) -> float:
        """Return the total hop cost of the state."""
        allocation = Allocation.of_owners(self._problem, self.state)
        return float(hop_costs(self._problem.topology, self._problem.hop_cost, allocation.nodes).sum())


@dataclass(frozen=True, slots=True)
class SimannealReference(WindowAnnealing):
    """Anneal with the simanneal package, some hundred times slower than ``annealing``."""

    name: ClassVar[str] = "simanneal"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.DCAS, Strategy.FREE}),
        frozenset({Promise.ANYTIME}),
        f"{LARGEST_WINDOW:,} idle nodes, {MOST_JOBS:,} jobs",
    )

    @property
    def version(self) -> str:
        return f"simanneal {package_version('simanneal')}"

    def refusal(self, problem: TopologyProblem) -> str | None:
        counts = (len(problem.idle_nodes), LARGEST_WINDOW, "idle nodes"), (len(problem.jobs), MOST_JOBS, "jobs")
        refused = (f"it has {n:,} {noun}, at most {most:,} are supported" for n, most, noun in counts if n > most)
        return next(refused, None)

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        return ()

    def walk(self, problem: TopologyProblem, schedule: Schedule, seed: int, run: Run) -> StopReason:
        """Anneal from the incumbent; restore the state of the global generator, which simanneal uses."""
        annealer = _WindowAnnealer(problem, run.solution, schedule, seed, run.clock)
        state = random.getstate()
        random.seed(seed)
        try:
            annealer.anneal()
        finally:
            random.setstate(state)
            run.offer(Allocation.of_owners(problem, annealer.best_state))
        return StopReason.TIME_LIMIT if run.clock.expired() else StopReason.ITERATIONS
