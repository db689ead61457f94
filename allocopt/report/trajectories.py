"""Trajectories of solves as a CSV file: every incumbent, and the bound known then, over the running time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from allocopt.files.csv_rows import csv_text
from allocopt.files.writing import write_text
from allocopt.report.rows import SolveRow
from allocopt.solving.result import Result

Point = tuple[float, float, float | None]
"""Seconds since the start, the best objective then, and the bound then, None where there is none."""


@dataclass(frozen=True, slots=True)
class TrajectoryRow:
    """A point of a solve: seconds since its start, best objective and bound known then, None for no bound."""

    instance: str
    kind: str
    strategy: str | None
    solver: str
    seed: int
    time_s: float
    objective: float
    bound: float | None

    @classmethod
    def of(cls, solve: SolveRow, points: Iterable[Sequence[float | None]]) -> "Iterator[TrajectoryRow]":
        """Yield a row per point of a solve."""
        for time_s, objective, bound in points:
            if time_s is not None and objective is not None:
                yield cls(
                    solve.instance, solve.kind, solve.strategy, solve.solver, solve.seed, time_s, objective, bound
                )


COLUMNS = tuple(field.name for field in fields(TrajectoryRow))


def points_of(result: Result) -> list[Point]:
    """Return the incumbents of a solve, and how it ended."""
    points = [(each.time_s, each.objective, each.bound) for each in result.incumbents]
    if result.objective is None:
        return points
    return [*points, (max(result.runtime_s, points[-1][0] if points else 0.0), result.objective, result.bound)]


def write_trajectories(path: Path, rows: Iterable[TrajectoryRow]) -> None:
    """Write rows as a CSV file; raise `BadFileError` if it cannot be written."""
    write_text(path, csv_text(COLUMNS, map(astuple, rows)))
