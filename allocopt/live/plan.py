"""Which waiting jobs start now, by priority with EASY backfilling, and on which nodes, by any solver."""

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
from allocopt.live.slurm import WAITING, Look, SlurmJob
from allocopt.problems.instances import shipped_problems
from allocopt.problems.placement.problem import NodeTasks, PlacementJob, PlacementProblem, Placements
from allocopt.problems.topology.problem import Allocation, Job, TopologyProblem
from allocopt.simulator.rules import Backfill
from allocopt.simulator.shared.kernel import simulate_shared
from allocopt.simulator.shared.simulation import places_of
from allocopt.simulator.shared.state import UNLIMITED, Shared, SharedMachine, SharedRules, new_shared
from allocopt.simulator.shared.state import Allocation as Rule
from allocopt.solving.protocol import Solver, get_solver, solver_names
from allocopt.solving.result import Result
from allocopt.solving.solve import prepare, solve
from allocopt.solving.verify import verify

KINDS = (TopologyProblem.kind, PlacementProblem.kind)
NO_LIMIT_S = 1e8  # for which a job without a limit is expected to run
_EASY = SharedRules(Rule.LOWEST_SWITCH, Backfill.EASY)


@dataclass(frozen=True, slots=True)
class Window:
    """Jobs whose nodes are to be chosen, as a problem, and the answer of the rule ``lowest-switch``."""

    problem: TopologyProblem | PlacementProblem
    greedy: Allocation | Placements
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
    ) -> "Window":
        """Return the window of jobs by id; ``greedy`` holds the tasks of each by node.

        Whole nodes, any of which all jobs may have, are a topology problem, whose optimum is proved soonest. Raises
        `InvalidProblemError` or `InvalidSolutionError` if the greedy answer does not hold.
        """
        masks = next(iter(requests.values())).masks
        idle = masks[0] & ~used & (free == cluster.capacity).all(axis=1)
        is_plain = all(
            one.least_nodes == one.most_nodes and np.array_equal(one.masks, masks) and one.takes_any(idle, free)
            for one in requests.values()
        )
        problem: TopologyProblem | PlacementProblem
        answer: Allocation | Placements
        if is_plain and len(masks) == 1:
            jobs = tuple(Job(job, one.least_nodes) for job, one in requests.items())
            problem = TopologyProblem(cluster.topology.tree, np.flatnonzero(idle), jobs, name=name)
            answer = Allocation(tuple(np.array(sorted(one), dtype=np.int64) for one in greedy))
        else:
            problem = PlacementProblem.of(cluster, requests, free, used, name=name)
            answer = Placements(tuple(tuple(NodeTasks(*pair) for pair in one.items()) for one in greedy))
        return cls(problem, answer, verify(problem, answer), cluster.topology.nodes)

    def nodes(self, solution: Allocation | Placements) -> dict[str, tuple[str, ...]]:
        """Return the names of the nodes of each job that can be pinned at once.

        Slurm spreads the tasks of a job itself, so that one that shares nodes with jobs before it may have to wait.
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
        """Return the verified answer of a solver, never worse than the greedy one."""
        found = solver_of(solver, self.problem.kind)
        # Compiling is no part of the solver's time.
        prepare(found, [self.problem])
        return solve(self.problem, None, found, time_limit, seed, warm_start=self.greedy)


@dataclass(frozen=True, slots=True)
class Plan:
    """What starts now.

    Parameters
    ----------
    window
        The jobs that are to be pinned; None without one.
    starting
        Ids of all jobs for which there is room now, in the order of the queue, those of others among them.
    left
        Why jobs that wait are not looked at, by id.
    order
        Ids of the jobs that were looked at, in the order of the queue.
    """

    window: Window | None
    starting: tuple[str, ...]
    order: tuple[str, ...]
    left: Mapping[str, str] = field(default_factory=dict)


def plan(look: Look, is_ours: Callable[[SlurmJob], bool], name: str = "unnamed") -> Plan:
    """Return what starts now.

    Jobs are looked at in the order of their partitions' tiers and their priorities, under the limits of their users.
    Behind the first job of a partition for which there is no room only those start that end before it can, or leave its
    nodes alone. Jobs of others are counted with: Slurm is about to start them.

    Parameters
    ----------
    look
        The cluster now.
    is_ours
        Whether the nodes of a job are to be chosen here.
    name
        Of the problem.
    """
    cluster, now = look.cluster, look.now_s
    free, used = cluster.capacity.copy(), np.zeros(cluster.size, dtype=np.bool_)
    queue = _Queue([], [], [])
    for job in look.jobs:
        if job.state in RUNNING:
            nodes, held = look.held(job)
            # Jobs may share nodes beyond what these have, as Slurm can be told: then they are full.
            held = np.minimum(held, free[nodes])
            free[nodes] -= held
            used[nodes] = True
            queue.add_running(_fixed(cluster, nodes, held), max(job.end_s, now + 1.0))
    # What is pinned has been promised its nodes.
    for job in look.jobs:
        if job.state == "PENDING" and job.is_pinned and job.request is not None:
            with suppress(UnservedError):
                asked, before = job.request.on(cluster), free.copy()
                nodes = look.known(expand_hostlist(job.required))
                _take(asked, free, _spread(asked, free, nodes))
                used[nodes] = True
                queue.add_running(_fixed(cluster, nodes, (before - free)[nodes]), now + min(job.limit_s, NO_LIMIT_S))
    running = len(queue.requests)
    left = queue.add_waiting(look)
    order = tuple(job.id for job in queue.waiting)
    if not order:
        return Plan(None, (), order, left)
    state = _passed(cluster, queue, now)
    begun = np.flatnonzero(~np.isnan(state.jobs["start"][running:])).tolist()
    chosen: dict[str, ClusterRequest] = {}
    greedy: list[dict[int, int]] = []
    for at in begun:
        job, request, places = queue.waiting[at], queue.requests[running + at], places_of(state, running + at)
        if is_ours(job):
            # A job that stays on beside a reservation on its own nodes has no choice but these.
            masks, avoided = request.masks, _reserved(state, queue.ends[running + at])
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
    window = Window.of(cluster, chosen, free, used, greedy, name) if chosen else None
    return Plan(window, starting, order, left)


class _Queue(NamedTuple):
    """Requests of jobs that run, then of those that wait in their order, when they end, and the latter."""

    requests: list[ClusterRequest]
    ends: list[float]
    waiting: list[SlurmJob]

    def add_running(self, requests: Sequence[ClusterRequest], end_s: float) -> None:
        self.requests.extend(requests)
        self.ends.extend([end_s] * len(requests))

    def add_waiting(self, look: Look) -> dict[str, str]:
        """Add the jobs that may start, in the order of the queue; return why others may not, by id."""
        tiers = {one.name: one.tier for one in look.cluster.partitions}

        def place(job: SlurmJob) -> tuple[int, int, tuple[int, ...]]:
            return -tiers.get(job.partition, 1), -job.own_priority, job.number

        left: dict[str, str] = {}
        for job in sorted((one for one in look.jobs if one.state == "PENDING" and not one.is_pinned), key=place):
            fault, end = _fault(job, look.now_s), look.now_s + min(job.limit_s, NO_LIMIT_S)
            if fault:
                left[job.id] = fault
                continue
            assert job.request is not None
            try:
                asked = job.request.on(look.cluster)
            except UnservedError as error:
                left[job.id] = error.reason
            else:
                self.waiting.append(job)
                self.requests.append(asked._replace(masks=asked.masks & look.open_until(end)))
                self.ends.append(end)
        return left


def started_alone(look: Look, job: SlurmJob, gone: Sequence[SlurmJob] = ()) -> Window | None:
    """Return the choice that Slurm had for a job that has just started: its nodes and what no other job held then.

    None if the job is not understood or has a single node, or if it is not known what was idle.

    Parameters
    ----------
    look
        The cluster now.
    job
        The job that has started.
    gone
        Jobs that had nodes before and are not listed any more, as of `Look.gone_since`. Each may have ended before the
        job started or after it, unless the job got cores that it had.
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
        # As many nodes as Slurm took, its own among them whatever has become of these.
        masks = request.masks & look.open_until(job.start_s)
        masks[:, held] = True
        asked = request._replace(least_nodes=len(held), most_nodes=len(held), masks=masks)
        tasks = _spread(asked, free, held)
        return Window.of(look.cluster, {job.id: asked}, free, used, [tasks], f"job {job.id}")
    except AllocoptError:
        return None


