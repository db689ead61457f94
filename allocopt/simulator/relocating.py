"""Policy ``relocation``: a built-in scheduler, plus stopping and moving running jobs if waiting gangs gain more.

A gang that needs nodes of one rack waits long if small jobs are spread over all racks. Once per period, a relocation
problem (docs/relocation.md) chooses running jobs that stop or move for waiting gangs. All its costs are waits.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.errors import UsageError
from allocopt.problems.relocation.problem import Relocation
from allocopt.simulator.decisions import Decision, Pass, Wait
from allocopt.simulator.periods import check_period, due_at
from allocopt.simulator.posed import LeaveCosts, PosedRelocation
from allocopt.simulator.scheduler import ListScheduler, get_policy
from allocopt.simulator.view import View
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver
from allocopt.solving.result import Status
from allocopt.solving.solve import solve

_MOST_DIFFERENT = 1e5
"""Largest ratio of costs that integer programs resolve numerically; smaller costs are raised."""


@dataclass(frozen=True, slots=True)
class RelocationScheduler:
    """A built-in scheduler that relocates running jobs, once per period, while gangs (jobs of several nodes) wait.

    The size of a job is the largest of its shares of the machine's resources. All costs are sizes times seconds:

    - a gang that continues to wait costs its size times the seconds until its expected start;
    - a moved job starts again, and costs its size times the seconds that it has run, since this work is lost;
    - a stopped job costs one period more, because it waits at least that long.

    Running gangs are neither stopped nor moved.

    Raises `UsageError` if a number is out of range, or there is no such solver or built-in scheduler;
    `MissingPackageError` if the solver needs a package that is not installed.

    Parameters
    ----------
    base
        The built-in scheduler, or its name, such as ``sjf+easy``.
    period_s
        Seconds between two relocations.
    patience_s
        Seconds that a gang must have waited before other jobs make room for it.
    gang_nodes
        Least number of nodes of a gang, at least 2.
    gangs
        Largest number of gangs in a relocation; those first in the queue are chosen.
    requeues
        How often a job may be stopped or moved.
    worth
        Weight of a gang's wait relative to that of other jobs, above 0.
    solver
        Name of an installed solver of relocation problems, or a solver object.
    time_limit
        Seconds that the solver may take for a relocation; None for no limit.
    """

    name: ClassVar[str] = "relocation"

    base: ListScheduler | str = "fcfs+easy"
    period_s: float = 3600.0
    patience_s: float = 3600.0
    gang_nodes: int = 2
    gangs: int = 4
    requeues: int = 1
    worth: float = 1.0
    solver: str | Solver = "auto"
    time_limit: float | None = 10.0
    seed: int = 0
    # Outcome of each relocation problem, over all simulations so far.
    log: list[str] = field(init=False, repr=False, compare=False, default_factory=list)
    _solver: Solver = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_period(self.period_s)
        Budget(self.time_limit, None)
        for name, value, least in (
            ("patience_s", self.patience_s, 0), ("gang_nodes", self.gang_nodes, 2), ("gangs", self.gangs, 1),
            ("requeues", self.requeues, 1), ("seed", self.seed, 0),
        ):  # fmt: skip
            if not value >= least:
                raise UsageError(f"{name} is {value}, must be at least {least}")
        if not 0 < self.worth < float("inf"):
            raise UsageError(f"worth is {self.worth}, must be above 0 and finite")
        base = get_policy(self.base) if isinstance(self.base, str) else self.base
        if not isinstance(base, ListScheduler):
            raise UsageError(f"{self.base!r} is not a built-in scheduler, such as fcfs+easy or sjf+easy")
        solver = get_solver(self.solver, None, "relocation") if isinstance(self.solver, str) else self.solver
        if solver.kind != "relocation":
            raise UsageError(f"solver {solver.name!r} does not take relocation problems")
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "_solver", solver)

    def schedule(self, view: View) -> Iterator[Decision]:
        """Run passes of the built-in scheduler; at multiples of the period, relocate after one pass and run another."""
        yield Pass()
        due = due_at(self.period_s, view.now)
        if due == view.now:
            due += self.period_s
            gangs = self._gangs(view)
            if gangs:
                yield from self._relocated(view, gangs)
                yield Pass()
        if view.head is not None:
            yield Wait(due)

    def _gangs(self, view: View) -> dict[int, float]:
        """Return the gangs that have waited long enough and would continue to wait, and the costs of that."""
        found: dict[int, float] = {}
        for job in view.queue.tolist():
            if view.least_nodes(job) < self.gang_nodes or view.waited(job) < self.patience_s:
                continue
            until, _ = view.shadow(job)
            if view.now < until < np.inf:
                found[job] = self.worth * _size(view, job) * (until - view.now)
            if len(found) == self.gangs:
                break
        return found

    def _relocated(self, view: View, gangs: Mapping[int, float]) -> Iterator[Decision]:
        leaving, requeues, start = {}, view.requeues, view.start
        for job in view.running.tolist():
            if view.least_nodes(job) >= self.gang_nodes or requeues[job] >= self.requeues:
                continue
            size, ran_s = _size(view, job), view.now - float(start[job])
            leaving[job] = LeaveCosts(stop=size * (ran_s + self.period_s), move=size * ran_s)
        posed = view.relocation(*_with_like_costs(gangs, leaving), f"gangs at {view.now:g} s")
        solution = self._solved(posed)
        if solution is not None:
            yield from posed.decisions(solution)

    def _solved(self, posed: PosedRelocation) -> Relocation | None:
        refusal = self._solver.refusal(posed.problem)
        if refusal is not None:
            self.log.append(f"{self._solver.name} {refusal}")
            return None
        found = solve(posed.problem, solver=self._solver, time_limit=self.time_limit, seed=self.seed)
        relocation, is_proved = found.solution, found.status is Status.OPTIMAL
        if relocation is None:
            self.log.append("no answer within the limit")
        elif not relocation.steps:
            self.log.append("nothing is worth it" if is_proved else "nothing found, not proved")
        else:
            self.log.append("proved" if is_proved else "not proved")
        return relocation

    def remarks(self) -> list[str]:
        """Return one line per outcome of relocations; none if there was no relocation problem."""
        return [f"{number} of {len(self.log)} relocations: {what}" for what, number in Counter(self.log).items()]


def _size(view: View, job: int) -> float:
    """Return a job's largest share of the machine over all resources."""
    total = np.asarray(view.platform.total, dtype=np.float64)
    return float(np.max(view.request[job] / np.where(total > 0, total, 1)))


def _with_like_costs(
    gangs: Mapping[int, float], leaving: Mapping[int, LeaveCosts]
) -> tuple[dict[int, float], dict[int, LeaveCosts]]:
    """Return the costs, with small ones raised to the largest one divided by `_MOST_DIFFERENT`."""
    largest = max([*gangs.values(), *(cost.stop or 0.0 for cost in leaving.values())], default=0.0)
    least = largest / _MOST_DIFFERENT
    return (
        {job: max(cost, least) for job, cost in gangs.items()},
        {job: LeaveCosts(max(one.stop or 0.0, least), max(one.move or 0.0, least)) for job, one in leaving.items()},
    )
