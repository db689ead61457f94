"""Files of the locality model: measured jobs as CSV, and fitted coefficients as JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, FiniteFloat

from allocopt.errors import BadFileError, InvalidProblemError
from allocopt.files.csv_rows import csv_rows
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import VERSION, check_header, validated
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import json_by_line, write_text
from allocopt.simulator.locality import Line, PenaltyTable, Policy, WorkloadType
from allocopt.simulator.locality_fit import Measured

FORMAT = "allocopt-locality"
COLUMNS = ("workload", "policy", "gpus", "requested_s", "service_s")
"""Columns of measured jobs; others are ignored."""
WORKLOADS = {kind.label: kind for kind in WorkloadType}
POLICIES = {policy.label: policy for policy in Policy}
MOST = 2.0**53
"""Numbers beyond this are refused."""


class LineModel(BaseModel):
    """The line of a workload type and a policy."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    workload: Literal["compute", "network", "unknown"]
    policy: Literal["depth-first", "breadth-first"]
    base_s: FiniteFloat
    per_gpu_s: FiniteFloat


class TableModel(BaseModel):
    """Coefficients of the locality model."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    format: Literal["allocopt-locality"]
    version: int
    lines: list[LineModel]


def read_measured(path: Path | str) -> list[Measured]:
    """Read measured jobs.

    Parameters
    ----------
    path
        A CSV file with the columns ``workload`` (compute, network, unknown), ``policy`` (depth-first, breadth-first),
        ``gpus``, ``requested_s`` and ``service_s``; ``.gz`` is decompressed.

    Raises
    ------
    BadFileError
        If the file cannot be read, or a row is wrong; it names line and column.
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
    """Read coefficients, in seconds.

    Raises
    ------
    BadFileError
        If the file cannot be read or anything in it is wrong.
    """
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
    """Write coefficients, given in seconds.

    Raises
    ------
    BadFileError
        If the file cannot be written.
    """
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
    """Read a cell that holds a positive number, or one of GPUs."""
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
