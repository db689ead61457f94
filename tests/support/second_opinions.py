"""FREE and DCAS as models for CP-SAT and SCIP, written plainly from the definitions; slow is fine.

Both maximize ``sum_j (1 / n_j) sum_v w_v A_jv^2``, A_jv being the nodes of job j in group v, in units that make it an
integer. CP-SAT multiplies the counts; SCIP, whose square would be a function to be maximized that is convex, has a
binary variable for every value of a count.
"""

import itertools
import math
from typing import Any

from ortools.sat.python import cp_model
from pyscipopt import Model, quicksum
from support.brute_force import switches_above

from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem

Groups = list[tuple[int, list[int]]]
"""Every group below the top: the hops between its level and the next, and its idle positions."""


class CpSat:
    """Makes variables in 0, 1, ..., most, squares of sums that are at most so much, and proves the largest value."""

    def __init__(self) -> None:
        self.model = cp_model.CpModel()

    def whole(self, most: int) -> Any:
        return self.model.new_int_var(0, most, "")

    def require(self, constraint: Any) -> None:
        self.model.add(constraint)

    def square(self, count: Any, most: int) -> Any:
        variable, square = self.whole(most), self.whole(most * most)
        self.model.add(variable == count)
        self.model.add_multiplication_equality(square, [variable, variable])
        return square

    def largest(self, total: Any) -> int:
        self.model.maximize(total)
        solver = cp_model.CpSolver()
        # Else Ctrl-C is no longer heard by whatever is tested afterwards.
        solver.parameters.catch_sigint_signal = False
        solver.parameters.num_workers = 1
        assert solver.solve(self.model) == cp_model.OPTIMAL
        return round(solver.objective_value)


class Scip:
    """Does so in SCIP."""

    def __init__(self) -> None:
        self.model = Model()
        self.model.hideOutput()
        self.model.setParam("limits/gap", 0.0)

    def whole(self, most: int) -> Any:
        return self.model.addVar(vtype="I", lb=0, ub=most)

    def require(self, constraint: Any) -> None:
        self.model.addCons(constraint)

    def square(self, count: Any, most: int) -> Any:
        is_value = [self.whole(1) for _ in range(most + 1)]
        self.require(quicksum(is_value) == 1)
        self.require(quicksum(k * chosen for k, chosen in enumerate(is_value)) == count)
        return quicksum(k * k * chosen for k, chosen in enumerate(is_value))

    def largest(self, total: Any) -> int:
        self.model.setObjective(total, "maximize")
        self.model.optimize()
        assert self.model.getStatus() == "optimal"
        return round(self.model.getObjVal())


def optimum_by_model(problem: TopologyProblem, modeller: CpSat | Scip) -> float:
    """Least total hop cost under ``free`` or ``dcas``."""
    unit = math.lcm(*problem.sizes.tolist())
    groups = groups_of(problem)
    nodes_in = counts_free(problem, modeller) if problem.strategy is Strategy.FREE else counts_dcas(problem, modeller)
    savings = [
        weight * (unit // job.nodes) * modeller.square(nodes_in(index, members), min(job.nodes, len(members)))
        for index, job in enumerate(problem.jobs)
        for weight, members in groups
    ]
    saved = modeller.largest(sum(savings)) / unit if savings else 0.0
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


def counts_free(problem: TopologyProblem, modeller: CpSat | Scip) -> Any:
    """Every job takes a number of nodes of each leaf; return the sum of a job's numbers over some leaves."""
    above = [switches_above(problem.topology)[node] for node in problem.idle_nodes]
    leaf_of = [switches[0] if switches else None for switches in above]
    leaves = {leaf: leaf_of.count(leaf) for leaf in leaf_of}
    taken = [{leaf: modeller.whole(min(job.nodes, idle)) for leaf, idle in leaves.items()} for job in problem.jobs]
    for job, numbers in zip(problem.jobs, taken, strict=True):
        modeller.require(sum(numbers.values()) == job.nodes)
    for leaf, idle in leaves.items():
        modeller.require(sum(numbers[leaf] for numbers in taken) <= idle)
    return lambda job, members: sum(taken[job][leaf] for leaf in {leaf_of[position] for position in members})


def counts_dcas(problem: TopologyProblem, modeller: CpSat | Scip) -> Any:
    """Every position belongs to one block, a job or the leftover, and no two blocks cross; return a sum as above."""
    m = len(problem.idle_nodes)
    sizes = [*problem.sizes.tolist(), m - int(problem.sizes.sum())]
    owns = [[modeller.whole(1) for _ in range(m)] for _ in sizes]
    for size, of_block in zip(sizes, owns, strict=True):
        modeller.require(sum(of_block) == size)
    for position in range(m):
        modeller.require(sum(of_block[position] for of_block in owns) == 1)
    for one, other in itertools.permutations(owns, 2):
        for a, b, c, d in itertools.combinations(range(m), 4):
            modeller.require(one[a] + other[b] + one[c] + other[d] <= 3)
    return lambda job, members: sum(owns[job][position] for position in members)
