"""SCIP through PySCIPOpt."""

import importlib.metadata
import math
from typing import Any

import numpy as np
from pyscipopt import Eventhdlr, ExprCons, Model
from pyscipopt.scip import PY_SCIP_EVENTTYPE, PY_SCIP_STAGE, Variable

from allocopt.arrays import IntArray
from allocopt.formulations.backends.program import Outcome, Progress, Report, Request

VERSION = f"PySCIPOpt {importlib.metadata.version('pyscipopt')} (SCIP {Model().version()})"
_LARGEST_SEED = 2**31 - 1
_EVENTS = (PY_SCIP_EVENTTYPE.BESTSOLFOUND, PY_SCIP_EVENTTYPE.LPSOLVED)


def solve_program(request: Request, report: Report) -> Outcome:
    """Solve a program; see `allocopt.formulations.backends`."""
    model, program = Model(), request.program
    model.hideOutput()
    model.setParams(
        {
            "limits/time": min(request.seconds, 1e20),
            "limits/totalnodes": -1 if request.steps is None else request.steps,
            "limits/gap": 0.0,
            "limits/absgap": 0.0,
            # Wall clock, not CPU time.
            "timing/clocktype": 2,
            "randomization/randomseedshift": request.seed % _LARGEST_SEED,
            "parallel/maxnthreads": 1,
            "lp/threads": 1,
            # SCIP would intercept Ctrl-C, print a line to standard output, and end normally.
            "misc/catchctrlc": False,
        }
    )
    variables = [model.addVar(vtype="B", obj=cost) for cost in program.costs.tolist()]
    # Adding coefficients one by one takes half the time of adding Python expressions.
    for row in program.rows():
        first = row.values[0] * variables[row.columns[0]]
        left, right = (side if math.isfinite(side) else None for side in (row.lower, row.upper))
        constraint = model.addCons(ExprCons(first, lhs=left, rhs=right))
        for column, value in zip(row.columns[1:], row.values[1:], strict=True):
            model.addCoefLinear(constraint, variables[column], value)
    if request.warm is not None:
        solution = model.createSol()
        for column in request.warm.tolist():
            model.setSolVal(solution, variables[column], 1.0)
        model.addSol(solution)
    reporter = _Reporter(variables, report)
    model.includeEventhdlr(reporter, "report", "reports better solutions and bounds")
    # Unlike optimize(), this releases the interpreter lock, so that the thread that watches the parent process can run.
    model.optimizeNogil()
    reporter.on = False
    chosen = _chosen(model, variables) if model.getNSols() else None
    return Outcome(chosen, _bound(model), model.getStatus() in ("optimal", "infeasible"))


class _Reporter(Eventhdlr):
    """Reports every better solution and bound while it is on.

    It must be off when the model is freed: the bound that SCIP states while it frees its tree is not valid. For the
    same reason it does not listen to DUALBOUNDIMPROVED.
    """

    def __init__(self, variables: list[Variable], report: Report) -> None:
        self.on = True
        self._variables, self._report = variables, report
        self._best_bound = -math.inf

    def eventinit(self) -> None:
        for event in _EVENTS:
            self.model.catchEvent(event, self)

    def eventexit(self) -> None:
        for event in _EVENTS:
            self.model.dropEvent(event, self)

    def eventexec(self, event: Any) -> None:
        if not self.on:
            return
        better = event.getType() == PY_SCIP_EVENTTYPE.BESTSOLFOUND
        # SCIP's bound is valid only in this stage.
        bound = _bound(self.model) if self.model.getStage() == PY_SCIP_STAGE.SOLVING else None
        if better or (bound is not None and bound > self._best_bound):
            self._best_bound = self._best_bound if bound is None else bound
            self._report(Progress(_chosen(self.model, self._variables) if better else None, bound))


def _chosen(model: Model, variables: list[Variable]) -> IntArray:
    best = model.getBestSol()
    ones = (column for column, variable in enumerate(variables) if model.getSolVal(best, variable) > 0.5)
    return np.fromiter(ones, dtype=np.int64)


def _bound(model: Model) -> float | None:
    bound = float(model.getDualbound())
    return bound if abs(bound) < model.infinity() else None
