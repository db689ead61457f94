"""Room for a gang that waits, made by running jobs that stop or move: for whom, at which cost, and by which plan.

Only the first job in line is helped: nodes that become free are its anyway, so that it overtakes nobody. What Slurm
queues again begins anew. A move costs the work that is lost, in minutes of nodes, and a minute more for each node, for
the start. A stop costs twice as much, for the job waits afterwards.
"""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import ClassVar, Protocol

from allocopt.cluster.cluster import Cluster, NodeUse
from allocopt.cluster.hostlist import fold_hostlist
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.slurm_jobs import RUNNING
from allocopt.errors import AllocoptError, UsageError
from allocopt.live.journal import Journal
from allocopt.live.order import waited
from allocopt.live.slurm import WAITING, Look, SlurmJob
from allocopt.live.solver_process import SolverProcess
from allocopt.problems.instances import object_from_problem, shipped_problems
from allocopt.problems.kind import kind_of
from allocopt.problems.relocation.aims import MOVE_SHARE, Aims
from allocopt.problems.relocation.problem import GETS_NODES, PlacedJob, Relocation, RelocationProblem
from allocopt.problems.relocation.snapshot import snapshot
from allocopt.solving.protocol import get_solver
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solution_files import object_from_result
from allocopt.solving.solve import prepare, solve
from allocopt.version import __version__

RESERVATION = "allocopt_"
"""With which the names of reservations begin that keep the nodes of a gang."""
SOLVER = "auto"
_START_MINUTES = 1.0  # that a job which begins anew loses beside its work
_MOST_LOST = 500_000.0  # minutes of nodes; solvers refuse costs that differ by a factor above 10^6
_AGAIN_S = 10.0  # between two plans for the same gang


@dataclass(frozen=True, slots=True)
class RelocationLimits:
    """When and how much is relocated.

    Parameters
    ----------
    wait
        Seconds that a gang has to wait first.
    solve
        Seconds for each plan.
    step
        Seconds after which a step that is not seen to have happened ends the plan.
    per_job
        How often Slurm may have queued a job again, for any reason, that is not yet queued again here once more.
    per_hour
        Jobs that are queued again here in an hour.
    rest
        Seconds that a job has to run after it was queued again or pinned.
    within
        Level in one group of which gangs have to stay, such as ``leaf``; None if their own requests decide.
    may_stop
        Whether jobs may also stop, and wait.
    """

    wait: float = 600.0
    solve: float = 2.0
    step: float = 120.0
    per_job: int = 1
    per_hour: int = 20
    rest: float = 3600.0
    within: str | None = None
    may_stop: bool = False

    def __post_init__(self) -> None:
        for name, option in (("solve", "--relocate-limit"), ("step", "--step-limit")):
            if not 0 < getattr(self, name) <= 86_400:
                raise UsageError(f"{option} is {getattr(self, name):g} s, must be above 0 and at most 86400")


