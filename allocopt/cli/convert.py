"""``allocopt convert``: convert a workload or a topology from one format into another."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import (
    LARGEST,
    TOPOLOGY_HELP,
    Labels,
    Strict,
    TableColumns,
    check_files_differ,
    file_argument,
    read_topology,
)

if TYPE_CHECKING:
    from allocopt.traces.records import TraceFormat
    from allocopt.traces.workload import Workload

_TOPOLOGIES = (".conf", ".graphml")
"""Suffixes of topology files."""


def command(
    source: Annotated[
        Path,
        file_argument(
            "Workload to read: .swf[.gz], a Batsim workload .json[.gz], a table .csv[.gz] or sacct -P, sacct --json, "
            "accounting of PBS, LSF, Grid Engine or HTCondor, or text with id, arrival in s, run time in s and nodes "
            f"in each line. If OUT is a topology, so is IN: {TOPOLOGY_HELP}",
            metavar="IN",
        ),
    ],
    out: Annotated[
        Path,
        file_argument(
            "File to write: .swf[.gz], .json[.gz] for Batsim, or .txt[.gz]; "
            "for topologies .conf (Slurm's topology.conf) or .graphml.",
            metavar="OUT",
        ),
    ],
    max_jobs: Annotated[
        int | None, typer.Option(min=1, max=LARGEST, help="Write only this many jobs, the earliest submitted.")
    ] = None,
    processors_per_node: Annotated[
        int, typer.Option(min=1, max=LARGEST, help="Turn this many processors into one node; jobs get whole nodes.")
    ] = 1,
    columns: TableColumns = None,
    strict: Strict = False,
    labels: Labels = None,
) -> None:
    """Convert a workload, or a topology, between formats.

    Jobs and values that are dropped, repaired or lost are counted on standard error.
    """
    from allocopt.cluster.reading import write_topology
    from allocopt.traces.reading import format_of, read_workload

    check_files_differ(source, out)
    if out.name.removesuffix(".gz").endswith(_TOPOLOGIES):
        cluster = read_topology(source, labels)
        write_topology(out, cluster)
        lost = (
            "; GraphML cannot express its blocks, so jobs may span them"
            if cluster.block_sizes and ".graphml" in out.name
            else ""
        )
        typer.echo(f"{out}: nodes written: {len(cluster.nodes)}{lost}", err=True)
        return
    # Refuse a wrong suffix before reading a long file.
    trace_format = format_of(out)
    workload = read_workload(source, columns, strict=strict).in_nodes(processors_per_node)
    if max_jobs is not None:
        workload = workload.first(max_jobs)
    write_jobs(trace_format, out, workload)


def write_jobs(trace_format: "TraceFormat", out: Path, workload: "Workload") -> None:
    """Write a workload; report the number of jobs, and what was dropped, repaired or lost, on standard error."""
    trace_format.write(out, workload)
    for remark in (*workload.remarks(), *(f"{out}: {loss}" for loss in trace_format.losses(workload))):
        typer.echo(remark, err=True)
    typer.echo(f"{out}: jobs written: {len(workload)}", err=True)
