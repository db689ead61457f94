"""Plans which waiting jobs start now, by priority with EASY backfilling, and on which nodes, by any solver."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import CORES, THOUSANDTHS, Cluster
from allocopt.cluster.hostlist import expand_hostlist
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.slurm_jobs import RUNNING
from allocopt.cluster.unserved import UnservedError
from allocopt.errors import AllocoptError
from allocopt.kernels.ready import make_ready
from allocopt.live.order import LiveOrder, exchanged
from allocopt.live.slurm import WAITING, Look, SlurmJob
from allocopt.problems.instances import shipped_problems
from allocopt.problems.placement.problem import PlacementJob, PlacementProblem, Placements
from allocopt.problems.topology.problem import Allocation, Job
from allocopt.problems.windows import WindowProblem, WindowSolution, window_problem, window_solution
from allocopt.simulator.rules import Backfill
from allocopt.simulator.shared.present import KERNELS as KERNELS_OF_PASS
from allocopt.simulator.shared.present import RunningJob, state_after_pass
from allocopt.simulator.shared.room import places_of
from allocopt.simulator.shared.state import AllocationRule as Rule
from allocopt.simulator.shared.state import Shared, SharedMachine, SharedRules
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solve import prepare, solve
from allocopt.solving.verify import verify
from allocopt.solving.windows import KINDS, window_solver
from allocopt.version import __version__

EASY = SharedRules(Rule.LOWEST_SWITCH, Backfill.EASY)


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """Jobs whose nodes are chosen together, as a problem, and its solution by the rule ``lowest-switch``."""

    problem: WindowProblem
    greedy: WindowSolution
    greedy_objective: float
    names: tuple[str, ...]

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        requests: Mapping[str, ClusterRequest],
        free: IntArray,
        used: BoolArray,
        greedy: Sequence[Mapping[int, int]],
        name: str,
    ) -> "PlannedWindow":
        """Return the window of some jobs; see `window_problem`. ``greedy`` holds the tasks of each job by node.

        Raises `InvalidProblemError` or `InvalidSolutionError` if the problem or the greedy solution is invalid.
        """
        problem = window_problem(cluster, requests, free, used, name)
        answer = window_solution(problem, greedy)
        return cls(problem, answer, verify(problem, answer), cluster.topology.nodes)

    def nodes(self, solution: Allocation | Placements) -> dict[str, tuple[str, ...]]:
        """Return the names of the nodes of each job that can be pinned at once.

        Slurm, not the solver, distributes the tasks of a job over its nodes. A job that shares nodes is left out if it
        would not fit in this way, after the jobs before it.
        """
        sets = solution.nodes if isinstance(solution, Allocation) else solution.node_sets
        jobs: Sequence[Job | PlacementJob] = self.problem.jobs
        free = self.problem.free.copy() if isinstance(self.problem, PlacementProblem) else np.empty(0, dtype=np.int64)
        found = {}
        for job, held in zip(jobs, sets, strict=True):
            if isinstance(job, PlacementJob):
                tasks = _spread(job.request, free, held)
                if sum(tasks.values()) < job.request.tasks:
                    continue
                _take(job.request, free, tasks)
            if len(held):
                found[job.id] = tuple(self.names[node] for node in held.tolist())
        return found

    def solved(self, solver: str, time_limit: float, seed: int) -> Result:
        """Return the verified result of a solver, never worse than the greedy solution."""
        found = window_solver(solver, self.problem.kind)
        # Compile before the solver's clock starts.
        prepare(found, [self.problem])
        return solve(self.problem, solver=found, time_limit=time_limit, seed=seed, warm_start=self.greedy)

    def unsolved(self, runtime_s: float, seed: int) -> Result:
        """Return the greedy solution as a result, for a solver that gave no answer."""
        return Result(
            Status.FEASIBLE, StopReason.TIME_LIMIT, self.greedy_objective, None, runtime_s, self.greedy, seed,
            "greedy", __version__,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs that start now.

    Parameters
    ----------
    window
        The jobs that start now and whose nodes are chosen here; None if there are none.
    starting
        Ids of all jobs that start now, in the order of the queue, including those whose nodes Slurm chooses.
    order
        Ids of the jobs that were considered, in the order of the queue.
    left
        Why other waiting jobs were not considered, by id.
    """

    window: PlannedWindow | None
    starting: tuple[str, ...]
    order: tuple[str, ...]
    left: Mapping[str, str] = field(default_factory=dict)


def queue_of(look: Look, order: LiveOrder | None, is_ordered: Callable[[SlurmJob], bool]) -> "Queue":
    """Return the waiting jobs that may start, in Slurm's order.

    With an ``order``, the jobs that ``is_ordered`` accepts are put into this order among themselves.
    """
    return ordered(look, Queue.of(look), order, is_ordered)


def ordered(look: Look, queue: "Queue", order: LiveOrder | None, is_ordered: Callable[[SlurmJob], bool]) -> "Queue":
    """Return a queue in which the jobs that ``is_ordered`` accepts are put into ``order`` among themselves.

    The given queue is in Slurm's order; without an ``order`` it is returned unchanged.
    """
    if order is None or not queue.jobs:
        return queue
    return queue.taken(exchanged(queue.jobs, list(map(is_ordered, queue.jobs)), order.places(look, *queue[:2])))


