"""CP-SAT, the constraint programming solver of OR-Tools.

CP-SAT works on integers. Costs are multiplied by a scale and rounded *down*, so that the bound of CP-SAT, divided by
the scale, is a lower bound for the true costs.
"""

import importlib.metadata
import math

import numpy as np
from ortools.sat.python import cp_model

from allocopt.arrays import IntArray
from allocopt.formulations.backends.program import BinaryProgram, Outcome, Progress, Report, Request

VERSION = f"OR-Tools {importlib.metadata.version('ortools')}"
ROUNDING = 1e-9  # most that rounding should change a solution's cost, relative to the least cost
LARGEST_COEFFICIENT = 2.0**50
LARGEST_SUM = 2.0**61
_LARGEST_SEED = 2**31 - 1


def solve_program(request: Request, report: Report) -> Outcome:
    """Solve a program whose matrix holds integers; see `allocopt.formulations.backends`."""
    program = request.program
    scale, costs = _integer_costs(program)
    model = cp_model.CpModel()
    literals = [model.new_bool_var("") for _ in program.costs]
    for lower, upper, columns, values in program.rows():
        held = [literals[column] for column in columns]
        # Add such rows as cliques; without presolve, CP-SAT would not recognize cliques among sums.
        if upper == 1 and set(values) == {1.0}:
            add = model.add_exactly_one if lower == 1 else model.add_at_most_one
            add(held)
            continue
        reach = int(sum(map(abs, values)))
        left = -reach if math.isinf(lower) else math.ceil(lower)
        right = reach if math.isinf(upper) else math.floor(upper)
        model.add_linear_constraint(cp_model.LinearExpr.weighted_sum(held, [*map(int, values)]), left, right)
    model.minimize(cp_model.LinearExpr.weighted_sum(literals, costs.tolist()))
    if request.warm is not None:
        for literal, value in zip(literals, np.isin(np.arange(len(literals)), request.warm).tolist(), strict=True):
            model.add_hint(literal, value)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    # With several workers, a seed does not determine the answer.
    parameters.num_workers = 1
    parameters.random_seed = request.seed % _LARGEST_SEED
    parameters.max_time_in_seconds = request.seconds
    if request.steps is not None:
        parameters.max_number_of_conflicts = request.steps
    parameters.relative_gap_limit = 0.0
    parameters.absolute_gap_limit = 0.0
    # The relaxation of a packing problem is tight, and presolve finds little. With all rows in the linear program and
    # without presolve, the windows of the paper take a tenth of the time.
    parameters.linearization_level = 2
    parameters.cp_model_presolve = False
    # CP-SAT would treat Ctrl-C as a limit and return a normal status.
    parameters.catch_sigint_signal = False
    solver.best_bound_callback = lambda bound: report(Progress(None, bound / scale))
    status = solver.solve(model, _Reporter(literals, scale, report))
    if status == cp_model.INFEASIBLE:
        return Outcome(None, None, True)
    bound = solver.best_objective_bound / scale
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Outcome(None, bound if math.isfinite(bound) else None, False)
    chosen = np.flatnonzero([solver.boolean_value(literal) for literal in literals])
    return Outcome(chosen, bound, status == cp_model.OPTIMAL)


def _integer_costs(program: BinaryProgram) -> tuple[float, IntArray]:
    """Return a scale, and the costs multiplied by it and rounded down.

    The scale is a power of two, large enough for `ROUNDING`, or as large as 64 bits allow.
    """
    if not program.costs.any():
        return 1.0, np.zeros(len(program.costs), dtype=np.int64)
    largest, total = float(np.abs(program.costs).max()), float(np.abs(program.costs).sum())
    fitting = min(LARGEST_COEFFICIENT / max(largest, 1e-300), LARGEST_SUM / max(total, 1e-300))
    # Estimate from the equality rows the least cost of a solution, and how many of its columns are 1.
    least = chosen = 0.0
    rows = program.matrix.tocsr()
    for row in np.flatnonzero(program.row_lower == program.row_upper).tolist():
        costs = program.costs[rows.indices[rows.indptr[row] : rows.indptr[row + 1]]]
        least += program.row_lower[row] * costs.min()
        chosen += program.row_lower[row]
    # Rounding down loses less than one unit for every chosen column.
    wanted = max(chosen, 1.0) / (ROUNDING * least) if least > 0 else fitting
    scale = math.ldexp(1.0, min(math.ceil(math.log2(wanted)), math.floor(math.log2(fitting))))
    return scale, np.floor(program.costs * scale).astype(np.int64)


class _Reporter(cp_model.CpSolverSolutionCallback):
    def __init__(self, literals: list[cp_model.IntVar], scale: float, report: Report) -> None:
        super().__init__()
        self._literals, self._scale, self._report = literals, scale, report

    def on_solution_callback(self) -> None:
        values = [self.boolean_value(literal) for literal in self._literals]
        self._report(Progress(np.flatnonzero(values), self.best_objective_bound / self._scale))
