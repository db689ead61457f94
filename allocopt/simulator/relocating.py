"""Policy ``relocation``: a built-in scheduler that lets running jobs make room where a waiting one gains more by it.

A gang that needs nodes of one rack waits long where small jobs lie all over the racks. Once in a period the jobs that
are to stop or move for the gangs that wait are a relocation problem (docs/relocation.md), in which all costs are waits.
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
"""Factor by which costs differ at most, which integer programs can tell apart; smaller ones are raised."""


@dataclass(frozen=True, slots=True)
class RelocationScheduler:
    """A built-in scheduler with a relocation once in a period, where jobs of several nodes wait.

    A job's size is its share of the resource that it asks for most of, of the whole machine. A gang that waits on costs
    its size times the seconds until it is expected to start. A job that is moved starts anew: it costs its size times
    the seconds that it has run, whose work is lost, and that it ends later. If it is stopped, the seconds of a period
    are added, for which it waits at least. Jobs that are gangs themselves stay.

    Raises `UsageError` if a number makes no sense, or there is no such solver or built-in scheduler;
    `MissingPackageError` if the solver needs a package that is not installed.

    Parameters
    ----------
    base
        The built-in scheduler, or its name, such as ``sjf+easy``.
    period_s
        Seconds between two relocations.
    patience_s
        Seconds that a gang waits before others make room for it.
    gang_nodes
        Nodes from which on a job is a gang, at least 2.
    gangs
        Gangs of a relocation at most, the first in the queue.
    requeues
        How often a job is stopped or moved at most.
    worth
        How many seconds of others a second of a gang's wait is worth, above 0.
    solver
        Name of an installed solver of relocation problems, or a solver object.
    time_limit
        Seconds that it may take for a relocation; None for no limit.
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
    # What came of each relocation that was looked at, of all simulations so far.
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
            raise UsageError(f"{self.base!r} is no built-in scheduler, such as fcfs+easy or sjf+easy")
        solver = get_solver(self.solver, None, "relocation") if isinstance(self.solver, str) else self.solver
        if solver.kind != "relocation":
            raise UsageError(f"solver {solver.name!r} takes no relocation problems")
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "_solver", solver)

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start what the built-in scheduler starts; at a multiple of the period, relocate before it goes on."""
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
        """Return the gangs that have waited long enough and would wait on, and what that costs."""
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
        """Say what came of the relocations, one line per outcome; nothing if none was looked at."""
        return [f"{number} of {len(self.log)} relocations: {what}" for what, number in Counter(self.log).items()]


def _size(view: View, job: int) -> float:
    """Return a job's share of the machine by the resource of which it asks for most."""
    total = np.asarray(view.platform.total, dtype=np.float64)
    return float(np.max(view.request[job] / np.where(total > 0, total, 1)))


def _with_like_costs(
    gangs: Mapping[int, float], leaving: Mapping[int, LeaveCosts]
) -> tuple[dict[int, float], dict[int, LeaveCosts]]:
    """Return costs, the smallest of which are raised so that a solver can tell them apart from the largest."""
    largest = max([*gangs.values(), *(cost.stop or 0.0 for cost in leaving.values())], default=0.0)
    least = largest / _MOST_DIFFERENT
    return (
        {job: max(cost, least) for job, cost in gangs.items()},
        {job: LeaveCosts(max(one.stop or 0.0, least), max(one.move or 0.0, least)) for job, one in leaving.items()},
    )
