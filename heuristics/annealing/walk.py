"""Drives the annealing kernel: start, slices between two looks at the clock, incumbents."""

import numpy as np

from allocopt.problems.base import Strategy
from allocopt.problems.encoding import allocation_of_owners, encode, owners_of
from allocopt.problems.hop_cost import hop_costs
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from heuristics.annealing.kernels import Rules, Walk, anneal
from heuristics.annealing.schedule import Schedule

SLICE = 2_000_000
"""Steps times the work of a step between two looks at the clock: some milliseconds."""

OVERHEAD = 200
"""Work of a step on a window without nodes and jobs, counted in nodes."""


def walk_from(problem: TopologyProblem, allocation: Allocation) -> Walk:
    """Return a walk that stands at an allocation."""
    owners = owners_of(problem, allocation)
    costs = hop_costs(problem.topology, problem.hop_cost, allocation.nodes)
    totals = np.array([costs.sum(), costs.sum()])
    return Walk(owners, owners.copy(), owners.copy(), costs, costs.copy(), totals)


def rules_of(problem: TopologyProblem, schedule: Schedule, steps: int, *, restores: bool) -> Rules:
    """Return the rules for a problem: under ``dcas`` every state must be non-crossing."""
    return Rules(
        float(schedule.hottest * problem.hop_cost),
        float(schedule.coldest * problem.hop_cost),
        steps,
        schedule.most_removed,
        problem.strategy is Strategy.DCAS,
        restores,
    )


def walk_until_done(problem: TopologyProblem, walk: Walk, rules: Rules, seed: int, run: Run) -> StopReason:
    """Take all steps, or as many as the time allows; offer every best state that a slice ends with."""
    window = encode(problem)
    rng = np.random.default_rng(seed)
    per_slice = max(1, SLICE // (len(problem.idle_nodes) + len(problem.jobs) + OVERHEAD))
    best = float("inf")
    for first in range(0, rules.steps, per_slice):
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        anneal(window, walk, rules, first, min(rules.steps, first + per_slice), rng)
        if walk.totals[1] < best:
            best = float(walk.totals[1])
            run.offer(allocation_of_owners(problem, walk.best))
    return StopReason.ITERATIONS