def _ended_before(look: Look, gone: SlurmJob, job: SlurmJob) -> bool:
    """Return whether a job must have ended before another one started: a node of both has too few cores for both."""
    cores = look.cluster.capacity[:, look.cluster.resources.index(CORES)] // THOUSANDTHS
    return any(
        gone.allocated[name][0] + job.allocated[name][0] > cores[look.numbers[name]]
        for name in gone.allocated.keys() & job.allocated.keys()
    )


def check_solver(name: str) -> None:
    """Raise `UsageError` if no solver of windows has the name."""
    if not any(name in solver_names(kind) for kind in KINDS):
        get_solver(name, None, KINDS[0])


def make_plans_ready(solver: str) -> None:
    """Compile and load what plans and a solver call, which else the first window would wait for."""
    make_ready((simulate_shared,))
    for kind in KINDS:
        for name in ("auto", solver):
            prepare(solver_of(name, kind), shipped_problems(kind))


def solver_of(name: str, kind: str) -> Solver:
    """Return the solver of a name, ``auto`` where it knows no problems of the kind."""
    # Of whole nodes there are solvers that know no other ones.
    return get_solver(name if name in solver_names(kind) else "auto", None, kind)


def _fault(job: SlurmJob, now: float) -> str:
    if job.request is None:
        return job.fault
    if job.priority == 0:
        return "is held"
    if job.reason not in WAITING:
        return f"waits for {job.reason}"
    # What is held here begins later for no other reason.
    if job.begin_s > now and not job.is_marked:
        return "begins later"
    return ""


