"""Simulation of jobs that share the nodes of a cluster: cores, memory and GPUs, in partitions, under constraints."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.request import ClusterRequest
from allocopt.kernels.arrays import record_dtype
from allocopt.kernels.ready import make_ready
from allocopt.problems.placement.problem import NodeTasks, PlacementJob, PlacementProblem
from allocopt.simulator.shared import state as layout
from allocopt.simulator.shared.kernel import simulate_shared
from allocopt.simulator.shared.state import ALONE, ASKS, ENDED, NOW, Allocation, Shared
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.solve import solve


@dataclass(frozen=True, slots=True, eq=False)
class SharedSchedule:
    """When and where jobs ran.

    Parameters
    ----------
    start, end
        Seconds, shape ``(n,)``.
    nodes, tasks
        Nodes of each job and its tasks on each of them.
    """

    start: FloatArray
    end: FloatArray
    nodes: tuple[IntArray, ...]
    tasks: tuple[IntArray, ...]


def new_shared(
    cluster: Cluster,
    requests: Sequence[ClusterRequest],
    request: IntArray,
    submit: FloatArray,
    run: FloatArray,
    estimate: FloatArray,
    rank: IntArray,
    *,
    allocation: Allocation,
    easy: bool,
) -> Shared:
    """Return the state of a simulation before its first event; jobs are in the order of submission."""
    kinds, shape_of = np.unique(np.stack((request, estimate)), axis=1, return_inverse=True)
    asked = [requests[int(number)] for number in kinds[0]]
    n, m, parts = len(submit), cluster.size, max(len(cluster.partitions), 1)
    clock, rules, jobs, shapes, failures, partitions = (
        np.zeros(size, dtype=record_dtype(record))
        for record, size in (
            (layout.ClockRecord, 1),
            (layout.RulesRecord, 1),
            (layout.JobRecord, n),
            (layout.ShapeRecord, len(asked)),
            (layout.FailureRecord, 2 * len(asked)),
            (layout.PartitionRecord, parts),
        )
    )
    clock["now"] = -np.inf
    rules["allocation"], rules["is_easy"] = allocation, easy
    for name, values in (("submit", submit), ("run", run), ("rank", rank), ("shape", shape_of.reshape(-1))):
        jobs[name] = values
    jobs["start"], jobs["next_waiting"] = np.nan, -1
    shapes["estimate"], shapes["first_waiting"] = kinds[1], -1
    partitions["job"] = -1
    first = 0
    for shape, one in zip(shapes, asked, strict=True):
        limited = [level for level, most in enumerate(one.most_groups) if most == 1]
        level = limited[0] if limited else -1
        shape["tasks"], shape["least_nodes"], shape["most_nodes"] = one.tasks, one.least_nodes, one.most_nodes
        shape["most_tasks"], shape["is_exclusive"], shape["partition"] = one.most_tasks, one.is_exclusive, one.partition
        shape["first_mask"], shape["n_masks"] = first, len(one.masks)
        shape["level"], shape["most_below"] = level, one.most_groups[level - 1] if level > 0 else 0
        first += len(one.masks)
    failures["released"] = -1
    groups = cluster.topology.tree.groups.copy()
    weights = np.array([node.weight for node in cluster.nodes])
    held = int(np.array([one.most_nodes for one in requests])[request].sum())
    return Shared(
        clock,
        rules,
        jobs,
        shapes,
        failures,
        partitions,
        cluster.capacity.copy(),
        np.repeat(cluster.capacity[None], 2 + parts, axis=0),
        np.zeros((2 + parts, m), dtype=np.int64),
        np.zeros(parts, dtype=np.bool_),
        np.zeros((len(asked), parts), dtype=np.bool_),
        np.zeros((parts, m), dtype=np.bool_),
        np.zeros((parts, m), dtype=np.int64),
        np.stack([one.per_task for one in asked]),
        np.stack([one.per_node for one in asked]),
        np.concatenate([one.masks for one in asked]),
        np.lexsort((np.arange(m), weights)),
        groups,
        np.zeros((2, held), dtype=np.int64),
        np.zeros(m, dtype=np.int64),
        np.zeros((2, n), dtype=np.int64),
        np.zeros((2, len(asked)), dtype=np.int64),
        np.stack([one.masks.any(axis=0) for one in asked]),
        np.zeros(m, dtype=np.int64),
        np.zeros((4, m), dtype=np.int64),
        np.zeros((3, int(groups.max()) + 1 if groups.size else 1), dtype=np.int64),
    )


@dataclass(frozen=True, slots=True)
class PlacedBySolver:
    """Nodes of jobs that need several, chosen by a solver of placement problems, one job at a time.

    Parameters
    ----------
    cluster
        Where the jobs run.
    requests, request
        What they ask for, as in `new_shared`.
    solver
        The solver; where it finds nothing, the job gets the nodes of the simulation's own rule.
    budget
        What it may spend on a job.
    seed
        Of the solver.
    """

    cluster: Cluster
    requests: Sequence[ClusterRequest]
    request: IntArray
    solver: Solver
    budget: Budget
    seed: int = 0

    def __call__(self, state: Shared, job: int) -> Sequence[NodeTasks]:
        """Return nodes and tasks of a job that is about to start, beside the reservations that it has to respect."""
        free, users = state.room[NOW].copy(), state.users[NOW].copy()
        for partition in np.flatnonzero(state.respected):
            nodes = state.reserved[partition]
            free[nodes] = np.minimum(free[nodes], state.room[1 + partition, nodes])
            users[nodes] = np.maximum(users[nodes], state.users[1 + partition, nodes])
        request = self.requests[self.request[job]]
        request = request._replace(masks=request.masks & (users < ALONE))
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
    # In parts, so that Ctrl-C is seen between them.
    while (said := simulate_shared(state, 10_000)) != ENDED:
        if said == ASKS and placed_by is not None:
            chosen = placed_by(state, int(state.shapes["first_waiting"][state.waiting[1, 0]]))
            for at, place in enumerate(chosen):
                state.chosen[[0, 3], at] = place
            if chosen:
                state.clock["n_chosen"][:] = len(chosen)
    jobs = state.jobs
    parts = [
        slice(first, first + used) for first, used in zip(jobs["first"].tolist(), jobs["n_nodes"].tolist(), strict=True)
    ]
    nodes, tasks = (tuple(row[part] for part in parts) for row in state.held)
    return SharedSchedule(jobs["start"].copy(), jobs["end"].copy(), nodes, tasks)