def plan(look: Look, is_ours: Callable[[SlurmJob], bool], name: str = "unnamed", queue: "Queue | None" = None) -> Plan:
    """Return the jobs that start now.

    Jobs are considered in the order of their partitions' tiers and their priorities. Jobs that do not wait for room,
    but for example for a limit of their user, are left out. EASY backfilling reserves nodes for the first job of each
    partition that finds no room. Jobs whose nodes are not chosen here are planned, too: Slurm is about to start them.

    Parameters
    ----------
    look
        The cluster now.
    is_ours
        Whether the nodes of a job are chosen here.
    name
        Name of the problem.
    queue
        The waiting jobs in their order; by default Slurm's.
    """
    cluster, now = look.cluster, look.now_s
    running, free, used = present(look, lambda job: job.end_s)
    queue = Queue.of(look) if queue is None else queue
    order = tuple(job.id for job in queue.jobs)
    if not order:
        return Plan(None, (), order, queue.left)
    # The queue is already sorted by tiers.
    machine = SharedMachine.of(cluster).without_tiers()
    state = state_after_pass(machine, running, queue.requests, np.array(queue.limits_s), EASY, now)
    begun = np.flatnonzero(~np.isnan(state.jobs["start"][: len(order)])).tolist()
    chosen: dict[str, ClusterRequest] = {}
    greedy: list[dict[int, int]] = []
    for at in begun:
        job, request, places = queue.jobs[at], queue.requests[at], places_of(state, at)
        if is_ours(job):
            # Nodes of a reservation that begins before the job ends are allowed only if the pass placed the job on some
            # of them. Then the job keeps exactly its places.
            masks, avoided = request.masks, _reserved(state, now + queue.limits_s[at])
            if avoided[list(places)].any():
                masks = np.isin(np.arange(cluster.size), list(places))[None]
            else:
                masks = masks & ~avoided
            chosen[job.id] = request._replace(masks=masks)
            greedy.append(places)
        else:
            _take(request, free, places)
            used[list(places)] = True
    starting = tuple(order[at] for at in begun)
    window = PlannedWindow.of(cluster, chosen, free, used, greedy, name) if chosen else None
    return Plan(window, starting, order, queue.left)


class Present(NamedTuple):
    """The resources of a cluster that running jobs hold or that are promised to pinned jobs."""

    running: list[RunningJob]
    free: IntArray  # amounts on each node, shape ``(m, R)``
    used: BoolArray  # nodes on which jobs are, shape ``(m,)``


def present(look: Look, end_s: Callable[[SlurmJob], float]) -> Present:
    """Return the resources held on a cluster; ``end_s`` gives the expected end of a running job."""
    cluster = look.cluster
    found = Present([], cluster.capacity.copy(), np.zeros(cluster.size, dtype=np.bool_))
    for job in look.jobs:
        if job.state in RUNNING:
            nodes, held = look.held(job)
            # Slurm may over-commit a node: then it is full.
            held = np.minimum(held, found.free[nodes])
            found.free[nodes] -= held
            found.used[nodes] = True
            found.running.extend(_holding(cluster, nodes, held, max(end_s(job) - look.now_s, 1.0)))
    for job in look.jobs:
        if job.state == "PENDING" and job.is_pinned and job.request is not None:
            with suppress(UnservedError):
                asked, before = job.request.on(cluster), found.free.copy()
                nodes = look.known(expand_hostlist(job.required))
                _take(asked, found.free, _spread(asked, found.free, nodes))
                found.used[nodes] = True
                found.running.extend(_holding(cluster, nodes, (before - found.free)[nodes], job.finite_limit_s))
    return found


class Queue(NamedTuple):
    """Jobs that may start, in the order of the queue."""

    jobs: list[SlurmJob]
    requests: list[ClusterRequest]
    limits_s: list[float]  # time limit of each
    left: dict[str, str]  # why other waiting jobs may not start, by id

    @classmethod
    def of(cls, look: Look) -> "Queue":
        """Return the queue of a cluster, in the order of tiers and priorities."""
        tiers = {one.name: one.tier for one in look.cluster.partitions}

        def place(job: SlurmJob) -> tuple[int, int, tuple[int, ...]]:
            return -tiers.get(job.partition, 1), -job.own_priority, job.number

        queue = cls([], [], [], {})
        for job in sorted((one for one in look.jobs if one.state == "PENDING" and not one.is_pinned), key=place):
            fault, limit_s = _fault(job, look.now_s), job.finite_limit_s
            if fault:
                queue.left[job.id] = fault
                continue
            assert job.request is not None
            try:
                asked = job.request.on(look.cluster)
            except UnservedError as error:
                queue.left[job.id] = error.reason
            else:
                queue.jobs.append(job)
                queue.requests.append(asked._replace(masks=asked.masks & look.open_until(look.now_s + limit_s)))
                queue.limits_s.append(limit_s)
        return queue

    def taken(self, places: Sequence[int]) -> "Queue":
        """Return the queue of the jobs at some places, in this order."""
        return Queue(
            [self.jobs[at] for at in places],
            [self.requests[at] for at in places],
            [self.limits_s[at] for at in places],
            self.left,
        )


