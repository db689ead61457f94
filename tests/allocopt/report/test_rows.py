"""Results as flat rows."""

import json

import pytest
from support.windows import paper_window

from allocopt.report.rows import BenchRow, SolveRow
from allocopt.solving.solution_files import BestKnown
from allocopt.solving.solve import solve

DESIGN_KEYS = "instance kind strategy solver status objective bound gap runtime_s seed".split()


def test_a_row_of_a_solve_has_the_fields_of_the_design() -> None:
    problem = paper_window(0)
    result = solve(problem, "free", "greedy", seed=4)
    row = SolveRow.of(problem.with_strategy("free"), result)
    assert list(row.as_dict()) == DESIGN_KEYS
    assert row.as_dict() == {
        "instance": "paper-0",
        "kind": "topology",
        "strategy": "free",
        "solver": "greedy",
        "status": str(result.status),
        "objective": result.objective,
        "bound": result.bound,
        "gap": pytest.approx((result.objective - result.bound) / result.objective),  # type: ignore[operator]
        "runtime_s": result.runtime_s,
        "seed": 4,
    }


def test_where_there_is_no_bound_the_row_says_null() -> None:
    problem = paper_window(0)
    text = json.dumps(SolveRow.of(problem, solve(problem, "free", "sequential")).as_dict(), allow_nan=False)
    assert '"bound": null, "gap": null' in text


@pytest.mark.parametrize("known", [None, BestKnown(90.0, True)])
def test_a_row_of_a_comparison_adds_version_and_yardsticks(known: BestKnown | None) -> None:
    solve_row = SolveRow("w", "topology", "dcas", "greedy", "FEASIBLE", 100.0, None, None, 0.1, 0)
    fields = BenchRow(solve_row, "1.2", known, BestKnown(0.0, False)).as_dict()
    assert list(fields) == [*DESIGN_KEYS, "solver_version", "best_known", "best_known_proved", "best_known_scas"]
    assert fields["solver_version"] == "1.2"
    assert fields["best_known"] == (None if known is None else 90.0)
    assert fields["best_known_proved"] is (None if known is None else True)
    assert fields["best_known_scas"] == 0.0
