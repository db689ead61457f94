"""Which columns of a table of jobs mean what: by name, or as a mapping says."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_toml
from allocopt.traces.csv_cells import UNITS_S

ROLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "job": ("jobidraw", "jobid", "job_id", "job_number", "id", "job"),
        "submit": ("submit", "submit_time", "submittime", "submitted", "time_submit", "arrival", "arrival_time"),
        "start": ("start", "start_time", "starttime", "started", "time_start"),
        "end": ("end", "end_time", "endtime", "ended", "finish_time", "time_end"),
        "run": ("elapsedraw", "elapsed", "run", "run_time", "runtime", "run_s", "duration", "wallclock_used"),
        "estimate": (
            "timelimitraw", "timelimit", "time_limit", "estimate", "estimate_s", "wallclock_req", "walltime",
            "requested_time", "req_walltime",
        ),
        "nodes": (
            "allocnodes", "nnodes", "nodes_alloc", "reqnodes", "nodes_req", "num_nodes", "n_nodes", "nodes",
            "alloctres", "tres_alloc", "reqtres", "tres_req",
        ),
        "processors": (
            "alloccpus", "ncpus", "reqcpus", "processors", "processors_req", "num_procs", "n_cpus", "cpus", "cores",
            "alloctres", "tres_alloc", "reqtres", "tres_req",
        ),
        "user": ("uid", "user", "user_id", "username"),
        "state": ("state", "job_state", "status"),
    }
)  # fmt: skip
"""What a column may mean, with the names that are known for it, in small letters, the best first."""

MINUTES = ("timelimitraw", "timelimit")
"""Columns in which Slurm's bare numbers are minutes."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns mean what.

    Parameters
    ----------
    names
        By role (see `ROLES`), the name of its column.
    units
        By role, the unit of bare numbers: ms, s, min, h or d; seconds if not given.
    delimiter
        What stands between cells; None for the one of ``, ; |`` and tabulator that the first line has most of.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    delimiter: str | None = None

    def __post_init__(self) -> None:
        for role in (*self.names, *self.units):
            if role not in ROLES:
                raise UsageError(f"columns: there is no meaning {role!r}; there are {', '.join(ROLES)}")
        for role, unit in self.units.items():
            if unit not in UNITS_S:
                raise UsageError(f"columns: the unit of {role} is {unit!r}, must be one of {', '.join(UNITS_S)}")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise UsageError(f"columns: the delimiter is {self.delimiter!r}, must be one character")
        if {"nodes", "processors"} <= self.names.keys():
            raise UsageError("columns: both nodes and processors are named; a job's size is one of them")


def parse_columns(text: str) -> Columns:
    """Read a mapping: a file ``.toml``, or ``ROLE=COLUMN,...`` with a unit after a colon, ``run=elapsed:min``.

    Raises
    ------
    UsageError
        If it is neither, or names no role or unit that there is.
    BadFileError
        If the file cannot be read or is not a mapping.
    """
    if text.endswith(".toml"):
        return _columns_in(Path(text))
    names: dict[str, str] = {}
    units: dict[str, str] = {}
    for part in text.split(","):
        role, equals, column = part.partition("=")
        if not equals or not column:
            raise UsageError(f"columns {text!r} hold {part!r}, must be ROLE=COLUMN, or one file that ends in .toml")
        name, colon, unit = column.rpartition(":")
        names[role.strip()] = (name if colon else column).strip()
        if colon:
            units[role.strip()] = unit.strip()
    return Columns(names, units)


def find_columns(path: Path, header: Sequence[str], columns: Columns) -> dict[str, tuple[int, float]]:
    """Find what the columns of a table mean: by role the number of its column and its unit in seconds.

    Raises
    ------
    BadFileError
        If a column that is named, or one that is needed, is not there.
    """
    there = {_plain(name): number for number, name in reversed(list(enumerate(header)))}
    found = dict(_found(path, there, columns))
    if "processors" in columns.names:
        found.pop("nodes", None)
    elif "nodes" in found:
        found.pop("processors", None)
    missing = [role for role in ("job", "submit") if role not in found]
    if "run" not in found and not {"start", "end"} <= found.keys():
        missing.append("run (or start and end)")
    if not {"nodes", "processors"} & found.keys():
        missing.append("nodes (or processors)")
    if missing:
        listed = ", ".join(name.strip() for name in header)
        raise bad_file(path, "line 1", f"no column is known to mean {', '.join(missing)}; there are {listed}")
    return found


def _found(path: Path, there: Mapping[str, int], columns: Columns) -> Iterator[tuple[str, tuple[int, float]]]:
    """Yield every role that has a column, with its number and unit."""
    for role, known in ROLES.items():
        named = columns.names.get(role)
        if named is not None and _plain(named) not in there:
            raise bad_file(path, "line 1", f"has no column {shown(named)}, which is to mean {role}")
        name = (
            _plain(named) if named is not None else next((name for name in map(_plain, known) if name in there), None)
        )
        if name is not None:
            usual = "min" if name in MINUTES else "s"
            yield role, (there[name], UNITS_S[columns.units.get(role, usual)])


def _plain(name: str) -> str:
    """Spell the name of a column as every other spelling of it: ``Job ID``, ``job_id`` and ``JobID`` are one."""
    return re.sub(r"[\s_-]+", "", name).lower()


def _columns_in(path: Path) -> Columns:
    """Read a mapping from a file with the tables ``columns`` and ``units``, and a ``delimiter``."""
    read = read_toml(path)
    unknown = set(read) - {"columns", "units", "delimiter"}
    if unknown:
        raise bad_file(path, f"key {shown(min(unknown))} is unknown; keys are columns, units, delimiter")
    names, units, delimiter = read.get("columns", {}), read.get("units", {}), read.get("delimiter")
    tables = [(key, table) for key, table in (("columns", names), ("units", units)) if not _is_texts(table)]
    if tables:
        raise bad_file(path, tables[0][0], "must be a table of texts")
    if not isinstance(delimiter, str | None):
        raise bad_file(path, "delimiter", "must be a text of one character")
    try:
        return Columns(names, units, delimiter)
    except UsageError as error:
        raise bad_file(path, str(error)) from None


def _is_texts(table: object) -> bool:
    """Whether a value is a table of texts."""
    return isinstance(table, dict) and all(isinstance(value, str) for value in table.values())
