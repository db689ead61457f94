"""``allocopt what-if``: a site's own trace on its own topology under other allocators and schedulers."""

import json
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import LARGEST, Json
from allocopt.cli.screen import screen_width
from allocopt.cli.topology_options import TOPOLOGY_HELP, Labels, TableColumns, read_cluster, read_jobs

if TYPE_CHECKING:
    from allocopt.cluster.topology import Topology
    from allocopt.report.html.what_if_page import WhatIfPage
    from allocopt.report.what_if import WhatIfRow
    from allocopt.simulator.what_if import Outcome
    from allocopt.traces.workload import Workload

Trace = Annotated[
    Path,
    typer.Option(
        readable=False,
        help="Jobs: a .csv table or the output of sacct -P, .swf, a Batsim .json, or text; .gz is decompressed.",
    ),
]
TopologyFile = Annotated[Path, typer.Option("--topology", readable=False, help=TOPOLOGY_HELP)]
Allocators = Annotated[
    str, typer.Option(help="Topology solvers that place the jobs, with commas between; first: the first idle nodes.")
]
Schedulers = Annotated[
    str,
    typer.Option(
        help="Policies, with commas between: easy and conservative go by arrival, sjf+easy is another order with "
        "backfilling, window allocates every minute."
    ),
]
ProcessorsPerNode = Annotated[
    int, typer.Option(min=1, max=LARGEST, help="Processors of the trace per node, where it counts processors.")
]
MaxJobs = Annotated[int | None, typer.Option(min=1, max=LARGEST, help="Only the first jobs submitted.")]
KillAtLimit = Annotated[
    bool, typer.Option("--kill-at-limit/--no-kill-at-limit", help="End jobs when their estimate is over, or not.")
]
Load = Annotated[float, typer.Option(min=0.001, max=1000.0, help="Let jobs arrive so many times as densely.")]
HopSlowdown = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1000.0,
        help="Share by which a job takes longer where its nodes are on average twice as far apart as within a leaf; "
        "0: the allocator changes no times.",
    ),
]
TimeLimit = Annotated[
    float | None, typer.Option(min=0.0, help="Seconds that an allocator may spend on jobs that start together.")
]
Iterations = Annotated[int | None, typer.Option(min=1, max=LARGEST, help="Steps that it may spend on them.")]
Seed = Annotated[int, typer.Option(min=0, help="Fixes every random choice.")]
Report = Annotated[
    Path | None,
    typer.Option(
        readable=False,
        metavar="FILE.html",
        help="Write a page of the comparison, with figures; needs the extra plot (matplotlib, Jinja).",
    ),
]
JobsCsv = Annotated[
    Path | None,
    typer.Option(
        "--jobs-csv", readable=False, help="Folder; when every job ran is written to SCHEDULER,ALLOCATOR.csv."
    ),
]


def command(
    trace: Trace,
    topology: TopologyFile,
    allocators: Allocators = "first,best-fit,lns",
    schedulers: Schedulers = "easy",
    columns: TableColumns = None,
    labels: Labels = None,
    processors_per_node: ProcessorsPerNode = 1,
    max_jobs: MaxJobs = None,
    load: Load = 1.0,
    hop_slowdown: HopSlowdown = 0.0,
    kill_at_limit: KillAtLimit = True,
    time_limit: TimeLimit = None,
    iterations: Iterations = None,
    seed: Seed = 0,
    jobs_csv: JobsCsv = None,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Simulate a site's trace on its topology under every allocator and scheduler, and compare with the first.

    Jobs larger than the machine are dropped and counted. Every job gets whole nodes.
    """
    from allocopt.cli.outputs import check_files_differ
    from allocopt.cli.streams import prints_on_stderr
    from allocopt.report.what_if import WhatIfRow, what_if_tables
    from allocopt.simulator.rules import Rules
    from allocopt.simulator.what_if import Limits, WhatIf

    named = _names("--allocators", allocators), _names("--schedulers", schedulers)
    pairs = [] if jobs_csv is None else [_schedule_file(jobs_csv, *pair) for pair in product(*named)]
    check_files_differ(report, *pairs, read=[trace, topology])
    page = None if report is None else _page(report, trace, topology)
    site = read_cluster(topology, labels)
    cluster = site.tree
    workload = _prepared(read_jobs(trace, columns), cluster, processors_per_node, max_jobs, load)
    asked = WhatIf(
        workload, cluster, Rules(kill_at_limit=kill_at_limit), Limits(time_limit, iterations), hop_slowdown, seed
    )
    rows: list[WhatIfRow] = []
    outcomes = asked.outcomes(*named)
    while True:
        with prints_on_stderr():
            outcome = next(outcomes, None)
        if outcome is None:
            break
        rows.append(WhatIfRow.of(outcome, rows[0] if rows else None))
        _tell(rows[-1], len(rows), len(named[0]) * len(named[1]), as_json)
        if jobs_csv is not None:
            _write(jobs_csv, outcome)
        if page is not None:
            page.add(rows[-1], outcome.schedule, site.nodes)
    if not as_json:
        print(what_if_tables(rows, screen_width()))
    if page is not None:
        page.write()


def _names(option: str, text: str) -> list[str]:
    """Names with commas between; none twice."""
    from allocopt.errors import UsageError

    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise UsageError(f"{option} is {text!r}, must be different names with commas between")
    return names


def _prepared(
    workload: "Workload", topology: "Topology", per_node: int, max_jobs: int | None, load: float
) -> "Workload":
    """Bring a workload to the machine; say what was dropped and repaired."""
    from dataclasses import replace

    from allocopt.errors import BadFileError

    ready = workload.in_nodes(per_node).fitting(topology.size)
    if max_jobs is not None:
        ready = ready.first(max_jobs)
    for remark in ready.remarks(topology.size):
        print(f"allocopt: {remark}", file=sys.stderr)
    if not len(ready):
        raise BadFileError(f"{workload.name}: none of its {len(workload)} jobs fits {topology.size} nodes")
    return replace(ready, submit=ready.submit / load)


def _page(path: Path, trace: Path, topology: Path) -> "WhatIfPage":
    """Make an empty page; what it needs is there."""
    from allocopt.report.html.page import check_installed
    from allocopt.report.html.what_if_page import WhatIfPage

    check_installed()
    return WhatIfPage(path, f"{trace.name} on {topology.name}")


def _tell(row: "WhatIfRow", number: int, of: int, as_json: bool) -> None:
    """Print the row as an object, and the progress."""
    progress = f"{number} of {of}: {row.allocator} under {row.scheduler}, {row.runtime_s:.1f} s"
    print(f"allocopt: {progress}", file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps(row.as_dict(), allow_nan=False), flush=True)


def _write(folder: Path, outcome: "Outcome") -> None:
    """Write when every job ran."""
    from allocopt.report.schedule_csv import write_schedule_csv

    write_schedule_csv(_schedule_file(folder, outcome.allocator, outcome.scheduler), outcome.schedule)


def _schedule_file(folder: Path, allocator: str, scheduler: str) -> Path:
    """Name the file of a combination."""
    return folder / f"{scheduler},{allocator}.csv"
