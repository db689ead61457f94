"""Decides for which gang room is made, and when.

Only the first job in line gets room. It would get the nodes that become free anyway, so it overtakes no other job.
"""

import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from allocopt.cluster.slurm_jobs import RUNNING
from allocopt.errors import AllocoptError
from allocopt.live.journal import Journal
from allocopt.live.order import waited
from allocopt.live.relocation.plan import (
    SOLVER,
    RelocationLimits,
    RelocationPlan,
    RelocationQuestion,
    relocation_problem,
)
from allocopt.live.slurm import WAITING, Look, SlurmJob
from allocopt.live.solver_process import SolverProcess
from allocopt.problems.instances import object_from_problem
from allocopt.problems.kind import kind_of
from allocopt.problems.relocation.problem import RelocationProblem
from allocopt.solving.result import Result, Status
from allocopt.solving.solution_files import object_from_result

_AGAIN_S = 10.0  # between two plans for the same gang


class Carrier(Protocol):
    """Receives plans, and may carry them out."""

    acts: ClassVar[bool]
    """Whether jobs are changed."""

    @property
    def is_under_way(self) -> bool:
        """Whether a plan is being carried out."""

    def may_plan(self, look: Look) -> bool:
        """Whether the next plan may be made."""

    def begin(self, look: Look, plan: RelocationPlan) -> None:
        """Accept a plan that was written to the journal."""

    def step(self, look: Look, by_ms: int) -> None:
        """Continue the plan by a look; ``by_ms`` is when the service began, in ms since 1970."""


class Advise:
    """Does nothing with plans, which are only written to the journal."""

    acts: ClassVar[bool] = False
    is_under_way = False

    def may_plan(self, look: Look) -> bool:
        """Return True: the next plan may always be made."""
        return True

    def begin(self, look: Look, plan: RelocationPlan) -> None:
        """Do nothing."""

    def step(self, look: Look, by_ms: int) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Relocator:
    """Finds gangs that wait too long, plans room for them, and passes the plans on, one at a time.

    Parameters
    ----------
    opted_in
        Whether a job takes part, as a gang or as one that stops or moves.
    carrier
        Receives the plans.
    """

    journal: Journal
    opted_in: Callable[[SlurmJob], bool]
    limits: RelocationLimits
    carrier: Carrier
    _told: dict[str, str] = field(default_factory=dict)
    _situations: dict[str, object] = field(default_factory=dict)  # of the last plan of each gang
    _solved_s: dict[str, float] = field(default_factory=dict)
    _written: dict[str, object] = field(default_factory=dict)  # the last plan of each gang

    @property
    def acts(self) -> bool:
        """Whether jobs are changed."""
        return self.carrier.acts

    @property
    def is_under_way(self) -> bool:
        """Whether a plan is being carried out."""
        return self.carrier.is_under_way

    def step(self, look: Look, solving: SolverProcess, by_ms: int) -> None:
        """Act on one look."""
        self.carrier.step(look, by_ms)
        if self.is_under_way:
            self._written.clear()
        if not self.carrier.may_plan(look):
            return
        running = frozenset((job.id, job.start_s) for job in look.jobs if job.state in RUNNING)
        situation = running, frozenset(look.away), look.closures
        gangs = self._gangs(look)
        self._forget_others({gang.id for gang in gangs})
        for gang in gangs:
            is_soon = time.monotonic() - self._solved_s.get(gang.id, -_AGAIN_S) < _AGAIN_S
            if not is_soon and self._situations.get(gang.id) != situation:
                # A plan takes time, so make only one per look.
                self._situations[gang.id] = situation
                self._solved_s[gang.id] = time.monotonic()
                self._plan(look, gang, solving)
                return

    def _forget_others(self, gangs: Set[str]) -> None:
        for known in (self._told, self._situations, self._solved_s, self._written):
            for gang in known.keys() - gangs:
                del known[gang]

    def _gangs(self, look: Look) -> list[SlurmJob]:
        return [
            job
            for job in first_in_line(look)
            # A requeued job may have made room for a gang, and must not make others leave in turn.
            if self.opted_in(job) and not job.restarts and waited(job, look.now_s) >= self.limits.wait
        ]

    def _may_leave(self, look: Look, job: SlurmJob) -> bool:
        # A job that was just requeued or pinned has to run for a while before it may leave.
        is_rested = not (job.restarts or job.is_pinned) or look.now_s - job.start_s >= self.limits.rest
        return self.opted_in(job) and job.restarts < self.limits.per_job and is_rested

    def _plan(self, look: Look, gang: SlurmJob, solving: SolverProcess) -> None:
        movable = frozenset(job.id for job in look.jobs if self._may_leave(look, job))
        try:
            problem, remarks = relocation_problem(look, gang, movable, self.limits)
        except AllocoptError as error:
            self._tell_left(look, gang, str(error))
            return
        result, fault = solving.answer(RelocationQuestion(problem), SOLVER, self.limits.solve)
        if result.status is Status.UNKNOWN:
            # Another attempt may find an answer.
            del self._situations[gang.id]
        plan = None if result.solution is None else RelocationPlan(gang, look, problem, result.solution)
        if plan is not None and not plan.leaving:
            self._tell_left(look, gang, "it fits without any job having to leave")
            return
        steps = [] if plan is None else plan.steps()
        if self._written.get(gang.id) != (result.status, steps):
            self._written[gang.id] = result.status, steps
            self._write(look, gang, problem, result, steps=steps, remarks=remarks, **({"cut": fault} if fault else {}))
        if plan is not None:
            self.carrier.begin(look, plan)

    def _write(self, look: Look, gang: SlurmJob, problem: RelocationProblem, result: Result, **told: object) -> None:
        self.journal.write(
            "relocation", look.now_s, gang=gang.id, what=_in_words(problem, result),
            cost=result.objective, bound=result.bound,
            proved=result.status in (Status.OPTIMAL, Status.INFEASIBLE), solve_s=round(result.runtime_s, 6),
            instance=object_from_problem(problem), answer=object_from_result(problem, result), **told,
        )  # fmt: skip

    def _tell_left(self, look: Look, gang: SlurmJob, why: str) -> None:
        if self._told.get(gang.id) != why:
            self._told[gang.id] = why
            self.journal.write("no relocation", look.now_s, job=gang.id, why=why)


