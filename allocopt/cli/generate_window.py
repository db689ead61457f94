"""``allocopt generate window``: what waits on a cluster at this moment as an instance file."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.topology_options import TOPOLOGY_HELP, Labels, read_cluster

if TYPE_CHECKING:
    from allocopt.errors import AllocoptError
    from allocopt.problems.topology import Job

Out = Annotated[Path, typer.Option(readable=False, help="A .json[.gz] or .jsonl[.gz] file, or a folder.")]
TopologyFile = Annotated[Path, typer.Option("--topology", readable=False, help=TOPOLOGY_HELP)]
Idle = Annotated[
    str | None,
    typer.Option(metavar="HOSTLIST", help='Idle nodes, as `sinfo -h -t idle -o "%N"` prints them; if not given, all.'),
]
Jobs = Annotated[list[str] | None, typer.Option("--job", metavar="ID=NODES", help="A waiting job; repeatable.")]
Queue = Annotated[
    Path | None,
    typer.Option(
        readable=False,
        help='File with id and nodes of a waiting job in a line, as `squeue -r -h -t PD -o "%i %D"` prints; of a range '
        "of nodes, 4-8, the least are taken.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option(help="Name of the instance; if not given, that of the queue's file, or else of the topology's."),
]
HopCost = Annotated[float, typer.Option(min=0.0, help="Cost of one hop, positive.")]


_JOB = re.compile(r"\s*(\S+)\s+(\d{1,18})(?:-(\d{1,18}))?\s*", re.ASCII)


def command(
    out: Out,
    topology: TopologyFile,
    idle: Idle = None,
    job: Jobs = None,
    queue: Queue = None,
    labels: Labels = None,
    name: Name = None,
    hop_cost: HopCost = 1000.0,
) -> None:
    """Put the jobs that wait and the nodes that are idle into an instance.

    Jobs are taken in their order while they fit what is left; the others are counted on standard error.
    """
    import numpy as np

    from allocopt.cli.writing import file_name, write_instances
    from allocopt.cluster.hostlist import expand_hostlist
    from allocopt.errors import InvalidProblemError, UsageError
    from allocopt.problems.topology import TopologyProblem

    found = [_job(text.replace("=", " "), f"--job {text}", UsageError) for text in job or []]
    found += [] if queue is None else list(_queued(queue))
    waiting, ranged = [job for job, _ in found], sum(is_range for _, is_range in found)
    if not waiting:
        raise UsageError("no job waits: --job ID=NODES names one, --queue a file of them")
    _check_ids(waiting, queue)
    cluster = read_cluster(topology, labels)
    try:
        numbers = range(len(cluster.nodes)) if idle is None else cluster.numbers(dict.fromkeys(expand_hostlist(idle)))
    except InvalidProblemError as error:
        raise UsageError(f"--idle: {topology}: {error.fault}") from None
    taken = list(_fitting(waiting, len(numbers)))
    if not taken:
        fault = f"none of the {len(waiting)} jobs fits the {len(numbers)} idle nodes" if numbers else "no node is idle"
        raise UsageError(fault)
    chosen = file_name(Path((queue or topology).name.removesuffix(".gz")).stem if name is None else name)
    problem = TopologyProblem(cluster.tree, np.array(numbers), tuple(taken), hop_cost, chosen)
    if ranged:
        typer.echo(f"{chosen}: jobs with a range of nodes, the least taken: {ranged}", err=True)
    typer.echo(f"{chosen}: jobs left waiting: {len(waiting) - len(taken)}", err=True)
    write_instances(out, [problem], 1, [topology, queue])


def _check_ids(jobs: "list[Job]", queue: Path | None) -> None:
    """Raise an error for a job that is given twice."""
    from allocopt.errors import BadFileError, UsageError

    seen: set[str] = set()
    for job in jobs:
        if job.id in seen:
            refusal, where = (UsageError, "--job") if queue is None else (BadFileError, str(queue))
            raise refusal(f"{where}: job {job.id!r} is given twice")
        seen.add(job.id)


def _queued(path: Path) -> "Iterator[tuple[Job, bool]]":
    """Yield the jobs of a file, each with whether it asks for a range of nodes."""
    from allocopt.errors import BadFileError
    from allocopt.files.reading import read_text

    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            yield _job(line, f"{path}: line {number}", BadFileError)


def _job(text: str, where: str, refusal: "type[AllocoptError]") -> "tuple[Job, bool]":
    """Read id and number of nodes of a job, and whether that is the least of a range."""
    from allocopt.cli.options import LARGEST
    from allocopt.files.faults import shown
    from allocopt.problems.topology import Job

    match = _JOB.fullmatch(text)
    least, most = (int(match[2]), int(match[3] or match[2])) if match else (0, 0)
    if match is None or not 1 <= least <= most <= LARGEST:
        raise refusal(f"{where}: is {shown(text)}, must be the id of a job and its number of nodes")
    return Job(match[1], least), least < most


def _fitting(jobs: "list[Job]", idle: int) -> "Iterator[Job]":
    """Yield the jobs that fit one after the other."""
    for job in jobs:
        if job.nodes <= idle:
            idle -= job.nodes
            yield job
