"""Options about topologies and tables of jobs that several commands share."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from allocopt.cluster.named import NamedTree
    from allocopt.traces.csv_columns import Columns
    from allocopt.traces.workload import Workload

TOPOLOGY_HELP = (
    "topology.conf or topology.yaml of Slurm (FILE#NAME chooses one of several), kubectl get nodes -o json as .json, "
    "or .graphml."
)

TableColumns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="ROLE=COLUMN,...",
        help="For a table of jobs (.csv, sacct -P), which columns mean what where their names do not say: job, submit, "
        "run (or start, end), estimate, nodes or processors, user, state; with a unit, run=elapsed:min; or a .toml "
        "file.",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        help="For Kubernetes: keys of the labels that name the levels, from the top downwards, with commas between; if "
        "not given, those that are known."
    ),
]


def read_cluster(path: Path, labels: str | None = None) -> "NamedTree":
    """Read a topology; say on standard error what was counted and what is odd about it."""
    from allocopt.cluster.reading import read_topology

    cluster = read_topology(path, [label.strip() for label in labels.split(",")] if labels else ())
    for remark in (cluster.summary(), *cluster.remarks):
        print(f"allocopt: {path}: {remark}", file=sys.stderr)
    return cluster


def read_jobs(path: Path, columns: str | None) -> "Workload":
    """Read a workload of any format."""
    from allocopt.traces.reading import read_workload

    return read_workload(path, table_columns(columns))


def table_columns(text: str | None) -> "Columns | None":
    """Return what the columns of a table mean; None where nothing is said."""
    from allocopt.traces.csv_columns import Columns

    return None if text is None else Columns.parse(text)
