"""Comparisons: who is asked for what, and the rows that come back."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.windows import paper_window, window

from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.report.bench import Contender, contenders, plan, run_tasks
from allocopt.report.journal import Journal
from allocopt.solving.budget import Budget
from allocopt.solving.registry import get_solver
from allocopt.solving.solution_files import BestKnown

GREEDY, DP, SEQUENTIAL, ANNEALING = (get_solver(name) for name in ("greedy", "dp", "sequential", "annealing"))
BUDGET = Budget(iterations=20)


def test_a_solver_runs_under_each_strategy_that_it_takes() -> None:
    pairs = contenders([(SEQUENTIAL, None), (DP, None), (ANNEALING, "dcas")], ["free", "scas", "dcas"])
    assert [(pair.solver.name, pair.strategy) for pair in pairs] == [
        ("sequential", "free"),
        ("sequential", "scas"),
        ("sequential", "dcas"),
        ("dp", "scas"),
        ("dp", "dcas"),
        ("annealing", "dcas"),
    ]


@pytest.mark.parametrize(("only", "strategies"), [(None, ["free", "dcas"]), ("free", ["scas"])])
def test_a_solver_that_takes_none_of_them_is_refused(only: str | None, strategies: list[str]) -> None:
    with pytest.raises(UsageError, match=r"'csp' does not take free.*; it takes scas"):
        contenders([(get_solver("csp"), only)], strategies)


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'sacs'.*there are scas, dcas and free"):
        contenders([(DP, None)], ["sacs"])


def test_a_refused_instance_is_left_out_and_its_reason_kept() -> None:
    large = window(FatTree(10, 10, 10), range(300), list(range(1, 20)), name="large")
    small = paper_window(0)
    tasks, refusals = plan([large, small], contenders([(DP, None), (SEQUENTIAL, "scas")], ["scas"]), [0, 1])
    assert [(task.problem.name, task.contender.solver.name, task.seed) for task in tasks] == [
        ("large", "sequential", 0),
        ("large", "sequential", 1),
        ("paper-0", "dp", 0),
        ("paper-0", "dp", 1),
        ("paper-0", "sequential", 0),
        ("paper-0", "sequential", 1),
    ]
    assert all(task.problem.strategy is Strategy.SCAS for task in tasks)
    assert list(refusals) == ["dp"]
    assert len(refusals["dp"]) == 1
    assert refusals["dp"][0].startswith("large: its tables")


def test_every_row_has_its_figures_and_its_yardsticks() -> None:
    problem = paper_window(0)
    known = {"paper-0": {"free": BestKnown(5.0, False), "scas": BestKnown(6.0, True)}}
    tasks, _ = plan([problem], contenders([(SEQUENTIAL, None)], ["free", "dcas"]), [3])
    free, dcas = run_tasks(tasks, BUDGET, known)
    assert (free.solve.instance, free.solve.strategy, free.solve.seed) == ("paper-0", "free", 3)
    assert free.solve.objective == problem.objective(SEQUENTIAL.solve(problem, BUDGET, 0).solution)
    assert (free.best_known, free.best_known_scas) == (BestKnown(5.0, False), BestKnown(6.0, True))
    assert (dcas.best_known, dcas.best_known_scas) == (None, BestKnown(6.0, True))


def test_an_instance_without_known_values_has_no_yardstick() -> None:
    tasks, _ = plan([paper_window(0)], [Contender(GREEDY, Strategy.FREE)], [0])
    (row,) = run_tasks(tasks, BUDGET, {})
    assert (row.best_known, row.best_known_scas) == (None, None)


def test_what_a_journal_holds_is_not_solved_again(tmp_path: Path) -> None:
    setting: dict[str, Any] = {"solvers": "annealing"}
    tasks, _ = plan([paper_window(0), paper_window(1)], [Contender(ANNEALING, Strategy.FREE)], [0, 1])
    with closing(Journal(tmp_path / "rows.csv", setting)) as journal:
        first = list(run_tasks(tasks[:3], BUDGET, {}, journal))
    with closing(Journal(tmp_path / "rows.csv", setting)) as journal:
        again = list(run_tasks(tasks, BUDGET, {}, journal))
    # Equal to the last digit of the running time: nobody solved it twice.
    assert again[:3] == first
    assert len(again) == 4
