"""``allocopt convert``: a workload from one format into another."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import LARGEST

if TYPE_CHECKING:
    from allocopt.traces.workload import Workload
    from allocopt.traces.writing import Writer

Source = Annotated[
    Path,
    typer.Argument(
        readable=False,
        metavar="IN",
        help="Workload to read: .swf[.gz], a Batsim workload .json[.gz], or else text with id, arrival s, run s and "
        "nodes in a line.",
    ),
]
Out = Annotated[
    Path,
    typer.Argument(
        readable=False, metavar="OUT", help="File to write: .swf[.gz], .json[.gz] for Batsim, or .txt[.gz]."
    ),
]
MaxJobs = Annotated[
    int | None, typer.Option(min=1, max=LARGEST, help="Write only this many jobs, the first submitted.")
]
ProcessorsPerNode = Annotated[
    int, typer.Option(min=1, max=LARGEST, help="Processors of the workload per node; jobs get whole nodes.")
]


def command(source: Source, out: Out, max_jobs: MaxJobs = None, processors_per_node: ProcessorsPerNode = 1) -> None:
    """Convert a workload between formats. What is dropped, repaired or lost is counted on standard error."""
    from allocopt.traces.reading import read_workload
    from allocopt.traces.writing import writer_of

    # A wrong ending is told before a long file is read.
    writer = writer_of(out)
    workload = read_workload(source).in_nodes(processors_per_node)
    if max_jobs is not None:
        workload = workload.first(max_jobs)
    write_and_say(writer, out, workload)


def write_and_say(writer: "Writer", out: Path, workload: "Workload") -> None:
    """Write a workload; count on standard error what was dropped, repaired and lost, and the jobs."""
    writer.write(out, workload)
    for remark in (*workload.remarks(), *(f"{out}: {loss}" for loss in writer.losses(workload))):
        typer.echo(remark, err=True)
    typer.echo(f"{out}: jobs written: {len(workload)}", err=True)
