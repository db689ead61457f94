"""Comparisons: who is asked for what, and the rows that come back."""

import pytest
from support.windows import paper_window, window

from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.experiments.grids import bench_grid, compare
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import get_solver
from allocopt.solving.solution_files import BestKnown

BUDGET = Budget(iterations=20)


def test_a_solver_runs_under_each_strategy_that_it_takes() -> None:
    solvers, strategies = ["sequential", "dp", "annealing : dcas"], ["free", "scas", "dcas"]
    cells = bench_grid([paper_window(0)], solvers, strategies, [0], BUDGET).grid.cells
    asked = [("sequential", "free"), ("sequential", "scas"), ("sequential", "dcas"), ("dp", "scas"), ("dp", "dcas")]
    assert [(cell.identity["solver"], cell.identity["strategy"]) for cell in cells] == [*asked, ("annealing", "dcas")]


@pytest.mark.parametrize(
    ("name", "strategies", "fault"),
    [
        ("csp", ["free", "dcas"], "'csp' does not take free.*; it takes scas"),
        ("csp:free", ["scas"], "'csp' does not take free.*; it takes scas"),
        ("dp", ["sacs"], "'sacs'.*strategies are scas, dcas and free"),
    ],
)
def test_an_unknown_strategy_and_a_solver_that_takes_none_are_refused(
    name: str, strategies: list[str], fault: str
) -> None:
    with pytest.raises(UsageError, match=fault):
        compare([paper_window(0)], [name], strategies)


def test_a_refused_instance_is_left_out_and_its_reason_kept() -> None:
    large = window(FatTree(10, 10, 10), range(300), list(range(1, 20)), name="large")
    made = bench_grid([large, paper_window(0)], ["dp", "sequential:scas"], ["scas"], [0, 1], BUDGET)
    names = ("instance", "solver", "strategy", "seed")
    pairs = (("large", "sequential"), ("paper-0", "dp"), ("paper-0", "sequential"))
    expected = [(*pair, "scas", seed) for pair in pairs for seed in (0, 1)]
    assert [tuple(cell.identity[name] for name in names) for cell in made.grid.cells] == expected
    assert list(made.refusals) == ["dp"]
    assert len(made.refusals["dp"]) == 1
    assert made.refusals["dp"][0].startswith("large: its tables")


def test_every_row_has_its_figures_and_its_yardsticks() -> None:
    problem, sequential = paper_window(0), get_solver("sequential")
    known = {"paper-0": {"free": BestKnown(5.0, False), "scas": BestKnown(6.0, True)}}
    free, dcas = compare([problem], ["sequential"], ["free", "dcas"], seeds=[3], budget=BUDGET, known=known)
    assert (free.solve.instance, free.solve.strategy, free.solve.seed) == ("paper-0", "free", 3)
    assert free.solve.objective == problem.objective(sequential.solve(problem, BUDGET, 0).solution)
    assert (free.best_known, free.best_known_scas) == (BestKnown(5.0, False), BestKnown(6.0, True))
    assert (dcas.best_known, dcas.best_known_scas) == (None, BestKnown(6.0, True))
    (row,) = compare([problem], ["greedy:free"], budget=BUDGET)
    assert (row.best_known, row.best_known_scas) == (None, None)


def test_the_gap_at_which_a_solve_may_stop_reaches_the_solver() -> None:
    problem = paper_window(1)
    loose, tight = (compare([problem], ["exact:free"], budget=Budget(60.0, None, gap))[0].solve for gap in (0.9, 0.0))
    assert tight.status == "OPTIMAL"
    assert loose.status != "OPTIMAL"
