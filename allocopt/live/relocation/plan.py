"""Plans that make room for a gang on the cluster that a look shows, and their costs.

A job that is requeued starts from the beginning. A move costs the work that is lost, in node minutes, and one more
minute for each node, for the new start. A stop costs twice as much, because the job has to wait afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from allocopt.cluster.cluster import Cluster, NodeUse
from allocopt.cluster.hostlist import fold_hostlist
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.slurm_jobs import RUNNING
from allocopt.errors import UsageError
from allocopt.live.slurm import Look, SlurmJob
from allocopt.problems.instances import shipped_problems
from allocopt.problems.relocation.aims import MOVE_SHARE, Aims
from allocopt.problems.relocation.problem import GETS_NODES, PlacedJob, Relocation, RelocationProblem
from allocopt.problems.relocation.snapshot import snapshot
from allocopt.solving.protocol import get_solver
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solve import prepare, solve
from allocopt.version import __version__

SOLVER = "auto"
_START_MINUTES = 1.0  # that a requeued job loses besides its work
_MOST_LOST = 500_000.0  # node minutes; solvers refuse costs that differ by a factor above 10^6


@dataclass(frozen=True, slots=True)
class RelocationLimits:
    """When and how much is relocated.

    Parameters
    ----------
    wait
        Seconds that a gang has to wait before it gets room.
    solve
        Time limit of the solver for each plan, in seconds.
    step
        Seconds after which an unfinished step ends the plan.
    per_job
        Number of restarts, for any reason, after which a job is never requeued here.
    per_hour
        Largest number of jobs that are requeued here in an hour.
    rest
        Seconds for which a job that was requeued or pinned has to run before it may leave.
    within
        Level, such as ``leaf``; a gang must fit into one group of it. None if the gang's own request decides.
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
    """A relocation problem as a question to the solver process."""

    problem: RelocationProblem

    def solved(self, solver: str, time_limit: float, seed: int) -> Result:
        """Return the verified result of a solver."""
        found = get_solver(solver, None, self.problem.kind)
        prepare(found, [self.problem])
        return solve(self.problem, solver=found, time_limit=time_limit, seed=seed)

    def unsolved(self, runtime_s: float, seed: int) -> Result:
        """Return a result without a solution or proof."""
        return Result(
            Status.UNKNOWN, StopReason.TIME_LIMIT, None, None, runtime_s, None, seed, SOLVER, __version__
        )  # fmt: skip

    @classmethod
    def sample(cls) -> "RelocationQuestion":
        """Return a small question for trying a solver before it is needed."""
        return cls(shipped_problems(RelocationProblem.kind)[0])  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class RelocationPlan:
    """The jobs that stop, move and start, and their nodes, planned from a look at a cluster.

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
        """The jobs that had nodes when the plan was made, by id."""
        return {job.id: job for job in self.look.jobs if job.state in RUNNING}

    @cached_property
    def nodes(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the new nodes of each job that moves or starts, by id."""
        names, ends = self.look.cluster.topology.nodes, self.problem.ends(self.relocation)
        steps = self.relocation.steps
        return {job: tuple(names[node] for node, _ in ends[job]) for action, job in steps if action in GETS_NODES}

    @cached_property
    def leaving(self) -> frozenset[str]:
        """Ids of the jobs that stop or move."""
        return frozenset(job for _, job in self.relocation.steps) - {self.gang.id}

    def steps(self) -> list[dict[str, str]]:
        """Return the steps as they are written into a journal."""
        return [
            {"action": str(action), "job": job}
            | ({"nodes": fold_hostlist(self.nodes[job])} if action in GETS_NODES else {})
            for action, job in self.relocation.steps
        ]


def relocation_problem(
    look: Look, gang: SlurmJob, movable: frozenset[str], limits: RelocationLimits
) -> tuple[RelocationProblem, Sequence[str]]:
    """Return the problem of making room for a gang, and remarks about jobs whose records cannot be used as written.

    Parameters
    ----------
    movable
        Ids of the jobs that may stop or move, if Slurm may requeue them.

    Raises
    ------
    AllocoptError
        If the gang asks for something that is not modelled, or a job cannot be read.
    """
    jobs = {job.id: job for job in look.jobs}
    name = f"job {gang.id} at {datetime.fromtimestamp(look.now_s, UTC):%Y-%m-%dT%H:%M:%S}"
    aims = Aims(start=(gang.id,), within=limits.within)
    queue = look.queue_with(gang.id, in_one_leaf=limits.within == "leaf")
    problem, remarks = snapshot(_all_idle(look.cluster), queue, aims, name)

    def open_to(job: str, request: ClusterRequest) -> ClusterRequest:
        # A job that starts from the beginning may run for its whole limit.
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
    """Return what is lost when a job is requeued, in node minutes."""
    minutes = max(0.0, now_s - job.start_s) / 60 + _START_MINUTES
    return min(_MOST_LOST, round(len(job.allocated) * minutes, 3))


def _all_idle(cluster: Cluster) -> Cluster:
    """Return the cluster with all nodes idle, because the jobs show what is in use."""
    return replace(cluster, nodes=tuple(replace(node, use=NodeUse()) for node in cluster.nodes))