def _fixed(cluster: Cluster, nodes: IntArray, held: IntArray) -> list[ClusterRequest]:
    """Return requests for what a job has that runs, one for all nodes on which it has as much."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for node, amounts in zip(nodes.tolist(), held.tolist(), strict=True):
        alike.setdefault(tuple(amounts), []).append(node)
    made = []
    nothing, levels = np.zeros(len(cluster.resources), dtype=np.int64), (0,) * len(cluster.topology.tree.groups)
    for each, on in alike.items():
        mask = np.zeros((1, cluster.size), dtype=np.bool_)
        mask[0, on] = True
        k = len(on)
        made.append(ClusterRequest(k, k, k, 1, False, nothing, np.array(each, dtype=np.int64), mask, levels, 0))
    return made


def _passed(cluster: Cluster, queue: _Queue, now: float) -> Shared:
    """Return the state after one pass over jobs that have all come now, those that run first."""
    each, n = np.arange(len(queue.requests)), len(queue.requests)
    make_ready((simulate_shared,))
    left = np.array(queue.ends, dtype=np.float64) - now
    state = new_shared(
        SharedMachine.of(cluster), queue.requests, each, np.full(n, now), np.full(n, 1e9), left, each, _EASY
    )
    simulate_shared(state, 1, UNLIMITED)
    return state


def _reserved(state: Shared, end_s: float) -> BoolArray:
    """Return the nodes of all reservations beyond whose begin a job runs."""
    plans = state.partitions
    is_over = np.flatnonzero((plans["job"] >= 0) & (end_s > plans["shadow"]))
    found: BoolArray = np.any(state.reserved[is_over], axis=0)
    return found


def _spread(asked: ClusterRequest, free: IntArray, nodes: IntArray) -> dict[int, int]:
    """Return the tasks of a job on each of its nodes as Slurm spreads them: it fills one after the other.

    They are fewer than those of the job where there is no room for all.
    """
    room, left, tasks = asked.room(free), asked.tasks, {}
    for behind, node in enumerate(sorted(nodes.tolist()), 1 - len(nodes)):
        # Each of those behind it gets one at least.
        tasks[node] = max(min(int(room[node]), left + behind), 0)
        left -= tasks[node]
    return tasks


def _take(asked: ClusterRequest, free: IntArray, places: Mapping[int, int]) -> None:
    """Take what a job has with so many tasks on nodes from what is free there."""
    for node, tasks in places.items():
        whole = free[node].copy()
        free[node] -= whole if asked.is_exclusive else np.minimum(asked.per_node + tasks * asked.per_task, whole)
