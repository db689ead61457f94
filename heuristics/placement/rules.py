"""Solvers ``first-fit``, ``best-fit`` and ``cons-tres`` of placement problems: the rules of the simulator."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
from numba import boolean, int64

from allocopt.arrays import IntArray
from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.cluster.named import NamedTree
from allocopt.cluster.topology import Tree
from allocopt.kernels.compiled import kernel
from allocopt.placement import NodeTasks, PlacementProblem, Placements, PlacementSolver
from allocopt.problems.placement.certificates import LeafPrices
from allocopt.problems.placement.window import BOUND_KERNELS, Window
from allocopt.simulator.shared.allocation import choose, hold
from allocopt.simulator.shared.state import NOW, SHARED, Allocation, Shared, SharedRules, new_shared
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget

JOBS_AT_ONCE = 100  # between two looks at the clock


@kernel(boolean(SHARED, int64))
def _place_in_turn(s: Shared, jobs: int) -> bool:
    """Place the next jobs, each if there is room for it beside those before; return whether some are left."""
    clock = s.clock[0]
    for _ in range(jobs):
        job = clock.next_submission
        if job == s.jobs.size:
            return False
        clock.next_submission += 1
        shape = s.jobs[job].shape
        s.jobs[job].first = clock.n_held
        used = choose(s, shape)
        s.jobs[job].n_nodes = used
        for i in range(used):
            node, tasks = s.chosen[0, i], s.chosen[3, i]
            s.held[0, clock.n_held] = node
            s.held[1, clock.n_held] = tasks
            clock.n_held += 1
            hold(s, NOW, shape, node, tasks, 1)
    return True


class _Rule(PlacementSolver):
    """Place the jobs in their order by a rule of the simulator; who finds no room is left out."""

    allocation: ClassVar[Allocation]
    capabilities: ClassVar[Capabilities] = Capabilities(frozenset(), frozenset({Promise.BOUND}), "any")

    def kernels(self, problem: PlacementProblem) -> Iterable[Callable[..., Any]]:
        return (*BOUND_KERNELS, _place_in_turn)

    def search(self, problem: PlacementProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        kinds = Window.of(problem).by_kind()
        # The rule comes first where the time is short.
        alone = kinds.alone(lambda: run.clock.remaining() < run.clock.elapsed())
        run.prove(problem.bound_of(float(kinds.counts @ alone)), LeafPrices())
        # The state of a simulation in which all jobs have come at once.
        groups, names = problem.groups, tuple(map(str, range(problem.size)))
        tree = Tree(groups, tuple(tuple(map(str, range(row.max() + 1))) for row in groups), problem.topology.hops)
        cluster = Cluster(tuple(map(ClusterNode, names)), NamedTree(tree, names))
        requests = [job.request._replace(partition=0) for job in problem.jobs]
        zeros, numbers = np.zeros(len(requests)), np.arange(len(requests))
        state = new_shared(cluster, requests, numbers, zeros, zeros, zeros, numbers, SharedRules(self.allocation))
        free, users = np.ascontiguousarray(problem.free)[None], problem.in_use.astype(np.int64)[None]
        tables = len(state.room)
        state = state._replace(capacity=free[0].copy(), room=free.repeat(tables, 0), users=users.repeat(tables, 0))
        is_left = True
        while is_left and not run.clock.expired():
            is_left = _place_in_turn(state, JOBS_AT_ONCE)
        run.offer(placements_of(state.jobs["first"], state.jobs["n_nodes"], state.held))
        return StopReason.TIME_LIMIT if is_left else StopReason.COMPLETED


def placements_of(first: IntArray, used: IntArray, held: IntArray) -> Placements:
    """Return placements of the place where each job's nodes begin, their number, and all nodes and tasks in rows."""
    parts = zip(first.tolist(), used.tolist(), strict=True)
    pairs = held.T.tolist()
    return Placements(tuple(tuple(NodeTasks(*pair) for pair in pairs[at : at + n]) for at, n in parts))


class FirstFit(_Rule):
    """The first nodes by number that have room."""

    name: ClassVar[str] = "first-fit"
    allocation = Allocation.FIRST_FIT


class BestFit(_Rule):
    """The nodes with room that have the fewest free cores."""

    name: ClassVar[str] = "best-fit"
    allocation = Allocation.BEST_FIT


class ConsTres(_Rule):
    """What Slurm's select/cons_tres does by default with topology/tree: the lowest switch, the fewest free cores."""

    name: ClassVar[str] = "cons-tres"
    allocation = Allocation.LOWEST_SWITCH
