"""Drives the annealing on counts: start, slices between two looks at the clock, incumbents."""

import numpy as np

from allocopt.problems.encoding import allocation_of_owners, encode, owners_of
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from heuristics.annealing.schedule import Schedule
from heuristics.annealing.swaps import MODULUS, Swapping, anneal_by_swaps

SLICE = 100_000
"""Steps between two looks at the clock: some milliseconds."""

LARGEST_TABLE = 50_000_000
"""Groups times jobs up to which the counts are kept, 4 bytes each."""


def has_table(problem: TopologyProblem) -> bool:
    """Whether the counts of the window are few enough to be kept, and there is a level that tells nodes apart."""
    levels = len(problem.topology.hops) - 1
    most = levels * len(problem.idle_nodes) * (len(problem.jobs) + 1)
    if 0 < most <= LARGEST_TABLE:
        return True
    n_groups = int(encode(problem).n_groups.sum())
    return levels > 0 and n_groups * (len(problem.jobs) + 1) <= LARGEST_TABLE


def swapping_from(problem: TopologyProblem, allocation: Allocation, seed: int) -> Swapping:
    """Return a walk that stands at an allocation."""
    encoding, n_jobs = encode(problem), len(problem.jobs)
    first = np.cumsum(encoding.n_groups) - encoding.n_groups
    groups = np.ascontiguousarray((encoding.groups + first[:, np.newaxis]).T)
    owners = owners_of(problem, allocation)
    owners[owners < 0] = n_jobs
    counts = np.zeros((n_jobs + 1, int(encoding.n_groups.sum())), dtype=np.int32)
    for of_level in groups.T:
        np.add.at(counts, (owners, of_level), 1)
    return Swapping(
        owners,
        counts,
        groups,
        np.argsort(groups[:, 0], kind="stable"),
        np.append(0, np.cumsum(np.bincount(groups[:, 0]))),
        encoding.weights,
        np.append(1.0 / encoding.sizes, 0.0),
        np.zeros(1),
        np.array([np.random.default_rng(seed).integers(1, MODULUS)]),
    )


def swap_until_done(problem: TopologyProblem, schedule: Schedule, seed: int, run: Run) -> StopReason:
    """Take all steps from the incumbent, or as many as the time allows; offer the state that every slice ends with."""
    swapping = swapping_from(problem, run.solution, seed)
    offered = 0.0
    cooling = np.log(schedule.coldest / schedule.hottest) / schedule.steps
    for first in range(0, schedule.steps, SLICE):
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        last = min(schedule.steps, first + SLICE)
        hot, cold = (float(schedule.hottest * np.exp(cooling * step)) for step in (first, last))
        anneal_by_swaps(swapping, last - first, hot, cold)
        # Sums of fractions: what is better by less than this is not better.
        if swapping.saving[0] > offered + 1e-9:
            offered = float(swapping.saving[0])
            run.offer(allocation_at(problem, swapping))
    return StopReason.ITERATIONS


def allocation_at(problem: TopologyProblem, swapping: Swapping) -> Allocation:
    """Return the allocation where a walk stands."""
    n_jobs = len(problem.jobs)
    return allocation_of_owners(problem, np.where(swapping.owners == n_jobs, -1, swapping.owners))
