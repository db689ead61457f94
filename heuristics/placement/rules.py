"""Solvers ``first-fit``, ``best-fit`` and ``cons-tres`` of placement problems: the rules of the simulator."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
from numba import boolean, int64

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import kernel
from allocopt.placement import NodeTasks, PlacementProblem, Placements, PlacementSolver
from allocopt.problems.placement.certificates import LeafPrices
from allocopt.problems.placement.window import BOUND_KERNELS, PlacementArrays
from allocopt.simulator.rules import QueueKeys
from allocopt.simulator.shared.allocation import amounts_held, choose
from allocopt.simulator.shared.state import (
    NOW,
    SHARED,
    AllocationRule,
    Shared,
    SharedJobs,
    SharedMachine,
    SharedRules,
    new_shared,
)
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget

NODES_AT_ONCE = 1_000_000  # jobs times nodes between two looks at the clock


@kernel(boolean(SHARED, int64))
def _place_in_turn(s: Shared, jobs: int) -> bool:
    """Place the next ``jobs`` jobs, each if it has room beside those before; return whether jobs are left."""
    clock = s.clock[0]
    for _ in range(jobs):
        job = clock.next_submission
        if job == s.jobs.size:
            return False
        clock.next_submission += 1
        shape, first = s.jobs[job].shape, s.jobs[job].first
        used = choose(s, shape)
        s.jobs[job].n_nodes = used
        for i in range(used):
            node, tasks = s.chosen[0, i], s.chosen[3, i]
            s.held[0, first + i] = node
            s.held[1, first + i] = tasks
            amounts_held(s, NOW, shape, node, tasks, 1)
    return True


class _Rule(PlacementSolver):
    """Place the jobs in order by a rule of the simulator; a job without room is left out."""

    allocation: ClassVar[AllocationRule]
    capabilities: ClassVar[Capabilities] = Capabilities(frozenset(), frozenset({Promise.BOUND}), "any")

    def kernels(self, problem: PlacementProblem) -> Iterable[Callable[..., Any]]:
        return (*BOUND_KERNELS, _place_in_turn)

    def search(self, problem: PlacementProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        # Use the state of a simulation in which all jobs arrive at once.
        equal, one_tier = np.ones(problem.size, dtype=np.int64), np.ones(1, dtype=np.int64)
        machine = SharedMachine(np.ascontiguousarray(problem.free), problem.groups, equal, one_tier)
        requests = [job.request._replace(partition=0) for job in problem.jobs]
        zeros = np.zeros(len(requests))
        jobs = SharedJobs(np.arange(len(requests)), zeros, zeros, zeros)
        state = new_shared(machine, requests, jobs, SharedRules(self.allocation), QueueKeys.by_arrival(len(requests)))
        state.users[:] = problem.in_use
        is_left, jobs_at_once = True, max(1, NODES_AT_ONCE // problem.size)
        while is_left and not run.clock.expired():
            is_left = _place_in_turn(state, jobs_at_once)
        run.offer(placements_of(state.jobs["first"], state.jobs["n_nodes"], state.held))
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        kinds = PlacementArrays.of(problem).by_kind()
        alone = kinds.alone(run.clock.expired)
        run.prove(problem.bound_of(float(kinds.counts @ alone)), LeafPrices())
        return StopReason.COMPLETED


def placements_of(first: IntArray, used: IntArray, held: IntArray) -> Placements:
    """Return placements, given the first index and number of each job's nodes, and rows of all nodes and tasks."""
    parts = zip(first.tolist(), used.tolist(), strict=True)
    pairs = held.T.tolist()
    return Placements(tuple(tuple(NodeTasks(*pair) for pair in pairs[at : at + n]) for at, n in parts))


class FirstFit(_Rule):
    """Choose the first nodes, by number, that have room."""

    name: ClassVar[str] = "first-fit"
    allocation = AllocationRule.FIRST_FIT


class BestFit(_Rule):
    """Choose the nodes with room that have the fewest free cores."""

    name: ClassVar[str] = "best-fit"
    allocation = AllocationRule.BEST_FIT


class ConsTres(_Rule):
    """Choose the lowest switch with room, then the fewest free cores, as Slurm's cons_tres does with topology/tree."""

    name: ClassVar[str] = "cons-tres"
    allocation = AllocationRule.LOWEST_SWITCH
