"""Sweep files: a grid as TOML, its shape, and the errors that name file, table and key."""

from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from allocopt.errors import AllocoptError, MissingPackageError, UsageError
from allocopt.experiments.specs import BackfillName, Seconds, SettingFields
from allocopt.files.faults import bad_file
from allocopt.files.models import FileModel, Node, Positive, Text, validated
from allocopt.files.reading import read_toml

DEFAULT_TIME_LIMIT_S = 10.0
"""Limit on each solve where a file gives neither a time limit nor iterations."""

_TABLES = ("instances", "solvers", "traces", "policies")

Texts = Annotated[list[Text], Field(min_length=1)]


class _LimitsModel(FileModel):
    """What a cell may spend; what is left out is that of the whole file."""

    seeds: Annotated[list[Node], Field(min_length=1)] | None = None
    time_limit: Seconds | None = None
    iterations: Positive | None = None

    def limits(self, whole: "_LimitsModel") -> tuple[list[int], float | None, int | None]:
        """Return seeds, seconds and iterations; what a table leaves out is that of the whole file."""
        seeds = self.seeds or whole.seeds or [0]
        seconds, iterations = self.time_limit, self.iterations
        # One limit of a table replaces both of the file, or a table could not do without a time limit.
        if seconds is None and iterations is None:
            seconds, iterations = whole.time_limit, whole.iterations
        return list(dict.fromkeys(seeds)), seconds, iterations


class InstancesModel(FileModel):
    """Instances to solve."""

    files: Annotated[Texts, Field(description="Instance files, patterns of names, or @tiny and the like.")]

    def paths(self, folder: Path) -> Iterator[Path]:
        """Yield the files, whose names are relative to a folder; raise `UsageError` for a pattern of none."""
        for name in self.files:
            # Characters that make a name a pattern
            if name.startswith("@") or not any(character in name for character in "*?["):
                yield Path(name) if name.startswith("@") else folder / name
                continue
            found = sorted(glob(name, root_dir=folder, recursive=True))
            if not found:
                raise UsageError(f"no file is like {name!r}")
            yield from (folder / one for one in found)


class SolverModel(_LimitsModel):
    """A solver, with its options, under some strategies."""

    name: Text
    strategies: Annotated[list[Text], Field(min_length=1)] | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    gap: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None


class TraceModel(SettingFields):
    """A trace, its machine and the rules of its simulation."""

    file: Text
    name: Annotated[Text | None, Field(description="What the column `trace` holds; that of the file if not given.")] = (
        None
    )


class PolicyModel(_LimitsModel):
    """A policy, with its options, under some kinds of backfilling, and who places the jobs."""

    name: Text
    backfill: Annotated[list[BackfillName], Field(min_length=1)] | None = None
    backfill_order: Text | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    allocator: Text | None = None
    strategy: Text | None = None


class SweepModel(_LimitsModel):
    """A sweep file."""

    gap: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    attempts: Annotated[Positive, Field(description="How often a cell is tried whose worker dies.")] = 3
    instances: list[InstancesModel] = Field(default_factory=list)
    solvers: list[SolverModel] = Field(default_factory=list)
    traces: list[TraceModel] = Field(default_factory=list)
    policies: list[PolicyModel] = Field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "SweepModel":
        """Read a sweep file.

        Raises
        ------
        BadFileError
            If it cannot be read or a value in it is wrong; it names table and key.
        """
        held = read_toml(path)
        # In TOML a single bracket makes a table of its own, which pydantic would refuse in words of lists.
        for name in _TABLES:
            if isinstance(held.get(name), dict):
                raise bad_file(path, f"[{name}]", f"must be written [[{name}]]: there may be several")
        described = validated(cls, held, path)
        _check_tables(described, path)
        return described


def _check_tables(described: SweepModel, path: Path) -> None:
    """Raise `BadFileError` unless there are inputs of one kind, and what is to be done with them."""
    for inputs, methods in (("instances", "solvers"), ("traces", "policies")):
        for one, other in ((inputs, methods), (methods, inputs)):
            if getattr(described, one) and not getattr(described, other):
                raise bad_file(path, f"[[{other}]]", f"is missing: [[{one}]] are swept with [[{other}]]")
    if described.instances and described.traces:
        raise bad_file(path, "[[traces]]", "cannot stand beside [[instances]]: their rows differ; make two files")
    if len({table.platform is None for table in described.traces}) > 1:
        raise bad_file(path, "[[traces]]", "with and without platform cannot stand together; make two files")
    if not described.instances and not described.traces:
        raise bad_file(path, "must hold [[instances]] and [[solvers]], or [[traces]] and [[policies]]")


@contextmanager
def placed(path: Path, place: str) -> Iterator[None]:
    """Name file and place in front of an error that what they say leads to.

    Raises
    ------
    MissingPackageError
        If a package is missing.
    BadFileError
        If anything else is wrong.
    """
    try:
        yield
    except MissingPackageError as error:
        raise MissingPackageError(f"{path}: {place}: {error}") from None
    except AllocoptError as error:
        raise bad_file(path, place, str(error)) from None
