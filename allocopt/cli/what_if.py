"""``allocopt what-if``: a site's own trace on its own topology under other allocators and schedulers."""

import json
import sys
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.grids import Workers
from allocopt.cli.options import LARGEST, TOPOLOGY_HELP, Json, Labels, TableColumns, read_cluster, read_jobs
from allocopt.cli.terminal import screen_width

if TYPE_CHECKING:
    from allocopt.cluster.topology import Topology
    from allocopt.experiments.cells import Cell, Row
    from allocopt.report.html.sections.what_if import WhatIfPage
    from allocopt.report.what_if import WhatIfRow
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
        help="Write a page of the comparison, with figures; needs the extra plot (vl-convert, Jinja).",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        readable=False, help="Write a row per combination to this .csv, .json or .jsonl, or what-if.csv in this folder."
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
    workers: Workers = None,
    out: Out = None,
    jobs_csv: JobsCsv = None,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Simulate a site's trace on its topology under every allocator and scheduler, and compare with the first.

    Jobs larger than the machine are dropped and counted. Every job gets whole nodes. With --out, a run that was cut off
    goes on where it was when it is called again.
    """
    from allocopt.cli.grids import check_none_failed, executor_of, open_store, run_grid
    from allocopt.cli.options import check_files_differ
    from allocopt.experiments.grids import schedule_of, what_if_grid, what_if_row
    from allocopt.experiments.tables import check_suffix, write_table
    from allocopt.report.assumptions import assumptions
    from allocopt.report.provenance import provenance
    from allocopt.report.schedule_files import write_schedule_csv
    from allocopt.report.what_if import what_if_tables
    from allocopt.simulator.rules import Rules
    from allocopt.simulator.what_if import Limits, WhatIf

    named = _names("--allocators", allocators), _names("--schedulers", schedulers)
    schedules = {} if jobs_csv is None else {pair: jobs_csv / f"{pair[1]},{pair[0]}.csv" for pair in product(*named)}
    if out is not None:
        out = out if out.suffix and not out.is_dir() else out / "what-if.csv"
        check_suffix(out, ".csv", ".json", ".jsonl")
    check_files_differ(report, out, *schedules.values(), read=[trace, topology])
    page = None if report is None else _page(report, trace, topology)
    site = read_cluster(topology, labels)
    workload = _prepared(read_jobs(trace, columns), site.tree, processors_per_node, max_jobs, load)
    rules, limits = Rules(kill_at_limit=kill_at_limit), Limits(time_limit, iterations)
    asked = WhatIf(workload, site.tree, rules, limits, hop_slowdown, seed)
    grid = what_if_grid(asked, *named, with_schedules=bool(schedules) or page is not None)
    rows: list[WhatIfRow] = []

    def take(cell: "Cell", held: "Row") -> None:
        row = what_if_row(held, rows[0] if rows else None)
        rows.append(row)
        name = f"{row.allocator} under {row.scheduler}"
        print(f"allocopt: {len(rows)} of {len(grid.cells)}: {name}, {row.runtime_s:.1f} s", file=sys.stderr, flush=True)
        if as_json:
            print(json.dumps(row.as_dict(), allow_nan=False), flush=True)
        if schedules:
            write_schedule_csv(schedules[row.allocator, row.scheduler], schedule_of(asked, held))
        if page is not None:
            page.add(row, schedule_of(asked, held), site.nodes)

    with closing(open_store(out, grid, {})) as store:
        run_grid(grid, store, lambda: executor_of(grid, workers), take, "simulations")
        check_none_failed(grid, store, "simulations")
        if out is not None:
            write_table(out, [row.as_dict() for row in rows])
        store.remove()
    if not as_json:
        print(what_if_tables(rows, screen_width()))
    if page is not None:
        spec = {
            "trace": trace.name, "topology": topology.name, "policy": ", ".join(named[1]),
            "allocator": ", ".join(named[0]), "kill_at_limit": kill_at_limit, "time_limit": time_limit,
            "iterations": iterations, "seed": seed, "skip_oversized": True,
        }  # fmt: skip
        spec |= {"max_jobs": max_jobs, "load": load, "hop_slowdown": hop_slowdown}
        given = {name: value for name, value in spec.items() if value is not None}
        page.write(assumptions(given, provenance().as_dict(), workload.remarks(site.tree.size)))


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
    from allocopt.report.html.sections.what_if import WhatIfPage
    from allocopt.report.plot import check_installed

    check_installed()
    return WhatIfPage(path, f"{trace.name} on {topology.name}")
