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
    """Return an option that takes a path; reading it says what is wrong, in one line and with the right exit code."""
    return typer.Option(*names, readable=False, metavar=metavar, help=help)


def file_argument(help: str, metavar: str | None = None) -> Any:
    """Return an argument that takes a path; see `file_option`."""
    return typer.Argument(readable=False, metavar=metavar, help=help)


LARGEST = 1_000_000_000
"""Largest number, size or time that an option takes: beyond any that makes sense, and safe from overflow."""

Instances = Annotated[
    list[Path],
    file_argument(
        "Instance files (.json, .json.gz, .jsonl, .jsonl.gz), or included instances: @tiny are windows, "
        "@knapsacks knapsacks, @coallocations co-allocations, @placements placements, @relocations relocations.",
        metavar="INSTANCE",
    ),
]
TimeLimit = Annotated[float | None, typer.Option(help="Limit on each solve, in seconds of wall clock.")]
Iterations = Annotated[
    int | None, typer.Option(max=2**63 - 1, help="Limit on the solver's own steps; if not given, its default.")
]
Gap = Annotated[
    float,
    typer.Option(min=0.0, help="Stop once solution and proven bound are this close, as a fraction (0.01 is 1 %)."),
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
TOPOLOGY_HELP = "topology.conf or .yaml (FILE#NAME) of Slurm, kubectl get nodes -o json, or .graphml."

TableColumns = Annotated[
    str | None,
    typer.Option(
        metavar="ROLE=NAME,...",
        help="Columns by role, as job=id,run=took:min; or a .toml file.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a trace with a damaged row.")]
Labels = Annotated[
    str | None,
    typer.Option(metavar="KEY,...", help="Kubernetes labels of the levels, top down."),
]


IncludeUnavailable = Annotated[
    str | None,
    typer.Option(
        metavar="REASON,...",
        help="Offer nodes left out for REASON, or for all.",
    ),
]


def read_topology(path: Path, labels: str | None = None, include_unavailable: str | None = None) -> "NamedTree":
    """Read a topology; report on standard error what was counted and what is odd about it."""
    from allocopt.cluster import reading

    include = listed_words(include_unavailable)
    return _reported(path, reading.read_topology(path, listed_words(labels), include_unavailable=include))


def read_whole_nodes(path: Path, labels: str | None = None, include_unavailable: str | None = None) -> "Cluster":
    """Read a topology as a cluster of whole nodes, and report as `read_topology` does."""
    from allocopt.cluster import reading

    include = listed_words(include_unavailable)
    return _reported(path, reading.read_whole_nodes(path, listed_words(labels), include_unavailable=include))


def read_cluster(files: Path, labels: str | None = None, include_unavailable: str | None = None) -> "Cluster":
    """Read a cluster of the files of an option, and report as `read_topology` does."""
    from allocopt.cluster import reading

    include = listed_words(include_unavailable)
    return _reported(files, reading.read_cluster(listed(files), listed_words(labels), include_unavailable=include))


def _reported(path: Path, found: "Found") -> "Found":
    # To standard error, because standard output has the answers of the command.
    for remark in (found.summary(), *found.remarks):
        print(f"allocopt: {path}: {remark}", file=sys.stderr)
    return found


def listed(files: Path | None) -> list[Path]:
    """Return the files of ``FILE[,FILE...]``; a file that is there may have a comma in its name."""
    if files is None:
        return []
    return [files] if os.path.exists(files) else [Path(name) for name in str(files).split(",")]


def listed_words(text: str | None) -> tuple[str, ...]:
    """Return the words of ``WORD[,WORD...]``."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def check_files_differ(*paths: Path | None, read: Iterable[Path | None] = ()) -> None:
    """Raise `UsageError` where two of the files that a command reads and writes are the same."""
    from allocopt.errors import UsageError

    def places(paths: Iterable[Path | None]) -> list[str]:
        named = [path for path in paths if path is not None]
        if any("#" in path.name for path in named):
            # FILE#NAME chooses one of several topologies. What reads them takes 40 ms to load.
            from allocopt.cluster.reading import topology_file

            named = [topology_file(path)[0] if "#" in path.name else path for path in named]
        # A path that does not exist yet may still be named twice; links are followed, for they hide that.
        return [os.path.realpath(path) for path in named if os.path.isfile(path) or not os.path.exists(path)]

    files = [*places(paths), *set(places(read))]
    for path in files:
        if files.count(path) > 1:
            raise UsageError(f"{path} is named twice: what is read and what is written must be different files")
