"""Exact solvers of placement problems: the program of ``scip``, ``highs`` and ``cp-sat``.

``x_{j,t,v}`` is 1 if t tasks of job j are on node v, ``z_{j,n,k}`` if j has n nodes, all from its set k, and
``y_{j,n,l,g,a}`` if j has n >= 2 nodes, a of them in group g of level l. With the coefficients of
`allocopt.cluster.topology.HopFormula`, minimize

    ``sum of left_out_cost (1 - z) + scale (top n - bottom) z - scale w_l a^2 y / n``

- Each job: ``sum z <= 1``, ``sum x = sum n z``, ``sum t x = tasks sum z``.
- Each job and node: ``sum over t of x <= sum of the z of sets with the node``.
- Each job, n and level: ``sum a y = n sum z`` and, if the job may span few groups, ``sum y <= most sum z``; also for
  each group ``sum over a of y <= sum z`` and ``sum a y <= sum x``.
- Each node: jobs use at most the free amounts. An exclusive job excludes all S others:
  ``S sum of exclusive x + sum of other x <= S``.

If a job has segments, n and a are multiples of the segment size.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from allocopt.arrays import IntArray, places_by_value
from allocopt.cluster.topology import HopFormula
from allocopt.formulations.backends.program import BinaryProgram, Formulation, Rows, column_numbers, names_of
from allocopt.formulations.backends.solver import BackEndSolver
from allocopt.placement import NodeTasks, PlacementProblem, Placements, PlacementSolver
from allocopt.problems.placement.certificates import LeafPrices
from allocopt.problems.placement.window import PlacementArrays
from allocopt.solving import Run, StopReason
from allocopt.solving.base import ask
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver

LOGGER = logging.getLogger(__name__)

GREEDY = "cons-tres"  # solver whose answer is the first one
ROUNDING = 1e-12  # relative; exceeds the rounding error of sums of costs
LEAST_SHARE = 1e-5  # least left_out_cost, relative to the cost of a hop, that exceeds the tolerances of solvers
BUILD_S = 2e-5  # seconds to build a program, for each pair of a job and a node


class _PlacementModel(Formulation):
    """The program of a placement problem; the module's docstring has its columns and rows."""

    def __init__(self, problem: PlacementProblem) -> None:
        self._problem = problem
        self._groups = problem.groups
        x, z, y = [], [], []
        formula, left_out = HopFormula.of(problem.topology, problem.hop_cost), problem.effective_left_out_cost
        for job, asked in enumerate(one.request for one in problem.jobs):
            room = problem.room(job)
            most = min(asked.most_nodes, int(np.count_nonzero(room)))
            # On more nodes, even of one leaf, the job would cost more than leaving it out.
            if formula.bottom > 0:
                most = min(most, 1 + int(left_out * (1.0 + ROUNDING) / (formula.scale * formula.bottom)))
            roomiest = int(np.sort(room)[::-1][:most].sum())
            part = asked.part
            sizes = range(-(-asked.least_nodes // part) * part, most + 1, part)
            if not sizes or roomiest < asked.tasks:
                continue
            least_tasks = max(1, asked.tasks - (most - 1) * asked.most_tasks)
            room[room < least_tasks] = 0
            for tasks in range(least_tasks, int(room.max()) + 1):
                x += [(job, tasks, node) for node in np.flatnonzero(room >= tasks).tolist()]
            for size in sizes:
                z += [(job, size, number) for number in range(len(asked.masks))]
                for level, row in enumerate(self._groups) if size > 1 else ():
                    there = np.bincount(row, room > 0)
                    step = asked.segments[level] or 1 if asked.segments else 1
                    for group in np.flatnonzero(there).tolist():
                        counts = range(step, min(size, int(there[group])) + 1, step)
                        y += [(job, size, level, group, count) for count in counts]
        self.x, self.z, self.y = (
            np.array(table, dtype=np.int64).reshape(-1, width) for table, width in ((x, 3), (z, 3), (y, 5))
        )

    def is_empty(self) -> bool:
        return not len(self.x)

    @staticmethod
    def most_nonzeros(problem: PlacementProblem) -> int:
        """Return an upper bound of the number of nonzeros, known before the program is built."""
        levels, total = len(problem.topology.hops) - 1, 0
        for asked in (one.request for one in problem.jobs):
            most = min(asked.most_nodes, problem.size)
            least_tasks = max(1, asked.tasks - (most - 1) * asked.most_tasks)
            total += max(0, asked.most_tasks - least_tasks + 1) * (5 + levels + len(problem.resources))
            total += (most - asked.least_nodes + 1) * (len(asked.masks) + 5 * levels) if most > 1 else 0
        return total * problem.size

    def program(self) -> BinaryProgram:
        # Columns are x, then z, then y.
        problem, rows = self._problem, Rows()
        job, tasks, node = self.x.T
        for number in np.unique(self.z[:, 0]).tolist():
            request = problem.jobs[number].request
            x, z, y = (np.flatnonzero(table[:, 0] == number) for table in (self.x, self.z, self.y))
            (_, given, on), (_, sizes, chosen) = self.x[x].T, self.z[z].T
            _, y_size, y_level, y_group, y_count = self.y[y].T
            z, y = len(self.x) + z, len(self.x) + len(self.z) + y
            rows.at_most(1, (z, 1))
            rows.at_most(0, (x, 1), (z, -sizes), lower=0)
            rows.at_most(0, (x, given), (z, -request.tasks), lower=0)
            nodes, row_of = np.unique(on, return_inverse=True)
            row_of_z, of_z = np.nonzero(request.masks[chosen][:, nodes].T)
            values = np.repeat([1, -1], (len(x), len(of_z)))
            rows.add(np.append(row_of, row_of_z), np.append(x, z[of_z]), values, np.zeros(len(nodes)))
            for level, most in enumerate(request.most_groups):
                for group in np.unique(y_group[y_level == level]).tolist():
                    mine = (y_level == level) & (y_group == group)
                    rows.at_most(0, (y[mine], y_count[mine]), (x[self._groups[level, on] == group], -1))
                for n in np.unique(sizes[sizes > 1]).tolist():
                    mine, of_size = (y_level == level) & (y_size == n), z[sizes == n]
                    rows.at_most(0, (y[mine], y_count[mine]), (of_size, -n), lower=0)
                    if most:
                        rows.at_most(0, (y[mine], 1), (of_size, -most))
                    for group in np.unique(y_group[mine]).tolist():
                        rows.at_most(0, (y[mine & (y_group == group)], 1), (of_size, -1))
        asked = [one.request for one in problem.jobs]
        per_task, per_node = (np.stack([getattr(one, key) for one in asked]) for key in ("per_task", "per_node"))
        alone = np.array([one.is_exclusive for one in asked])[job]
        amounts = np.where(alone[:, None], problem.free[node], per_node[job] + tasks[:, None] * per_task[job])
        nodes, row_of = np.unique(node, return_inverse=True)
        for resource, units in enumerate(amounts.T):
            free = problem.free[nodes, resource]
            needed = np.flatnonzero((units > 0) & (np.bincount(row_of, units) > free)[row_of])
            # Add rows only where they may be violated; others would be empty, and back ends take no empty rows.
            scarce, row = np.unique(row_of[needed], return_inverse=True)
            rows.add(row, needed, units[needed], free[scarce])
        for here in places_by_value(node):
            single, shared = here[alone[here]], here[~alone[here]]
            if len(single):
                most = max(1, len(np.unique(job[shared])))
                rows.at_most(most, (single, most), (shared, 1))
        formula = HopFormula.of(problem.topology, problem.hop_cost)
        size = self.z[:, 1]
        placing = np.where(size > 1, formula.scale * (formula.top * size - formula.bottom), 0.0)
        weights = np.array([*formula.weights, 0.0])
        saving = -formula.scale * weights[self.y[:, 2]] * self.y[:, 4] ** 2 / self.y[:, 1]
        left_out = problem.effective_left_out_cost
        named = names_of("x", self.x) + names_of("z", self.z) + names_of("y", self.y)
        return rows.program(np.concatenate((np.zeros(len(self.x)), placing - left_out, saving)), named)

    def decode(self, chosen: IntArray) -> Placements:
        found: list[list[NodeTasks]] = [[] for _ in self._problem.jobs]
        for job, tasks, node in self.x[chosen[chosen < len(self.x)]].tolist():
            found[job].append(NodeTasks(node, tasks))
        return Placements(tuple(map(tuple, found)))

    def encode(self, solution: Placements) -> IntArray | None:
        column, columns = column_numbers(x=self.x, z=self.z, y=self.y), []
        for job, (places, nodes) in enumerate(zip(solution.of_jobs, solution.node_sets, strict=True)):
            if not places:
                continue
            sets = np.flatnonzero(self._problem.jobs[job].request.masks[:, nodes].all(axis=1))
            keys: list[tuple[str | int, ...]] = [("x", job, tasks, node) for node, tasks in places]
            keys.append(("z", job, len(nodes), int(sets[0]) if len(sets) else -1))
            for level, row in enumerate(self._groups) if len(nodes) > 1 else ():
                counts = enumerate(np.bincount(row[nodes]).tolist())
                keys += [("y", job, len(nodes), level, group, count) for group, count in counts if count]
            columns += [column.get(key, -1) for key in keys]
        return None if -1 in columns else np.sort(np.array(columns, dtype=np.int64))

    def bound_of(self, bound: float) -> float:
        # The costs of the program are relative to leaving out all jobs.
        nobody = len(self._problem.jobs) * self._problem.effective_left_out_cost
        return self._problem.bound_of(max(0.0, nobody + bound - ROUNDING * (nobody + abs(bound))))


def _range(problem: PlacementProblem) -> str | None:
    """Return a reason if costs differ too much for solvers that work with tolerances, otherwise None."""
    cost, hops = problem.effective_left_out_cost, problem.topology.hops
    dear = [hop for hop in hops if hop > 0]
    # If hops within a leaf have a cost, the model leaves out numbers of nodes that cost more than no placement.
    if hops[0] > 0 or not dear or cost >= LEAST_SHARE * problem.hop_cost * dear[0]:
        return None
    return f"left_out_cost is {cost:g}, too small compared with hops that cost {problem.hop_cost * dear[0]:g}"


def _greedy() -> Solver:
    return get_solver(GREEDY, None, PlacementSolver.kind)


class IntegerPlacement(BackEndSolver[PlacementProblem, float], PlacementSolver):
    """Solver of the program in the module's docstring."""

    largest_nonzeros: ClassVar[int] = 4_000_000
    no_model = "no job fits anywhere"

    def refusal(self, problem: PlacementProblem) -> str | None:
        return super().refusal(problem) or self.too_many(_PlacementModel.most_nonzeros(problem)) or _range(problem)

    def kernels(self, problem: PlacementProblem) -> Iterable[Callable[..., Any]]:
        return _greedy().kernels(problem)

    def search(self, problem: PlacementProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        # Building a program cannot be interrupted, so it needs enough time from the start.
        left, build_s = run.clock.remaining(), BUILD_S * len(problem.jobs) * problem.size
        if left > build_s:
            return super().search(problem, run, budget, seed)
        self.prepare(problem, self.tables(problem), run)
        if not run.is_proved():
            fault = f"its model takes about {build_s:.1f} s to build, but {max(0.0, left):.1f} s are left"
            LOGGER.warning("%s: %s; the answer is that of %s; more time may improve it", problem.name, fault, GREEDY)
        return StopReason.TIME_LIMIT

    def tables(self, problem: PlacementProblem) -> float:
        kinds = PlacementArrays.of(problem).by_kind()
        return problem.bound_of(float(kinds.counts @ kinds.alone(lambda: False)))

    def prepare(self, problem: PlacementProblem, bound: float, run: Run) -> object:
        self.begin(problem, run, bound, LeafPrices(), ())
        if not run.is_proved():
            ask(_greedy(), problem, run.clock.grant(1.0, None, 0.0), 0, problem, run)
        if run.interrupted:
            raise KeyboardInterrupt
        return run.solution

    def formulate(self, problem: PlacementProblem, bound: float, known: float | None = None) -> Formulation:
        return _PlacementModel(problem)
