"""Reads workload files of any format; the ending or the beginning of a file identifies the format."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import cast

from allocopt.errors import BadFileError, UsageError
from allocopt.files.faults import bad_file, memory_faults_named
from allocopt.files.reading import read_text, without_compression
from allocopt.traces.csv_columns import Columns
from allocopt.traces.fetch import SOURCES, cached_trace
from allocopt.traces.records import Damage, TraceFormat
from allocopt.traces.workload import Workload

# Formats that can be written. Modules are loaded only when needed, because the models of JSON files load slowly.
_WRITTEN = {".swf": ("text", "Swf"), ".json": ("batsim", "Batsim"), ".txt": ("text", "Nsa")}
_TABLES = (".csv", ".tsv", ".psv")

Reader = Callable[[Path, str, Damage, Columns], Workload]


@dataclass(frozen=True, slots=True)
class _Format:
    """A format: the function that reads it, its module here, and the ending or beginning that identifies it."""

    name: str
    module: str
    function: str
    ending: str = ""
    begins: re.Pattern[str] | None = None

    def read(self, path: Path, text: str, damage: Damage, columns: Columns) -> Workload:
        if columns.is_mapping and self.module not in ("tables", "json_traces"):
            raise UsageError(f"--columns applies to tables, and {path.name} is not one ({self.name})")
        reader = cast(Reader, getattr(import_module(f"allocopt.traces.{self.module}"), self.function))
        return reader(path, text, damage, columns)


_TEXTS = (
    _Format("events of the Slurm simulator", "events", "read_events", ".events"),
    _Format("JSON", "json_traces", "read_json_trace", ".json", re.compile(r"\s*[\[{]\s*[\"{\]}]")),
    _Format(
        "accounting log of PBS",
        "pbs",
        "read_pbs",
        "",
        re.compile(r"\s*\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?:\.\d+)?;\w+;[^;\n]*;", re.ASCII),
    ),
    _Format(
        "lsb.acct of LSF", "lsf", "read_lsb_acct", "", re.compile(r'\s*"(?:JOB_FINISH|EVENT_ADRSV_FINISH|JOB_RESIZE)" ')
    ),
    _Format(
        "accounting of Grid Engine",
        "grid_engine",
        "read_grid_engine",
        "",
        re.compile(r"(?:#[^\n]*\n|[^\S\n]*\n)*(?:[^:\n]*:){5}\d+:[^:\n]*:-?\d+:\d{9,13}:\d{1,13}:\d{1,13}:", re.ASCII),
    ),
    _Format("qacct -j of Grid Engine", "grid_engine", "read_qacct", "", re.compile(r"\s*={20,}\s*\nqname\s")),
    _Format(
        "Grid Workload Format",
        "gwf",
        "read_gwf",
        ".gwf",
        re.compile(r"(?:#[^\n]*\n|[^\S\n]*\n)*[ \t]*\d+(?:[ \t]+\S+){25,30}[ \t]*\r?(?:\n|$)", re.ASCII),
    ),
    _Format(
        "job completion log of Slurm",
        "job_completion",
        "read_job_completion",
        "",
        re.compile(r"\s*JobId=\d+ UserId=\S+\(\d+\) GroupId=", re.ASCII),
    ),
    _Format(
        "ClassAds of HTCondor",
        "condor",
        "read_classads",
        "",
        re.compile(r"(?:\*\*\*[^\n]*\n|[^\S\n]*\n)*[A-Za-z_]\w* = [^\n]*\n(?:[A-Za-z_]\w* = [^\n]*(?:\n|$))+"),
    ),
)
"""Text formats other than SWF, tables and the NSA authors' text, in the order in which they are tried."""

# Beginnings of the Standard Workload Format, for files with any ending, and of lines of numbers.
_SWF = re.compile(r"(?:;[^\n]*\n|[^\S\n]*\n)*[ \t]*(?:-?[\d.]+[ \t]+){17}-?[\d.]+\s", re.ASCII)
_NUMBERS = re.compile(r"\s*(?:[\d.]+\s+){3}[\d.]+\s", re.ASCII)

_NO_TRACE = (
    (
        r"JobId=\d+(?! UserId=\S+ GroupId=)",
        "what scontrol show job prints about waiting and running jobs: give it with generate window --queue",
    ),
    (r"NodeName=", "a list of nodes, such as slurm.conf or what scontrol show node prints: give it with --cluster"),
    (r"(?:SwitchName|BlockName)=", "a topology.conf: give it with --topology or --cluster"),
    (r"(?:apiVersion|kind)\s*:|---\s", "YAML, such as objects of Kubernetes: give a cluster with --cluster"),
    (
        r"(?:sacct|squeue|scontrol|sinfo|slurm_\w+|bjobs|qstat|qacct|condor_history)\S*: ",
        "an error message of the command that should have written it",
    ),
    (r"(?i:<!DOCTYPE html|<html)", "an HTML page, such as a login page"),
    (r"<\?xml|<graphml|<platform", "XML, such as GraphML: give a topology with --topology"),
)
_TAKEN_FOR_NSA = (
    "it was read as the NSA authors' text because no other format matches (docs/traces.md); if it is a table, name its "
    "columns in its first line, or in order with --columns JobID,Submit,Elapsed,NNodes"
)