def first_in_line(look: Look) -> list[SlurmJob]:
    """Return the waiting jobs that Slurm starts next: no job before them in line may use a node of their partitions.

    Tasks of arrays are counted in the line, but not returned.
    """
    partitions = {one.name: one for one in look.cluster.partitions}
    everywhere = frozenset(look.numbers)

    def tier(job: SlurmJob) -> int:
        return max((partitions[name].tier for name in job.partition.split(",") if name in partitions), default=1)

    def nodes_of(listed: str) -> frozenset[str]:
        names = listed.split(",")
        is_known = all(name in partitions for name in names)
        return frozenset(node for name in names for node in partitions[name].nodes) if is_known else everywhere

    found, seen, taken = [], set[str](), set[str]()
    waiting = [job for job in look.jobs if _stands_in_line(job, look.now_s)]
    for job in sorted(waiting, key=lambda job: (-tier(job), -job.own_priority, job.number)):
        if job.partition not in seen:
            seen.add(job.partition)
            nodes = nodes_of(job.partition)
            if taken.isdisjoint(nodes) and not job.together:
                found.append(job)
            taken |= nodes
    return found


def _stands_in_line(job: SlurmJob, now_s: float) -> bool:
    waits = job.state == "PENDING" and job.priority > 0 and job.reason in WAITING and not job.is_pinned
    # A job that the service holds has a begin time set by the service, not by its user.
    return waits and (job.begin_s <= now_s or job.is_delayed)


def _in_words(problem: RelocationProblem, result: Result) -> str:
    if result.solution is not None:
        return kind_of(problem).remark(problem, result.solution)
    if result.status is Status.INFEASIBLE:
        return "proved: the jobs that may leave cannot make room"
    return "no answer within the time limit"
