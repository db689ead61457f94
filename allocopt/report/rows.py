"""Results as flat rows, and rows as tables: CSV, JSON or JSON lines."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

from allocopt.errors import UsageError
from allocopt.files.csv_rows import csv_text
from allocopt.files.writing import compact_json, write_text
from allocopt.problems.base import Problem
from allocopt.problems.kind import kind_of
from allocopt.simulator.metrics import JobStatistics, Metrics
from allocopt.simulator.schedule import Schedule
from allocopt.solving.result import Result
from allocopt.solving.solution_files import BestKnown
from allocopt.tables import column_names


@dataclass(frozen=True, slots=True)
class SolveRow:
    """One solve; strategy, objective, bound and gap are None if there is none."""

    instance: str
    kind: str
    strategy: str | None
    solver: str
    status: str
    objective: float | None
    bound: float | None
    gap: float | None
    runtime_s: float
    seed: int

    @classmethod
    def of(cls, problem: Problem, result: Result) -> "SolveRow":
        """Return the row of a result."""
        return cls(
            instance=problem.name,
            kind=problem.kind,
            strategy=kind_of(problem).strategy_of(problem),
            solver=result.solver,
            status=str(result.status),
            objective=result.objective,
            bound=result.bound,
            gap=result.gap,
            runtime_s=result.runtime_s,
            seed=result.seed,
        )


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One solve of a comparison, with the version of its solver, the best known values, and its trajectory.

    Best known values are those under the same strategy and under ``scas``, with which the NSA paper compares. Points
    hold seconds, objective and bound, as in `TrajectoryRow`.
    """

    solve: SolveRow
    version: str
    best_known: BestKnown | None = None
    best_known_scas: BestKnown | None = None
    points: Sequence[Sequence[float | None]] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, without the trajectory."""
        return {
            **asdict(self.solve),
            "solver_version": self.version,
            "best_known": self.best_known and self.best_known.objective,
            "best_known_proved": self.best_known and self.best_known.proved,
            "best_known_scas": self.best_known_scas and self.best_known_scas.objective,
        }


@dataclass(frozen=True, slots=True)
class TrajectoryRow:
    """A point of a solve: seconds since its start, and the best objective and bound then, None for no bound."""

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
        """Yield a row per point of a solve; points are those of `points_of`."""
        of_solve = (solve.instance, solve.kind, solve.strategy, solve.solver, solve.seed)
        for time_s, objective, bound in points:
            if time_s is not None and objective is not None:
                yield cls(*of_solve, time_s, objective, bound)

    @staticmethod
    def points_of(result: Result) -> list[tuple[float, float, float | None]]:
        """Return seconds, objective and bound of the incumbents of a solve, and of its end."""
        points = [(each.time_s, each.objective, each.bound) for each in result.incumbents]
        if result.objective is None:
            return points
        # The last incumbent may have been reported after the clock was stopped.
        end_s = max(result.runtime_s, points[-1][0] if points else 0.0)
        return [*points, (end_s, result.objective, result.bound)]

    @classmethod
    def write(cls, path: Path, rows: "Iterable[TrajectoryRow]") -> None:
        """Write rows as a CSV file; raise `BadFileError` if it cannot be written."""
        write_text(path, csv_text([field.name for field in fields(cls)], map(astuple, rows)))


@dataclass(frozen=True, slots=True)
class SimulateRow:
    """One simulation; means are over the measured jobs.

    Utilization is the share of the processor-seconds in use, the makespan is the time from the first submission to the
    last end, and ``runtime_s`` is the wall-clock time of the simulation without reading and measuring.
    """

    jobs: int
    mean_wait_s: float
    max_wait_s: float
    mean_bounded_slowdown: float
    utilization: float
    makespan_s: float
    runtime_s: float
    jobs_per_s: float

    @classmethod
    def of(cls, schedule: Schedule, metrics: Metrics, runtime_s: float) -> "SimulateRow":
        """Return the row of a schedule and its metrics; ``runtime_s`` is the time of the simulation."""
        jobs, machine = metrics.jobs, metrics.machine
        waits = (jobs.wait_s.mean, jobs.wait_s.maximum, jobs.bounded_slowdown.mean)
        # A simulation shorter than a tick of the clock takes 0 s: count at least a nanosecond.
        speed = len(schedule.workload) / max(runtime_s, 1e-9)
        return cls(jobs.jobs, *waits, machine.utilization, machine.makespan_s, runtime_s, speed)


@dataclass(frozen=True, slots=True)
class SimulateGroupRow:
    """The jobs of a group in a simulation: ``by`` names the grouping, ``group`` the group."""

    by: str
    group: str
    jobs: int
    mean_wait_s: float
    max_wait_s: float
    mean_bounded_slowdown: float
    starved: int
    mean_hop_cost: float | None

    @classmethod
    def of(cls, by: str, group: str, jobs: JobStatistics) -> "SimulateGroupRow":
        """Return the row of the statistics of a group."""
        wait, slowdown = jobs.wait_s, jobs.bounded_slowdown
        return cls(by, group, jobs.jobs, wait.mean, wait.maximum, slowdown.mean, jobs.starved, jobs.mean_hop_cost)


def check_suffix(path: Path, *suffixes: str) -> None:
    """Raise `UsageError` unless the name of a table ends in one of the suffixes."""
    if path.suffix not in suffixes:
        raise UsageError(f"{path} must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}")


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as ``.csv``, ``.json`` or ``.jsonl``; the file is replaced when all is written.

    A column of a ``.csv`` that a row does not have is an empty cell.
    """
    if path.suffix == ".jsonl":
        text = "".join(f"{compact_json(row)}\n" for row in rows)
    elif path.suffix == ".json":
        text = json.dumps(list(rows), indent=1, allow_nan=False) + "\n"
    else:
        names = column_names(rows)
        values = [[row.get(name) for name in names] for row in rows]
        cells = [[compact_json(each) if isinstance(each, tuple) else each for each in row] for row in values]
        text = csv_text(names, cells) if rows else ""
    write_text(path, text)