def format_of(path: Path) -> TraceFormat:
    """Return the format of a file to be written, by its ending; ``.gz`` may follow the ending."""
    for ending, (module, name) in _WRITTEN.items():
        if path.name.removesuffix(".gz").endswith(ending):
            return cast(TraceFormat, getattr(import_module(f"allocopt.traces.{module}"), name)())
    raise UsageError(f"{path}: the name must end in {', '.join(_WRITTEN)}, or one of these and .gz")


@memory_faults_named
def read_workload(
    path: Path | str, columns: Columns | str | None = None, *, strict: bool = False, dependencies: bool = True
) -> Workload:
    """Read a workload in the format that the ending or the beginning of its file identifies.

    ``.swf`` is the Standard Workload Format. ``.events`` holds events of the Slurm simulator of UB CCR. ``.csv``,
    ``.tsv``, ``.psv`` and ``.parquet`` are tables whose first line names the columns. ``.json`` is a workload of
    Batsim, the job log of Philly, or what ``sacct``, ``bjobs`` or ``condor_history`` print as JSON. Accounting logs of
    PBS, LSF, Grid Engine and HTCondor are recognized by their beginning. Any other text is a table if its first line
    has known column names, or its second line has dashes below the names, as ``sacct`` prints; otherwise it is read as
    the NSA authors' text. Files may be compressed by gzip, xz or bzip2.

    Parameters
    ----------
    path
        The file. If there is none, the name of a fetched trace (`allocopt.traces.fetch`).
    columns
        The roles of columns whose names are not known, also as a text for `Columns.parse`.
    strict
        Raise an error at the first damaged row, instead of dropping and counting damaged rows.
    dependencies
        Whether to keep preceding jobs and think times, if the format has them.

    Raises
    ------
    BadFileError
        If the file cannot be read; names the line and the column, or the field.
    UsageError
        If columns are given for a file that is not a table.
    """
    columns = Columns.parse(columns) if isinstance(columns, str) else columns or Columns()
    path = _file_of(Path(path))
    damage = Damage(path, strict=strict)
    name = without_compression(path.name)
    if name.endswith(".parquet"):
        from allocopt.traces.parquet import read_parquet

        return read_parquet(path, damage, columns)
    text = "" if name.endswith(".swf") else read_text(path)
    if name.endswith(".swf") or _SWF.match(text):
        if columns.is_mapping:
            raise UsageError(f"--columns applies to tables, and {path.name} is not one")
        from allocopt.traces.text import Swf

        return Swf(dependencies=dependencies).read(path, damage)
    made = _read_text(path, name, text, damage, columns)
    return made if dependencies else made.without_dependencies()


def _read_text(path: Path, name: str, text: str, damage: Damage, columns: Columns) -> Workload:
    told = next((what for begin, what in _NO_TRACE if re.match(rf"\s*(?:#[^\n]*\n\s*)*(?:{begin})", text)), None)
    if told is not None and not name.endswith((".events", ".json")):
        raise bad_file(path, f"is not a trace of jobs that have run, but {told}")
    is_table = name.endswith(_TABLES) or columns.is_mapping
    found = next((one for one in _TEXTS if one.ending and name.endswith(one.ending)), None)
    if found is None:
        found = next((one for one in _TEXTS if one.begins is not None and one.begins.match(text)), None)
    if found is not None and not (is_table and found.module == "json_traces" and not name.endswith(".json")):
        return found.read(path, text, damage, columns)
    # Most workloads are not tables, and are read without loading the table reader.
    if is_table or not _NUMBERS.match(text):
        from allocopt.traces.tables import is_table as has_names
        from allocopt.traces.tables import read_table

        if is_table or has_names(text):
            return read_table(path, text, damage, columns)
    try:
        from allocopt.traces.text import Nsa

        return Nsa().read(path, damage)
    except BadFileError as error:
        if not text.strip():
            raise bad_file(path, "is empty") from None
        raise BadFileError(f"{error}; {_TAKEN_FOR_NSA}") from None


def _file_of(path: Path) -> Path:
    # A file takes precedence over a fetched trace of the same name.
    name = str(path)
    if path.exists() or path.name != name:
        return path
    fetched = cached_trace(name)
    if fetched is not None:
        return fetched
    if name in SOURCES:
        raise bad_file(path, f"no such file, and the trace has not been fetched: run allocopt fetch-trace {name}")
    meant = {known.lower(): known for known in SOURCES}
    if path.suffix == "" and (close := get_close_matches(name.lower(), meant, n=1)):
        raise bad_file(path, f"no such file, and no trace with this name; did you mean {meant[close[0]]!r}?")
    return path
