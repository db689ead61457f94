"""Coefficients of the locality model from measured jobs: their fit, their files, types of applications by it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np

from allocopt.errors import BadFileError, InvalidProblemError
from allocopt.files.csv_rows import csv_rows
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import VERSION, FileModel, check_header, validated
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import json_by_line, write_text
from allocopt.simulator.locality import Line, PenaltyTable, Policy, WorkloadType

FEWEST = 2  # different numbers of GPUs that a line needs


@dataclass(frozen=True, slots=True)
class Measured:
    """A job that ran."""

    workload: WorkloadType  # what bounds its speed
    policy: Policy  # how it was allocated
    gpus: int  # GPUs that it had
    requested_s: float  # seconds that it was requested for
    service_s: float  # seconds that it took


@dataclass(frozen=True, slots=True)
class FittedLine:
    """The line of a workload type and a policy, and how well it fits."""

    workload: WorkloadType
    policy: Policy
    line: Line  # coefficients in seconds
    jobs: int
    residual_s: float  # root of the mean square of what the line leaves unexplained, in seconds
    largest_residual_s: float  # the largest of these, without its sign
    explained: float | None  # share of the penalties' variance that the line explains; None where they are all equal


def fit(jobs: Sequence[Measured]) -> list[FittedLine]:
    """Fit a line to the penalties of each workload type and policy, by linear least squares.

    Jobs of unknown type need not be among those measured. Raises `InvalidProblemError` if a type and policy,
    ``UNKNOWN`` aside, has not been measured with at least two numbers of GPUs.
    """
    fitted = []
    for workload, policy in product(WorkloadType, Policy):
        chosen = [job for job in jobs if job.workload == workload and job.policy == policy]
        if chosen or workload is not WorkloadType.UNKNOWN:
            fitted.append(_fit_one(workload, policy, chosen))
    return fitted


def table_of(fitted: Sequence[FittedLine]) -> PenaltyTable:
    """Return the fitted lines as a table, in seconds."""
    return PenaltyTable({(one.workload, one.policy): one.line for one in fitted})


def _fit_one(workload: WorkloadType, policy: Policy, jobs: Sequence[Measured]) -> FittedLine:
    gpus = np.array([job.gpus for job in jobs], dtype=np.int64)
    different = len(np.unique(gpus))
    if different < FEWEST:
        name = f"{workload.label} jobs, {policy.label}"
        raise InvalidProblemError(name, f"measured with {different} numbers of GPUs, a line needs at least {FEWEST}")
    penalty = np.array([job.service_s - job.requested_s for job in jobs])
    centred = gpus - gpus.mean()
    per_gpu = float(centred @ penalty / (centred @ centred))
    line = Line(float(penalty.mean() - per_gpu * gpus.mean()), per_gpu)
    residual = penalty - line.at(gpus)
    spread = float(((penalty - penalty.mean()) ** 2).sum())
    return FittedLine(
        workload,
        policy,
        line,
        len(jobs),
        float(np.sqrt((residual**2).mean())),
        float(np.abs(residual).max()),
        None if spread == 0 else 1.0 - float((residual**2).sum()) / spread,
    )


RUNS = 3  # runs after which an application is classified


@dataclass(slots=True)
class TypeClassifier:
    """Remembers how long applications took, and says which lines of a table they follow."""

    table: PenaltyTable  # the locality model, in seconds
    runs: int = RUNS  # runs of an application before it is classified, at least 1
    _seen: dict[str, list[Measured]] = field(default_factory=lambda: defaultdict(list))

    def observe(self, application: str, run: Measured) -> None:
        """Take note of a run; the type that it says is not looked at."""
        self._seen[application].append(run)

    def type_of(self, application: str) -> WorkloadType:
        """Return the type whose lines leave the least squares of the penalties; unknown before enough runs."""
        seen = self._seen.get(application, [])
        if len(seen) < self.runs:
            return WorkloadType.UNKNOWN

        def squares(kind: WorkloadType) -> float:
            lines = [self.table.lines[kind, run.policy].at(np.array([run.gpus]))[0] for run in seen]
            penalties = [run.service_s - run.requested_s for run in seen]
            return float(np.square(np.subtract(penalties, lines)).sum())

        return min((WorkloadType.COMPUTE, WorkloadType.NETWORK), key=squares)


FORMAT = "allocopt-locality"
COLUMNS = ("workload", "policy", "gpus", "requested_s", "service_s")
"""Columns of measured jobs; others are ignored."""
WORKLOADS = {kind.label: kind for kind in WorkloadType}
POLICIES = {policy.label: policy for policy in Policy}
MOST = 2.0**53  # numbers beyond this are refused


class LineModel(FileModel):
    """The line of a workload type and a policy."""

    workload: Literal["compute", "network", "unknown"]
    policy: Literal["depth-first", "breadth-first"]
    base_s: float
    per_gpu_s: float


class TableModel(FileModel):
    """Coefficients of the locality model."""

    format: Literal["allocopt-locality"]
    version: int
    lines: list[LineModel]


def read_measured(path: Path | str) -> list[Measured]:
    """Read measured jobs of a CSV file; ``.gz`` is decompressed.

    Its columns are ``workload`` (compute, network, unknown), ``policy`` (depth-first, breadth-first), ``gpus``,
    ``requested_s`` and ``service_s``. Raises `BadFileError` if the file cannot be read, or a row is wrong; it names
    line and column.
    """
    path = Path(path)
    return [
        Measured(
            WORKLOADS[_choice(path, place, row, "workload", tuple(WORKLOADS))],
            POLICIES[_choice(path, place, row, "policy", tuple(POLICIES))],
            int(_number(path, place, row, "gpus")),
            _number(path, place, row, "requested_s"),
            _number(path, place, row, "service_s"),
        )
        for place, row in csv_rows(path, COLUMNS, "jobs")
    ]


def read_table(path: Path | str) -> PenaltyTable:
    """Read coefficients, in seconds. Raises `BadFileError` if the file cannot be read or anything in it is wrong."""
    path = Path(path)
    model = validated(TableModel, check_header(parse_json(read_text(path), path), path, FORMAT), path)
    lines: dict[tuple[WorkloadType, Policy], Line] = {}
    for number, one in enumerate(model.lines):
        key = WORKLOADS[one.workload], POLICIES[one.policy]
        if key in lines:
            raise bad_file(path, f"lines[{number}]", f"is the second of {one.workload} jobs, {one.policy}")
        lines[key] = Line(one.base_s, one.per_gpu_s)
    try:
        return PenaltyTable(lines)
    except InvalidProblemError as error:
        raise bad_file(path, str(error)) from None


def write_table(path: Path | str, table: PenaltyTable) -> None:
    """Write coefficients, given in seconds. Raises `BadFileError` if the file cannot be written."""
    lines = [
        {"workload": kind.label, "policy": policy.label, "base_s": line.base, "per_gpu_s": line.per_gpu}
        for (kind, policy), line in sorted(table.lines.items())
    ]
    write_text(Path(path), json_by_line({"format": FORMAT, "version": VERSION, "lines": lines}))


def _choice(path: Path, place: str, row: Mapping[str, str], name: str, known: Sequence[str]) -> str:
    cell = row[name].strip()
    if cell not in known:
        raise _fault(path, place, name, cell, f"one of {', '.join(known)}")
    return cell


def _number(path: Path, place: str, row: Mapping[str, str], name: str) -> float:
    cell = row[name].strip()
    try:
        number = float(cell)
    except ValueError:
        raise _fault(path, place, name, cell, "a number") from None
    if name == "gpus" and not (0 <= number <= MOST and number.is_integer()):
        raise _fault(path, place, name, cell, "a whole number within 0 .. 2^53")
    if name != "gpus" and not 0 < number <= MOST:
        raise _fault(path, place, name, cell, "a number of seconds, more than 0 and at most 2^53")
    return number


def _fault(path: Path, place: str, name: str, cell: str, right: str) -> BadFileError:
    return bad_file(path, place, f"{name} is {shown(cell)}, must be {right}")