@dataclass(frozen=True, slots=True)
class RelocationQuestion:
    """A relocation problem, as the solver process is asked."""

    problem: RelocationProblem

    def solved(self, solver: str, time_limit: float, seed: int) -> Result:
        """Return the verified result of a solver."""
        found = get_solver(solver, None, self.problem.kind)
        prepare(found, [self.problem])
        return solve(self.problem, solver=found, time_limit=time_limit, seed=seed)

    def unsolved(self, runtime_s: float, seed: int) -> Result:
        """Return that nothing is known."""
        return Result(
            Status.UNKNOWN, StopReason.TIME_LIMIT, None, None, runtime_s, None, seed, SOLVER, __version__
        )  # fmt: skip

    @classmethod
    def sample(cls) -> "RelocationQuestion":
        """Return a question on which a solver is tried before it is needed."""
        return cls(shipped_problems(RelocationProblem.kind)[0])  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class RelocationPlan:
    """Who stops, who moves and who starts where, as a look at a cluster asks for it.

    Parameters
    ----------
    gang
        The job that gets room.
    look
        The cluster when the plan was made.
    """

    gang: SlurmJob
    look: Look
    problem: RelocationProblem
    relocation: Relocation

    @cached_property
    def before(self) -> Mapping[str, SlurmJob]:
        """The jobs that had nodes, by id."""
        return {job.id: job for job in self.look.jobs if job.state in RUNNING}

    @cached_property
    def nodes(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the nodes at the end of each job that moves or starts, by id."""
        names, ends = self.look.cluster.topology.nodes, self.problem.ends(self.relocation)
        steps = self.relocation.steps
        return {job: tuple(names[node] for node, _ in ends[job]) for action, job in steps if action in GETS_NODES}

    @cached_property
    def leaving(self) -> frozenset[str]:
        """Ids of the jobs that stop or move."""
        return frozenset(job for _, job in self.relocation.steps) - {self.gang.id}

    def steps(self) -> list[dict[str, str]]:
        """Return the steps as a journal tells of them."""
        return [
            {"action": str(action), "job": job}
            | ({"nodes": fold_hostlist(self.nodes[job])} if action in GETS_NODES else {})
            for action, job in self.relocation.steps
        ]


class Carrier(Protocol):
    """What is done with a plan."""

    acts: ClassVar[bool]
    """Whether jobs are told anything."""

    @property
    def is_under_way(self) -> bool:
        """Whether a plan is being carried out."""

    def may_plan(self, look: Look) -> bool:
        """Whether the next plan may be made."""

    def begin(self, look: Look, plan: RelocationPlan) -> None:
        """Take a plan that was written to the journal."""

    def step(self, look: Look, by_ms: int) -> None:
        """Go on with it, by the service that began at a time in ms since 1970."""


class Advise:
    """Plans are written, and nothing else is done."""

    acts: ClassVar[bool] = False
    is_under_way = False

    def may_plan(self, look: Look) -> bool:
        """Return that it may always be."""
        return True

    def begin(self, look: Look, plan: RelocationPlan) -> None:
        """Do nothing."""

    def step(self, look: Look, by_ms: int) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Relocator:
    """Looks for gangs that wait too long, makes plans for them, and has them carried out, one at a time.

    Parameters
    ----------
    opted_in
        Whether a job takes part, as a gang or as one that stops or moves.
    carrier
        What is done with plans.
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
        """Whether jobs are told anything."""
        return self.carrier.acts

    @property
    def is_under_way(self) -> bool:
        """Whether a plan is being carried out."""
        return self.carrier.is_under_way

    def step(self, look: Look, solving: SolverProcess, by_ms: int) -> None:
        """Do what one look asks for."""
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
                # One plan a look, for it takes time.
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
            # Jobs that stopped for a gang do not make others stop.
            if self.opted_in(job) and not job.restarts and waited(job, look.now_s) >= self.limits.wait
        ]

    def _may_leave(self, look: Look, job: SlurmJob) -> bool:
        # Nobody moves on at once who was just placed here.
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
            # Another try may find more.
            del self._situations[gang.id]
        plan = None if result.solution is None else RelocationPlan(gang, look, problem, result.solution)
        if plan is not None and not plan.leaving:
            self._tell_left(look, gang, "finds room where nobody has to leave")
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
    """Return the waiting jobs that Slurm starts next: no job before them may have a node of their partitions.

    Tasks of arrays stand in line, too, and are not returned.
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
    # A job that is held here begins later only for that reason.
    return waits and (job.begin_s <= now_s or job.is_delayed)


def relocation_problem(
    look: Look, gang: SlurmJob, movable: frozenset[str], limits: RelocationLimits
) -> tuple[RelocationProblem, Sequence[str]]:
    """Return the problem of making room for a gang, and remarks about jobs whose records cannot be used as written.

    Parameters
    ----------
    movable
        Ids of the jobs that may stop or move, as far as Slurm may queue them again.

    Raises
    ------
    AllocoptError
        If the gang asks for what is not modelled, or a job cannot be read.
    """
    jobs = {job.id: job for job in look.jobs}
    name = f"job {gang.id} at {datetime.fromtimestamp(look.now_s, UTC):%Y-%m-%dT%H:%M:%S}"
    aims = Aims(start=(gang.id,), within=limits.within)
    problem, remarks = snapshot(_all_idle(look.cluster), look.queue_with(gang.id), aims, name)

    def open_to(job: str, request: ClusterRequest) -> ClusterRequest:
        # Who begins anew may run for the whole of its limit.
        is_open = look.open_until(look.now_s + jobs[job].finite_limit_s)
        return request._replace(masks=request.masks & is_open)

    def priced(one: PlacedJob) -> PlacedJob:
        if one.move_cost is None or one.id not in movable:
            return replace(one, stop_cost=None, move_cost=None)
        lost = work_lost(jobs[one.id], look.now_s)
        stop_cost = lost / MOVE_SHARE if limits.may_stop else None
        return replace(one, request=open_to(one.id, one.request), stop_cost=stop_cost, move_cost=lost)

    running = tuple(map(priced, problem.running))
    waiting = tuple(replace(one, request=open_to(one.id, one.request)) for one in problem.waiting)
    return replace(problem, running=running, waiting=waiting), remarks


def work_lost(job: SlurmJob, now_s: float) -> float:
    """Return what is lost when a job begins anew, in minutes of nodes."""
    minutes = max(0.0, now_s - job.start_s) / 60 + _START_MINUTES
    return min(_MOST_LOST, round(len(job.allocated) * minutes, 3))


def _all_idle(cluster: Cluster) -> Cluster:
    """Return a cluster without what was in use when its nodes were read, for the jobs say what is."""
    return replace(cluster, nodes=tuple(replace(node, use=NodeUse()) for node in cluster.nodes))


def _in_words(problem: RelocationProblem, result: Result) -> str:
    if result.solution is not None:
        return kind_of(problem).remark(problem, result.solution)
    if result.status is Status.INFEASIBLE:
        return "proved: nobody who may leave makes room"
    return "no answer within the limit"
