"""Results as flat rows."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from support.windows import paper_window

from allocopt.report.rows import BenchRow, SolveRow, TrajectoryRow
from allocopt.solving.result import Incumbent, Result, Status, StopReason
from allocopt.solving.solution_files import BestKnown
from allocopt.solving.solve import solve

DESIGN_KEYS = "instance kind strategy solver status objective bound gap runtime_s seed".split()


def test_a_row_of_a_solve_has_the_fields_of_the_design() -> None:
    problem = paper_window(0)
    result = solve(problem, "free", "greedy", seed=4)
    row = SolveRow.of(problem.with_strategy("free"), result)
    values = ("paper-0", "topology", "free", "greedy", str(result.status), result.objective, result.bound)
    assert asdict(row) == dict(zip(DESIGN_KEYS, (*values, result.gap, result.runtime_s, 4), strict=True))
    text = json.dumps(asdict(SolveRow.of(problem, solve(problem, "free", "sequential"))), allow_nan=False)
    assert '"bound": null, "gap": null' in text


@pytest.mark.parametrize(("known", "told"), [(None, (None, None)), (BestKnown(90.0, True), (90.0, True))])
def test_a_row_of_a_comparison_adds_version_and_yardsticks(known: BestKnown | None, told: tuple[object, ...]) -> None:
    solve_row = SolveRow("w", "topology", "dcas", "greedy", "FEASIBLE", 100.0, None, None, 0.1, 0)
    fields = BenchRow(solve_row, "1.2", known, BestKnown(0.0, False)).as_dict()
    added = dict(solver_version="1.2", best_known=told[0], best_known_proved=told[1], best_known_scas=0.0)
    assert list(fields.items()) == [*asdict(solve_row).items(), *added.items()]


def result(objective: float | None, *incumbents: Incumbent) -> Result:
    return Result(Status.FEASIBLE, StopReason.COMPLETED, objective, 1.0, 0.5, None, 0, "lns", "1", incumbents)


def test_a_trajectory_ends_as_the_solve_does() -> None:
    first, second = Incumbent(0.1, 9.0, None), Incumbent(0.2, 7.0, 1.0)
    assert TrajectoryRow.points_of(result(7.0, first, second)) == [(0.1, 9.0, None), (0.2, 7.0, 1.0), (0.5, 7.0, 1.0)]
    assert TrajectoryRow.points_of(result(None)) == []


def test_every_point_is_a_line_and_what_is_not_known_is_empty(tmp_path: Path) -> None:
    solved = SolveRow("w", "topology", "free", "sequential", "FEASIBLE", 9.0, 8.5, None, 0.5, 0)
    TrajectoryRow.write(tmp_path / "t.csv", TrajectoryRow.of(solved, [(0.25, 10.0, None), (0.5, 9.0, 8.5)]))
    lines = (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()
    header = "instance,kind,strategy,solver,seed,time_s,objective,bound"
    assert lines == [header, "w,topology,free,sequential,0,0.25,10.0,", "w,topology,free,sequential,0,0.5,9.0,8.5"]
