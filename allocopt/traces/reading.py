"""Workload files of any format, by the endings of their names."""

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import cast

from allocopt.errors import BadFileError, UsageError
from allocopt.files.faults import bad_file, memory_faults_named
from allocopt.files.reading import read_text
from allocopt.traces.csv_columns import Columns
from allocopt.traces.fetch import SOURCES, cached_trace
from allocopt.traces.records import Damage, TraceFormat
from allocopt.traces.workload import Workload

# The module of this folder and the class in it. They are loaded when they are needed: text does without models of JSON.
_FORMATS = {".swf": ("text", "Swf"), ".json": ("batsim", "Batsim"), ".txt": ("text", "Nsa")}
_TABLES = (".csv", ".tsv", ".psv", ".parquet")
_TAKEN_FOR_NSA = (
    "it was taken for the NSA authors' text, for it does not end in .swf, .json, .events, .csv, .tsv, .psv or .parquet"
)


def format_of(path: Path) -> TraceFormat:
    """Return the format of a file to be written, by its ending; also before ``.gz``."""
    for ending, (module, name) in _FORMATS.items():
        if path.name.removesuffix(".gz").endswith(ending):
            return cast(TraceFormat, getattr(import_module(f"allocopt.traces.{module}"), name)())
    raise UsageError(f"{path}: the name must end in {', '.join(_FORMATS)}, or one of these and .gz")


@memory_faults_named
def read_workload(
    path: Path | str, columns: Columns | str | None = None, *, strict: bool = False, dependencies: bool = True
) -> Workload:
    """Read a workload in the format that the ending of its file tells.

    Raises `BadFileError`, which names the line and the column, or the field, if the file cannot be read, `UsageError`
    if columns are given for a file that is no table.

    ``.swf`` is the Standard Workload Format, ``.json`` Batsim's or Philly's job log, ``.events`` those of the Slurm
    simulator of UB CCR, ``.csv``, ``.tsv`` and ``.parquet`` a table whose first line names the columns. Any other text
    is such a table if ``|`` stands in its first line, or its second one rules columns, as ``sacct`` prints them, and
    else the NSA authors' text.

    With ``.gz`` after its ending the file is decompressed. Where there is none of that name, it is the name of a trace
    that has been fetched (`allocopt.traces.fetch`). ``columns`` tells which columns of a table mean what where their
    names do not say; a text as `Columns.parse` takes it. A damaged row refuses a ``strict`` file, or else is dropped
    and counted. ``dependencies`` are preceding jobs and think times, where a format has them.
    """
    columns = Columns.parse(columns) if isinstance(columns, str) else columns
    path = _file_of(Path(path))
    damage = Damage(path, strict=strict)
    name = path.name.removesuffix(".gz")
    if name.endswith((".swf", ".json", ".events")):
        if columns is not None:
            raise UsageError(f"columns say what columns of a table mean, {path.name} is none")
        if name.endswith(".events"):
            from allocopt.traces.tables import read_events

            return read_events(path, damage)
        if name.endswith(".swf"):
            from allocopt.traces.text import Swf

            return Swf(dependencies=dependencies).read(path, damage)
        return format_of(path).read(path, damage)
    first, second = "|", ""
    if columns is None and not name.endswith(_TABLES):
        first, second = [*read_text(path).split("\n", 2), "", ""][:2]
    is_ruled = "-" in second and not set(second) - set(" -\r")
    if "|" in first or is_ruled:
        # Most workloads are no tables, and are read without what it takes to guess at columns.
        from allocopt.traces.tables import read_csv_workload

        return read_csv_workload(path, damage, columns)
    try:
        from allocopt.traces.text import Nsa

        return Nsa().read(path, damage)
    except BadFileError as error:
        raise BadFileError(f"{error}; {_TAKEN_FOR_NSA}") from None


def _file_of(path: Path) -> Path:
    # A file beats a fetched trace of the same name.
    name = str(path)
    if path.exists() or path.name != name:
        return path
    fetched = cached_trace(name)
    if fetched is not None:
        return fetched
    if name in SOURCES:
        raise bad_file(path, f"no such file, nor has the trace been fetched: allocopt fetch-trace {name}")
    meant = {known.lower(): known for known in SOURCES}
    if path.suffix == "" and (close := get_close_matches(name.lower(), meant, n=1)):
        raise bad_file(path, f"no such file, nor a trace that can be fetched; did you mean {meant[close[0]]!r}?")
    return path
