"""``allocopt generate workload``: jobs of a workload model as a workload file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from allocopt.cli.options import LARGEST

if TYPE_CHECKING:
    import numpy as np

    from allocopt.traces.workload import Workload

Model = Literal["lublin", "nsa", "asax"]

_MOST = 10_000_000
"""Largest number of jobs, so that a typing error does not exhaust the memory."""
_NODES = (1, 40)
"""Range of the number of nodes of a job in the NSA paper."""
_LIMIT, _BETWEEN_S = 1.25, 120.0
"""Limit over the run time, and mean gap between submissions, with which the tables of the ASAX paper are reproduced."""

Out = Annotated[
    Path,
    typer.Argument(
        readable=False, metavar="OUT", help="File to write: .swf[.gz], .json[.gz] for Batsim, or .txt[.gz]."
    ),
]
WhichModel = Annotated[
    Model,
    typer.Option(
        "--model",
        help="lublin: of Lublin and Feitelson, fitted to logs of parallel machines, with a daily cycle; nsa: uniform, "
        "of the NSA paper; asax: the queue of that paper, 15 jobs of four workflows again and again.",
    ),
]
Jobs = Annotated[int, typer.Option(min=1, max=_MOST, help="Number of jobs.")]
Processors = Annotated[
    int,
    typer.Option(
        min=1,
        max=LARGEST,
        help="Processors of the machine, at least 10; of nsa its nodes, at least 40; of asax at least 64.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Fixes every random choice.")]


def command(
    out: Out, model: WhichModel = "lublin", jobs: Jobs = 10_000, processors: Processors = 1000, seed: Seed = 0
) -> None:
    """Draw jobs from a workload model: their sizes, run times and arrivals. Same seed, same file.

    Estimates are the run times, of asax 1.25 times as long; its executables are numbered 1 to 4.
    """
    from allocopt.cli.convert import write_and_say
    from allocopt.traces.writing import writer_of

    # A wrong ending is told before many jobs are drawn.
    writer = writer_of(out)
    write_and_say(writer, out, _drawn(model, jobs, processors, seed))


def _drawn(model: Model, jobs: int, processors: int, seed: int) -> "Workload":
    """Draw the workload."""
    from dataclasses import replace

    import numpy as np

    from allocopt.errors import UsageError
    from allocopt.traces.generators import lublin_workload, uniform_workload

    rng = np.random.default_rng(seed)
    if model == "asax":
        return _queue(jobs, processors, rng)
    if model == "lublin":
        return lublin_workload(jobs, processors, rng)
    if processors < _NODES[1]:
        raise UsageError(f"--processors is {processors}, must be at least {_NODES[1]}: jobs of nsa have up to as many")
    return replace(uniform_workload(jobs, rng, _NODES, name="nsa"), machine_processors=processors)


def _queue(jobs: int, processors: int, rng: "np.random.Generator") -> "Workload":
    """Draw the queue of the ASAX paper, as its tables are reproduced."""
    from dataclasses import replace

    from allocopt.errors import UsageError
    from allocopt.traces.applications import CLUSTER_SIZES, JOBS, asax_queue, queue_workload

    if processors < CLUSTER_SIZES[0]:
        raise UsageError(
            f"--processors is {processors}, must be at least {CLUSTER_SIZES[0]}: jobs of asax have as many"
        )
    queue = asax_queue(rng, -(-jobs // JOBS), _LIMIT, between_s=_BETWEEN_S)
    return replace(queue_workload(queue[:jobs], "asax"), machine_processors=processors)
