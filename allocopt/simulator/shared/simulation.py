"""Simulation of jobs that share the nodes of a cluster: cores, memory and GPUs, in partitions, under constraints."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.named import NamedTree
from allocopt.cluster.platform import Platform
from allocopt.cluster.request import ClusterRequest, Request
from allocopt.cluster.unserved import OverLimitError, UnservedError, counted, over_time, reasons_in_words
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.interruption import run_in_slices
from allocopt.kernels.ready import make_ready
from allocopt.plugins import no_such_part
from allocopt.problems.placement.problem import NodeTasks, PlacementJob, PlacementProblem
from allocopt.simulator.engine import keys_of, name_of
from allocopt.simulator.rules import Backfill, EventOrder, OrderKind, Rules
from allocopt.simulator.schedule import ClusterSchedule
from allocopt.simulator.scheduler import AnyScheduler, ListScheduler
from allocopt.simulator.shared.kernel import simulate_shared
from allocopt.simulator.shared.state import (
    ALONE,
    ASKS,
    NOW,
    OVER,
    Allocation,
    Shared,
    SharedMachine,
    SharedRules,
    Waits,
    new_shared,
)
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver, solver_names
from allocopt.solving.solve import solve
from allocopt.traces.workload import NO_JOB, Workload

_GOES = "there go queue orders such as fcfs, sjf or largest, alone, with easy or with conservative"


class SharedSchedule(NamedTuple):
    """When jobs joined the queue, when and where they ran, times in seconds."""

    release: FloatArray
    start: FloatArray
    end: FloatArray
    nodes: tuple[IntArray, ...]
    tasks: tuple[IntArray, ...]  # of each job on each of its nodes


def places_of(state: Shared, job: int) -> dict[int, int]:
    """Return the tasks of a job by node, none for one that has not started."""
    first, used = int(state.jobs["first"][job]), int(state.jobs["n_nodes"][job])
    return dict(state.held[:, first : first + used].T.tolist())


class PlacedBySolver(NamedTuple):
    """Nodes of jobs that need several, chosen by a solver of placement problems, one job at a time.

    Where it finds nothing, a job gets the nodes of the simulation's own rule.
    """

    cluster: Cluster
    requests: Sequence[ClusterRequest]  # these two as in `new_shared`
    request: IntArray
    solver: Solver
    budget: Budget  # for a job
    seed: int = 0

    def __call__(self, state: Shared, job: int) -> Sequence[NodeTasks]:
        """Return nodes and tasks of a job that is about to start, beside the reservations that it has to respect."""
        free, users = state.room[NOW].copy(), state.users[NOW].copy()
        for partition in np.flatnonzero(state.respected):
            nodes = state.reserved[partition]
            free[nodes] = np.minimum(free[nodes], state.room[1 + partition, nodes])
            users[nodes] = np.maximum(users[nodes], state.users[1 + partition, nodes])
        request = self.requests[self.request[job]]
        request = request._replace(masks=request.masks & (users < ALONE) & ~state.closed)
        tree, resources = self.cluster.topology.tree, self.cluster.resources
        problem = PlacementProblem(tree, resources, free, users > 0, (PlacementJob(str(job), request),))
        # Compiling is no part of the solver's time.
        make_ready(self.solver.kernels(problem))
        found = solve(
            problem, None, self.solver, self.budget.seconds, self.seed, iterations=self.budget.iterations
        ).solution
        return () if found is None else found.of_jobs[0]


def run_shared(state: Shared, placed_by: PlacedBySolver | None = None) -> SharedSchedule:
    """Run a simulation to its end; jobs of several nodes are placed by its rule of allocation, or by a solver."""
    state.rules["is_asking"][:] = placed_by is not None

    def step(work: int) -> int:
        said = simulate_shared(state, work, work)
        if said == ASKS and placed_by is not None:
            chosen = placed_by(state, int(state.shapes["looked_at"][state.waiting[1, 0]]))
            for at, place in enumerate(chosen):
                state.chosen[[0, 3], at] = place
            if chosen:
                state.clock["n_chosen"][:] = len(chosen)
        return 0 if said == OVER else work

    run_in_slices(step, 2**20)
    jobs = state.jobs
    parts = [
        slice(first, first + used) for first, used in zip(jobs["first"].tolist(), jobs["n_nodes"].tolist(), strict=True)
    ]
    nodes, tasks = (tuple(row[part] for part in parts) for row in state.held)
    return SharedSchedule(jobs["release"].copy(), jobs["start"].copy(), jobs["end"].copy(), nodes, tasks)


class BySolver(NamedTuple):
    """Allocation by a solver of placement problems, with what it may spend on a job."""

    solver: Solver
    budget: Budget


def allocation_named(name: str, budget: Budget) -> Allocation | BySolver:
    """Return the rule of a name, ``first``, ``best-fit`` and so on, or a solver of placement problems."""
    rules = {rule.name.lower().replace("_", "-").replace("first-fit", "first"): rule for rule in Allocation}
    solvers = [one for one in solver_names("placement") if one not in rules]
    if name not in rules and name not in solvers:
        if name not in solver_names():
            raise no_such_part("allocator", name, [*rules, *solvers])
        fault = "does not go with a cluster whose nodes jobs share, blocks or a forest"
        raise UsageError(f"allocator {name!r} {fault}: {', '.join([*rules, *solvers])}")
    return rules[name] if name in rules else BySolver(get_solver(name, None, "placement"), budget)


def _asked(workload: Workload, cluster: Cluster) -> tuple[list[ClusterRequest], IntArray, list[UnservedError | None]]:
    """Return the distinct requests that a cluster can serve, that of each job, and why jobs cannot be served, if so."""
    if cluster.topology.is_beside:
        raise UsageError("jobs get nodes side by side in the cluster's rings or toruses, which is not simulated")
    numbers: dict[Request, int] = {}
    made: list[ClusterRequest | UnservedError] = []
    number = np.empty(len(workload), dtype=np.int64)
    for job, (request, processors) in enumerate(zip(workload.requests, workload.processors.tolist(), strict=True)):
        asked = request or (Request.whole_nodes(processors) if cluster.is_exclusive else Request(processors))
        number[job] = numbers.setdefault(asked, len(made))
        if number[job] == len(made):
            try:
                made.append(asked.on(cluster))
            except UnservedError as error:
                made.append(error)
    limits = [one.most_seconds or np.inf for one in cluster.partitions] or [np.inf]

    def fault(found: ClusterRequest | UnservedError, estimate: float, run: float) -> UnservedError | None:
        if isinstance(found, UnservedError):
            return found
        # An estimate that is the run time stands for one that was not told.
        if estimate <= limits[found.partition] or estimate == run:
            return None
        return over_time(estimate, limits[found.partition], cluster.partitions[found.partition].name)

    of_job = (made[one] for one in number.tolist())
    faults = list(map(fault, of_job, workload.estimate.tolist(), workload.run.tolist()))
    return [one for one in made if not isinstance(one, UnservedError)], number, faults


def machine_of(topology: NamedTree) -> Platform | Cluster:
    """Return the machine of whole nodes: a cluster where a job may not span all groups, on blocks or a forest."""
    return Platform.whole_nodes(topology.tree) if topology.is_plain else Cluster.whole_nodes(topology)


def admitted(workload: Workload, cluster: Cluster, *, in_nodes: bool, skip_oversized: bool) -> Workload:
    """Return the jobs that are submitted to a cluster with success, with their requests.

    Those without a request get whole nodes if jobs are counted ``in_nodes``; and all do on a cluster of nodes of which
    nothing is known. Jobs over the limits of their partition are counted as dropped, as Slurm refuses them. So are
    those that the cluster can never serve, each for its own reason (`UnservedError`), if these are to be skipped; else
    `InvalidProblemError` names the first one, and the numbers of all by reason. Raises `UsageError` for rings and
    toruses: which of their nodes Slurm gives together is not known.
    """
    if in_nodes or cluster.is_bare:
        known = [None] * len(workload) if cluster.is_bare else workload.requests.tolist()
        whole = map(Request.whole_nodes, workload.processors.tolist())
        requests = np.empty(len(workload), dtype=np.object_)
        requests[:] = [one or nodes for one, nodes in zip(known, whole, strict=True)]
        workload = replace(workload, requests=requests)
    *_, faults = _asked(workload, cluster)
    if not skip_oversized:
        _refuse(workload, [None if isinstance(fault, OverLimitError) else fault for fault in faults])
    return workload.without(["" if fault is None else fault.reason for fault in faults])


def _refuse(workload: Workload, faults: list[UnservedError | None]) -> None:
    """Raise `InvalidProblemError`, which names the first job with a fault, and all by reason, if there is one."""
    found = [(job, fault) for job, fault in enumerate(faults) if fault is not None]
    for job, fault in found[:1]:
        told = fault.fault
        if len(found) > 1:
            reasons = reasons_in_words(counted(other.reason for _, other in found))
            told = f"{told}; {len(found):,} jobs cannot be served: {reasons}"
        who = workload.names[job] or workload.ids[job]
        raise InvalidProblemError(f"job {who}", f"{told}; skip_oversized = true drops such jobs")


def listed(scheduler: AnyScheduler) -> ListScheduler:
    """Return a scheduler that runs on a cluster; raise `UsageError` if it is another one."""
    told = name_of(scheduler)
    if isinstance(scheduler, ListScheduler):
        if scheduler.backfill is not Backfill.FIRST_FIT and scheduler.backfill_order is None:
            return scheduler
        told = f"{scheduler.backfill.name.lower().replace('_', '-')} backfilling, or in another order,"
    raise UsageError(f"{told} does not run on a cluster whose nodes jobs share, blocks or a forest: {_GOES}")


def simulate_on_cluster(
    workload: Workload, cluster: Cluster, scheduler: AnyScheduler, rules: Rules | None, seed: int, allocator: object
) -> ClusterSchedule:
    """Simulate jobs on the nodes of a cluster, those of partitions of a higher tier first; see `simulate`."""
    rules = rules or Rules()
    if not isinstance(allocator, Allocation | BySolver):
        allocator = allocation_named(str(allocator or "first"), Budget())
    if not len(workload):
        raise InvalidProblemError("workload", f"{workload.name} holds no jobs")
    scheduler = listed(scheduler)
    keys = keys_of(scheduler.order, workload, np.random.default_rng(seed))
    if keys.kind not in (OrderKind.ARRIVAL, OrderKind.FIXED):
        raise UsageError(f"queue order {scheduler.order.name!r} changes with time, as none may on a cluster: {_GOES}")
    if rules.event_order is not EventOrder.BATCHED:
        raise UsageError("events are not taken one at a time on a cluster: event_order must be batched")
    requests, number, faults = _asked(workload, cluster)
    _refuse(workload, faults)
    tiers = np.array([one.tier for one in cluster.partitions] or [1])
    tier = tiers[[one.partition for one in requests]][number]
    rank = np.empty(len(workload), dtype=np.int64)
    rank[np.lexsort((keys.values, -tier))] = np.arange(len(workload))
    waits = None
    if rules.dependencies and (workload.preceding != NO_JOB).any():
        waits = Waits(workload.preceding_rows(), workload.think_s, keys.kind is OrderKind.ARRIVAL)
        if waits.is_by_arrival:
            rank = np.unique(-tier, return_inverse=True)[1].reshape(-1) * len(workload)
    run = np.minimum(workload.run, workload.estimate) if rules.kill_at_limit else workload.run
    make_ready((simulate_shared,))
    placed_by = None
    if isinstance(allocator, BySolver):
        placed_by = PlacedBySolver(cluster, requests, number, *allocator, seed)
        allocator = Allocation.LOWEST_SWITCH
    times = workload.submit, run, workload.estimate
    state = new_shared(
        SharedMachine.of(cluster), requests, number, *times, rank, SharedRules(allocator, scheduler.backfill), waits
    )
    found = run_shared(state, placed_by)
    ends = np.cumsum([len(nodes) for nodes in found.nodes])
    whole = np.add.reduceat(cluster.capacity[np.concatenate(found.nodes)], np.append(0, ends[:-1]))
    shared = np.array([one.tasks * one.per_task for one in requests])[number]
    shared += np.diff(ends, prepend=0)[:, None] * np.array([one.per_node for one in requests])[number]
    is_alone = np.array([one.is_exclusive for one in requests])[number]
    amounts = np.where(is_alone[:, None], whole, shared)
    return ClusterSchedule.of(
        workload,
        cluster,
        release=found.release,
        start=found.start,
        end=found.end,
        nodes=found.nodes,
        tasks=found.tasks,
        amounts=amounts,
    )
