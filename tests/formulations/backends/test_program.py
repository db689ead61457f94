"""Programs, and files of them read back by the programs that they are for."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ortools.linear_solver.python import model_builder
from pyscipopt import Model
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csc_array
from support.windows import paper_window, window

from allocopt.cluster.topology import FatTree
from allocopt.errors import BadFileError, UsageError
from allocopt.formulations.backends.program import BinaryProgram
from allocopt.formulations.backends.solver import BackEndSolver
from allocopt.formulations.knapsack import IntegerKnapsack
from allocopt.formulations.topology.integer import PackSolver, ScipPaper
from allocopt.problems.base import Strategy
from allocopt.problems.knapsack.generate import synthetic_knapsack
from allocopt.solving.budget import Budget


def optimum_by_scip(path: Path) -> float:
    model = Model()
    model.hideOutput()
    model.readProblem(str(path))
    model.optimize()
    assert model.getStatus() == "optimal"
    return float(model.getObjVal())


def optimum_by_ortools(path: Path) -> float:
    model = model_builder.Model()
    assert model.import_from_proto_file(str(path))
    solver = model_builder.Solver("sat")
    status = solver.solve(model)
    # OR-Tools leaves the default action of SIGINT behind, with which Ctrl-C would kill this process unheard.
    signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))
    assert status == model_builder.SolveStatus.OPTIMAL
    return float(solver.objective_value)


def optimum_by_json(path: Path) -> float:
    document = json.loads(path.read_text())
    assert (document["format"], document["version"], document["sense"]) == ("allocopt-program", 1, "min")
    costs = np.array([column["cost"] for column in document["columns"]])
    matrix = np.zeros((len(document["rows"]), len(costs)))
    for index, row in enumerate(document["rows"]):
        matrix[index, row["columns"]] = row["values"]
    lower = [-np.inf if row["lower"] is None else row["lower"] for row in document["rows"]]
    upper = [np.inf if row["upper"] is None else row["upper"] for row in document["rows"]]
    rows = LinearConstraint(matrix, np.array(lower), np.array(upper))
    answer = milp(costs, integrality=np.ones(len(costs), dtype=int), bounds=Bounds(0, 1), constraints=rows)
    return float(answer.fun)


READERS = {".mps": optimum_by_scip, ".lp": optimum_by_scip, ".pb": optimum_by_ortools, ".json": optimum_by_json}

every_format = pytest.mark.parametrize(("suffix", "read"), READERS.items())
Reader = Callable[[Path], float]


SMALL = window(FatTree(2, 3, 3), [0, 1, 3, 5, 6, 7, 8, 11, 12, 15], [4, 3, 2], strategy=Strategy.SCAS)
DRAWN = synthetic_knapsack("drawn", np.random.default_rng(4), 64, 6, slots=2)
MODELS = [(PackSolver.scip(), paper_window(5, Strategy.SCAS)), (ScipPaper(), SMALL), (IntegerKnapsack.scip(), DRAWN)]


@every_format
@pytest.mark.parametrize(("solver", "problem"), MODELS, ids=lambda value: getattr(value, "name", None))
def test_a_model_keeps_its_optimum_and_names_differ(
    solver: BackEndSolver[Any, Any], problem: Any, suffix: str, read: Reader, tmp_path: Path
) -> None:
    path = tmp_path / f"model{suffix}"
    solver.export(problem, path)
    result = solver.solve(problem, Budget(), 0) if problem is DRAWN else PackSolver.scip().solve(problem, Budget(), 0)
    bound = solver.formulate(problem, solver.tables(problem)).bound_of(read(path))
    assert bound == pytest.approx(result.objective, rel=1e-6)
    assert list(tmp_path.iterdir()) == [path]
    names = solver.program(problem).column_names()
    assert len(set(names)) == len(names)


@every_format
def test_rows_of_every_kind_are_kept(suffix: str, read: Reader, tmp_path: Path) -> None:
    program = BinaryProgram(
        np.array([3.0, 2.5, 4.125, 1 / 3]),
        csc_array(np.array([[1.0, 1, 1, 1], [1, 2, 3, 0], [0, -1, 1, 0], [1, 0, 0, 1], [0, 0, 1, 1]])),
        np.array([2.0, 3.0, -np.inf, -np.inf, 1.0]),
        np.array([3.0, np.inf, 0.0, np.inf, 1.0]),
        [("x", np.arange(4))],
        [("row", np.arange(5))],
    )
    path = tmp_path / f"model{suffix}"
    program.export(path)
    # By hand: x3 = 1 and x2 = 0 by the last row's cheaper half, then x0 + 2 x1 >= 3 takes both others.
    assert read(path) == pytest.approx(3.0 + 2.5 + 1 / 3)


@pytest.mark.parametrize("suffix", [".mps", ".lp", ".json"])
def test_the_names_stand_in_the_file(suffix: str, tmp_path: Path) -> None:
    problem = window(FatTree(1, 2, 2), [0, 1, 2], [2, 1], strategy=Strategy.SCAS)
    ScipPaper(cancel=True).export(problem, tmp_path / f"m{suffix}")
    text = (tmp_path / f"m{suffix}").read_text()
    assert all(name in text for name in ("y_0_2", "x_1_0", "cancel_1", "covers_0_2_1", "position_2"))


def test_another_suffix_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    program = PackSolver.scip().program(window(FatTree(1, 2, 2), [0, 1, 2], [2]))
    with pytest.raises(UsageError, match=r"must end in one of \.mps, \.lp, \.pb, \.json"):
        program.export(tmp_path / "model.xml")


def test_a_file_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    program = PackSolver.scip().program(window(FatTree(1, 2, 2), [0, 1, 2], [2]))
    (tmp_path / "folder.lp").mkdir()
    with pytest.raises(BadFileError, match=r"folder\.lp: cannot be written"):
        program.export(tmp_path / "folder.lp")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.lp"]


def test_a_program_whose_parts_do_not_fit_is_refused() -> None:
    for columns, uppers in ((3, 1), (2, 2)):
        with pytest.raises(ValueError, match="matrix"):
            BinaryProgram(np.ones(columns), csc_array(np.ones((1, 2))), np.zeros(1), np.ones(uppers), (), ())
