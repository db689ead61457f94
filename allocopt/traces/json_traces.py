"""Traces in JSON: finds the format of a parsed file; if it is not a trace, the error says what it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import parse_json
from allocopt.traces.csv_columns import Columns
from allocopt.traces.records import Damage
from allocopt.traces.workload import Workload

_READ = "Batsim, sacct --json, bjobs -json, condor_history -json, and the job log of Philly"


@dataclass(frozen=True, slots=True)
class _Kind:
    # A format: the function that reads it, its module in this folder, and a test whether a parsed file has this format.
    module: str
    function: str
    is_it: Callable[[Any], bool]
    is_table: bool = False


def _first(parsed: Any, key: str = "jobs") -> Mapping[str, Any]:
    listed = parsed.get(key) if isinstance(parsed, dict) else parsed
    first = listed[0] if isinstance(listed, list) and listed else {}
    return first if isinstance(first, dict) else {}


def _has(parsed: Any, *keys: str) -> bool:
    return isinstance(parsed, dict) and any(key in parsed for key in keys)


def _is_batsim(parsed: Any) -> bool:
    return _has(parsed, "nb_res", "profiles") or parsed in ({}, []) or "subtime" in _first(parsed)


_KINDS = (
    _Kind("batsim", "read_batsim", _is_batsim),
    _Kind("lsf", "read_bjobs", lambda parsed: _has(parsed, "RECORDS"), is_table=True),
    _Kind("slurm_json", "read_squeue_json", lambda parsed: _has(parsed, "jobs") and "job_state" in _first(parsed)),
    _Kind("slurm_json", "read_sacct_json", lambda parsed: _has(parsed, "jobs") and "time" in _first(parsed)),
    _Kind("condor", "read_condor_json", lambda parsed: isinstance(parsed, list) and _is_classad(_first(parsed))),
    _Kind("philly", "read_philly", lambda parsed: isinstance(parsed, list)),
)


def _is_classad(first: Mapping[str, Any]) -> bool:
    return bool({"clusterid", "qdate"} & {key.lower() for key in first})


# Files that are not traces: a test for each, and what the message says about it.
_OTHERS: Sequence[tuple[Callable[[Any], bool], str]] = (
    (
        lambda parsed: _has(parsed, "nodes") and not _has(parsed, "jobs"),
        "is a list of nodes, such as scontrol show node --json prints: give it with --cluster",
    ),
    (
        lambda parsed: _has(parsed, "sinfo", "partitions", "reservations"),
        "is what sinfo or scontrol prints about nodes and partitions with --json: give it with --cluster",
    ),
    (
        lambda parsed: _has(parsed, "execution") and _has(parsed, "version"),
        "is a resource set of Flux (R): give it with --cluster",
    ),
    (
        lambda parsed: _has(parsed, "Jobs"),
        "is what qstat -F json prints: give PBS's accounting log, a file per day",
    ),
    (
        lambda parsed: "t_submit" in _first(parsed),
        "is what flux jobs --json prints, which is not read: make a table of it, with --columns submit=t_submit,...",
    ),
    (
        lambda parsed: _has(parsed, "jobs") and parsed["jobs"] == [] and _has(parsed, "meta"),
        "holds no jobs",
    ),
)


def read_json_trace(path: Path, text: str, damage: Damage, columns: Columns) -> Workload:
    """Read a trace in JSON; if the file is not a trace, raise `BadFileError`, which says what it is."""
    parsed = parse_json(_as_list(text), path)
    for kind in _KINDS:
        if kind.is_it(parsed):
            if columns.is_mapping and not kind.is_table:
                raise UsageError(f"--columns applies to tables, and {path.name} is not one")
            read = getattr(import_module(f"allocopt.traces.{kind.module}"), kind.function)
            made: Workload = read(path, parsed, damage, columns)
            return made
    raise bad_file(path, _what(parsed))


def _as_list(text: str) -> str:
    # One object per line, as condor_history -jsonl prints them.
    lines = [line for line in text.splitlines() if line.strip()]
    is_each = len(lines) > 1 and all(line.startswith("{") and line.rstrip().endswith("}") for line in lines)
    return f"[{','.join(lines)}]" if is_each else text


def _what(parsed: Any) -> str:
    for is_it, what in _OTHERS:
        if is_it(parsed):
            return f"{what}; it holds no jobs that have run"
    if _has(parsed, "kind"):
        return f"is a Kubernetes object of kind {shown(parsed['kind'])}, not a trace; traces in JSON are {_READ}"
    if _has(parsed, "format"):
        return (
            f"is a file of the format {shown(parsed['format'])}, not a trace: allocopt solve and verify read instances"
        )
    keys = ", ".join(map(str, list(parsed)[:5])) if isinstance(parsed, dict) else shown(parsed)
    return f"is JSON, but not a known trace (it has {keys}); traces in JSON are {_READ}"