def started_alone(look: Look, job: SlurmJob, gone: Sequence[SlurmJob] = ()) -> PlannedWindow | None:
    """Return the window that Slurm solved when it started a job: the job, and all that no other job held then.

    Its greedy solution has the nodes that Slurm chose.

    Returns None if the request is not understood, if the job has only one node, or if it is unknown what was idle.

    Parameters
    ----------
    look
        The cluster now.
    job
        The job that has started.
    gone
        Jobs that had nodes before and are no longer listed, see `Look.gone_since`. Such a job is known to have ended
        before ``job`` started only if the two jobs have a node in common with too few cores for both.
    """
    if job.request is None or len(job.allocated) < 2:
        return None
    if not job.allocated.keys() <= look.numbers.keys():
        return None
    if not all(_ended_before(look, one, job) for one in gone):
        return None
    there = [one for one in look.jobs if one is not job and one.start_s <= job.start_s < one.end_s and one.allocated]
    nodes, amounts = look.held(*there)
    free, used = look.cluster.capacity.copy(), np.zeros(look.cluster.size, dtype=np.bool_)
    free[nodes] = np.maximum(free[nodes] - amounts, 0)
    used[nodes] = True
    held = np.array(sorted(look.numbers[name] for name in job.allocated), dtype=np.int64)
    try:
        request = job.request.on(look.cluster)
        # Ask for as many nodes as Slurm took, and allow these even if they are closed by now.
        masks = request.masks & look.open_until(job.start_s)
        masks[:, held] = True
        asked = request._replace(least_nodes=len(held), most_nodes=len(held), masks=masks)
        tasks = _spread(asked, free, held)
        return PlannedWindow.of(look.cluster, {job.id: asked}, free, used, [tasks], f"job {job.id}")
    except AllocoptError:
        return None


def _ended_before(look: Look, gone: SlurmJob, job: SlurmJob) -> bool:
    """Return whether a job must have ended before another started: a common node has too few cores for both."""
    cores = look.cluster.capacity[:, look.cluster.resources.index(CORES)] // THOUSANDTHS
    return any(
        gone.allocated[name][0] + job.allocated[name][0] > cores[look.numbers[name]]
        for name in gone.allocated.keys() & job.allocated.keys()
    )


def make_plans_ready(solver: str) -> None:
    """Compile and load the kernels of plans and of a solver, so that the first window need not wait for them."""
    make_ready(KERNELS_OF_PASS)
    for kind in KINDS:
        for name in ("auto", solver):
            prepare(window_solver(name, kind), shipped_problems(kind))


def _fault(job: SlurmJob, now: float) -> str:
    if job.request is None:
        return job.fault
    if job.priority == 0:
        return "held in Slurm (priority 0)"
    if job.reason not in WAITING:
        return f"Slurm's reason for waiting is {job.reason}"
    # A job that the service holds has a begin time set by the service, not by its user.
    if job.begin_s > now and not job.is_delayed:
        return "its begin time has not come"
    return ""


def _holding(cluster: Cluster, nodes: IntArray, held: IntArray, left_s: float) -> list[RunningJob]:
    """Return a running job split into several, each of which holds the same amounts on all of its nodes."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for node, amounts in zip(nodes.tolist(), held.tolist(), strict=True):
        alike.setdefault(tuple(amounts), []).append(node)
    made = []
    nothing, levels = np.zeros(len(cluster.resources), dtype=np.int64), (0,) * len(cluster.topology.tree.groups)
    for each, on in alike.items():
        mask = np.zeros((1, cluster.size), dtype=np.bool_)
        mask[0, on] = True
        k = len(on)
        request = ClusterRequest(k, k, k, 1, False, nothing, np.array(each, dtype=np.int64), mask, levels, 0)
        made.append(RunningJob(request, np.array(on, dtype=np.int64), np.ones(k, dtype=np.int64), left_s))
    return made


def _reserved(state: Shared, end_s: float) -> BoolArray:
    """Return the nodes of all reservations that begin before a job ends."""
    plans = state.partitions
    is_over = np.flatnonzero((plans["job"] >= 0) & (end_s > plans["shadow"]))
    found: BoolArray = np.any(state.reserved[is_over], axis=0)
    return found


def _spread(asked: ClusterRequest, free: IntArray, nodes: IntArray) -> dict[int, int]:
    """Return the number of tasks of a job by node, as Slurm distributes them: it fills one node after the other.

    The sum is below the tasks of the job if there is not room for all.
    """
    ordered = np.sort(nodes)
    return dict(zip(ordered.tolist(), asked.spread(free, ordered).tolist(), strict=True))


def _take(asked: ClusterRequest, free: IntArray, places: Mapping[int, int]) -> None:
    """Subtract what a job holds, given its tasks by node, from what is free there."""
    for node, tasks in places.items():
        whole = free[node].copy()
        free[node] -= whole if asked.is_exclusive else np.minimum(asked.per_node + tasks * asked.per_task, whole)
