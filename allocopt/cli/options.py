"""Arguments and options that several commands share, and how their values are read."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from allocopt.cli.parameters import names_of

if TYPE_CHECKING:
    from allocopt.cluster.cluster import Cluster
    from allocopt.cluster.named import NamedTree

    Found = TypeVar("Found", Cluster, NamedTree)


def file_option(help: str, *names: str, metavar: str | None = None) -> Any:
    """Return an option that takes a path; the reader of the file reports errors, with the right exit code."""
    return typer.Option(*names, readable=False, metavar=metavar, help=help)


def file_argument(help: str, metavar: str | None = None) -> Any:
    """Return an argument that takes a path; see `file_option`."""
    return typer.Argument(readable=False, metavar=metavar, help=help)


LARGEST = 1_000_000_000
"""Largest number, size or time that an option takes: larger than any sensible value, and safe from overflow."""

Instances = Annotated[
    list[Path],
    file_argument(
        "Instance files (.json, .json.gz, .jsonl, .jsonl.gz), or included instances: @tiny (windows), @knapsacks, "
        "@coallocations, @placements, @relocations.",
        metavar="INSTANCE",
    ),
]
TimeLimit = Annotated[float | None, typer.Option(help="Limit each solve to this many seconds of wall clock.")]
Iterations = Annotated[
    int | None, typer.Option(max=2**63 - 1, help="Limit the solver's own steps; if not given, its default.")
]
Gap = Annotated[
    float,
    typer.Option(min=0.0, help="Stop at this relative gap between solution and proven bound (0.01 is 1 %)."),
]
Trajectory = Annotated[
    Path | None, file_option("Write every incumbent and bound over time to this .csv file, which `report` draws.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line on stdout.")]

By = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME,...",
        help="Group by partition,gpus,user,account,size.",
        autocompletion=names_of("groupings"),
    ),
]

CLUSTER_HELP = "slurm.conf,gres.conf,topology.conf, or another description."
TOPOLOGY_HELP = "Slurm's topology.conf or .yaml (FILE#NAME), kubectl get nodes -o json, or .graphml."

TableColumns = Annotated[
    str | None,
    typer.Option(
        metavar="ROLE=NAME,...",
        help="Name columns by role (job=id,run=took:min), or give a .toml file.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a trace with a damaged row.")]
Labels = Annotated[
    str | None,
    typer.Option(metavar="KEY,...", help="Use Kubernetes labels as levels, top down."),
]


IncludeUnavailable = Annotated[
    str | None,
    typer.Option(
        metavar="REASON,...",
        help="Also use nodes left out for REASON (or all).",
    ),
]


def read_topology(path: Path, labels: str | None = None, include_unavailable: str | None = None) -> "NamedTree":
    """Read a topology; print its summary and remarks on standard error."""
    from allocopt.cluster import reading

    include = listed_words(include_unavailable)
    return _reported(path, reading.read_topology(path, listed_words(labels), include_unavailable=include))


def read_whole_nodes(path: Path, labels: str | None = None, include_unavailable: str | None = None) -> "Cluster":
    """Read a topology as a cluster of whole nodes; print summary and remarks as `read_topology` does."""
    from allocopt.cluster import reading

    include = listed_words(include_unavailable)
    return _reported(path, reading.read_whole_nodes(path, listed_words(labels), include_unavailable=include))


def read_cluster(files: Path, labels: str | None = None, include_unavailable: str | None = None) -> "Cluster":
    """Read a cluster from the files of an option; print summary and remarks as `read_topology` does."""
    from allocopt.cluster import reading

    include = listed_words(include_unavailable)
    return _reported(files, reading.read_cluster(listed(files), listed_words(labels), include_unavailable=include))


def _reported(path: Path, found: "Found") -> "Found":
    # Standard output is for the answers of the command.
    for remark in (found.summary(), *found.remarks):
        print(f"allocopt: {path}: {remark}", file=sys.stderr)
    return found


def listed(files: Path | None) -> list[Path]:
    """Return the files of ``FILE[,FILE...]``; if a file of the whole name exists, return that one."""
    if files is None:
        return []
    return [files] if os.path.exists(files) else [Path(name) for name in str(files).split(",")]


def listed_words(text: str | None) -> tuple[str, ...]:
    """Return the words of ``WORD[,WORD...]``."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def check_files_differ(*paths: Path | None, read: Iterable[Path | None] = ()) -> None:
    """Raise `UsageError` if a file that a command writes is given twice, or is also read."""
    from allocopt.errors import UsageError

    def places(paths: Iterable[Path | None]) -> list[str]:
        named = [path for path in paths if path is not None]
        if any("#" in path.name for path in named):
            # FILE#NAME chooses one of several topologies. Import their reader only here: that takes 40 ms.
            from allocopt.cluster.reading import topology_file

            named = [topology_file(path)[0] if "#" in path.name else path for path in named]
        # Paths that do not exist yet count, too. Links are resolved, since two names may be the same file.
        return [os.path.realpath(path) for path in named if os.path.isfile(path) or not os.path.exists(path)]

    files = [*places(paths), *set(places(read))]
    for path in files:
        if files.count(path) > 1:
            raise UsageError(f"{path} is given twice: files that are read and written must differ")
