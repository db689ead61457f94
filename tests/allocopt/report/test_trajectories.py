"""Trajectories as a CSV file."""

from pathlib import Path

from support.windows import window

from allocopt.cluster.topology import FatTree
from allocopt.report.rows import SolveRow
from allocopt.report.trajectories import COLUMNS, TrajectoryRow, points_of, write_trajectories
from allocopt.solving.result import Incumbent, Result, Status, StopReason
from allocopt.solving.solve import solve


def result(objective: float | None, *incumbents: Incumbent) -> Result:
    return Result(Status.FEASIBLE, StopReason.COMPLETED, objective, 1.0, 0.5, None, 0, "lns", "1", incumbents)


def test_a_trajectory_ends_as_the_solve_does() -> None:
    first, second = Incumbent(0.1, 9.0, None), Incumbent(0.2, 7.0, 1.0)
    assert points_of(result(7.0, first, second)) == [(0.1, 9.0, None), (0.2, 7.0, 1.0), (0.5, 7.0, 1.0)]
    assert points_of(result(None)) == []


def test_every_point_is_a_line_and_what_is_not_known_is_empty(tmp_path: Path) -> None:
    problem = window(FatTree(2, 2, 4), range(16), [3, 5]).with_strategy("free")
    solved = SolveRow.of(problem, solve(problem, "free", "sequential"))
    write_trajectories(tmp_path / "t.csv", TrajectoryRow.of(solved, [(0.25, 10.0, None), (0.5, 9.0, 8.5)]))
    lines = (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()
    begins = f"{problem.name},topology,free,sequential,0"
    assert lines == [",".join(COLUMNS), f"{begins},0.25,10.0,", f"{begins},0.5,9.0,8.5"]
