"""FREE and DCAS by plain models for CP-SAT: the same optima as the project's own methods and as brute force.

They maximize ``sum_j (1 / n_j) sum_v w_v A_jv^2``, A_jv being the nodes of job j in group v, in units that make it an
integer.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ortools.sat.python import cp_model
from support.brute_force import optimum, switches_above
from support.counts import optimum_by_counts
from support.windows import window

from allocopt.cluster.topology import FatTree
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.result import Status
from allocopt.solving.solve import solve

Groups = list[tuple[int, list[int]]]
"""Every group below the top: the hops between its level and the next, and its idle positions."""


def optimum_by_model(problem: TopologyProblem) -> float:
    """Least total hop cost under ``free`` or ``dcas``."""
    unit, model = math.lcm(*problem.sizes.tolist()), cp_model.CpModel()
    nodes_in = (counts_free if problem.strategy is Strategy.FREE else counts_dcas)(problem, model)
    savings = []
    for (index, job), (weight, members) in itertools.product(enumerate(problem.jobs), groups_of(problem)):
        most = min(job.nodes, len(members))
        count, square = model.new_int_var(0, most, ""), model.new_int_var(0, most * most, "")
        model.add(count == nodes_in(index, members))
        model.add_multiplication_equality(square, [count, count])
        savings.append(weight * (unit // job.nodes) * square)
    model.maximize(sum(savings))
    solver = cp_model.CpSolver()
    # Else Ctrl-C is no longer heard by whatever is tested afterwards.
    solver.parameters.catch_sigint_signal = False
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    saved = round(solver.objective_value) / unit
    hops = problem.topology.hops
    scale = problem.hop_cost if problem.topology.pairs == "ordered" else problem.hop_cost / 2
    return scale * (sum(hops[-1] * job.nodes - hops[0] for job in problem.jobs) - saved)


def groups_of(problem: TopologyProblem) -> Groups:
    """List all groups below the top that hold idle nodes."""
    hops = problem.topology.hops
    above = [switches_above(problem.topology)[node] for node in problem.idle_nodes]
    found: Groups = []
    for level, (low, high) in enumerate(itertools.pairwise(hops)):
        members: dict[object, list[int]] = {}
        for position, switches in enumerate(above):
            members.setdefault(switches[level], []).append(position)
        found += [(high - low, positions) for positions in members.values()]
    return found


def counts_free(problem: TopologyProblem, model: cp_model.CpModel) -> Any:
    """Every job takes a number of nodes of each leaf; return the sum of a job's numbers over some leaves."""
    above = [switches_above(problem.topology)[node] for node in problem.idle_nodes]
    leaf_of = [switches[0] if switches else None for switches in above]
    leaves = {leaf: leaf_of.count(leaf) for leaf in leaf_of}
    taken = [
        {leaf: model.new_int_var(0, min(job.nodes, idle), "") for leaf, idle in leaves.items()} for job in problem.jobs
    ]
    for job, numbers in zip(problem.jobs, taken, strict=True):
        model.add(sum(numbers.values()) == job.nodes)
    for leaf, idle in leaves.items():
        model.add(sum(numbers[leaf] for numbers in taken) <= idle)
    return lambda job, members: sum(taken[job][leaf] for leaf in {leaf_of[position] for position in members})


def counts_dcas(problem: TopologyProblem, model: cp_model.CpModel) -> Any:
    """Every position belongs to one block, a job or the leftover, and no two blocks cross; return a sum as above."""
    m = len(problem.idle_nodes)
    sizes = [*problem.sizes.tolist(), m - int(problem.sizes.sum())]
    owns = [[model.new_bool_var("") for _ in range(m)] for _ in sizes]
    for size, of_block in zip(sizes, owns, strict=True):
        model.add(sum(of_block) == size)
    for position in range(m):
        model.add(sum(of_block[position] for of_block in owns) == 1)
    for one, other in itertools.permutations(owns, 2):
        for a, b, c, d in itertools.combinations(range(m), 4):
            model.add(one[a] + other[b] + one[c] + other[d] <= 3)
    return lambda job, members: sum(owns[job][position] for position in members)


pytestmark = pytest.mark.slow


TWINS = [(Strategy.FREE, 13, 4, "exact", optimum_by_counts), (Strategy.DCAS, 8, 3, "dp", optimum)]


def case(seed: int, m: int, strategy: Strategy, most_jobs: int = 4) -> TopologyProblem:
    """Return a window whose leaves and pods hold few idle nodes each; in a third of them all are taken."""
    rng = np.random.default_rng(seed)
    cluster = FatTree(3, 2, 3, (2, 4, 6) if seed % 2 else (1, 2, 7), "ordered" if seed % 4 else "unordered")
    idle = np.sort(rng.choice(cluster.size, size=m, replace=False))
    n_jobs = int(rng.integers(2, most_jobs + 1))
    cuts = np.sort(rng.choice(np.arange(1, m), size=n_jobs if seed % 3 else n_jobs - 1, replace=False))
    sizes = np.diff(cuts, prepend=0).tolist() if seed % 3 else np.diff(cuts, prepend=0, append=m).tolist()
    return window(cluster, idle, sizes, strategy=strategy, name=f"case-{seed}")


def proved(problem: TopologyProblem, solver: str) -> float:
    result = solve(problem, solver=solver, time_limit=None)
    assert result.status is Status.OPTIMAL
    return result.objective


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("strategy", "m", "most_jobs", "solver", "enumerated"), TWINS)
def test_plain_models_have_the_optimum_that_is_proved_and_that_of_an_enumeration(
    strategy: Strategy,
    m: int,
    most_jobs: int,
    solver: str,
    enumerated: Callable[[TopologyProblem], float],
    seed: int,
) -> None:
    problem = case(seed, m, strategy, most_jobs)
    best = optimum_by_model(problem)
    assert best == pytest.approx(proved(problem, solver), rel=1e-9, abs=1e-9)
    assert best == pytest.approx(enumerated(problem), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_models_know_that_narrower_strategies_cost_more(seed: int) -> None:
    problem = case(seed, 9, Strategy.DCAS)
    scas = proved(problem.with_strategy(Strategy.SCAS), "dp")
    dcas = optimum_by_model(problem)
    free = optimum_by_model(problem.with_strategy(Strategy.FREE))
    assert free <= dcas * (1 + 1e-9)
    assert dcas <= scas * (1 + 1e-9)
