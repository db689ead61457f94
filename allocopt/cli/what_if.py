"""``allocopt what-if``: a site's own trace on its own topology under other allocators and schedulers."""

import json
import sys
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allocopt.cli.grids import Workers
from allocopt.cli.options import (
    CLUSTER_HELP,
    LARGEST,
    TOPOLOGY_HELP,
    Json,
    Labels,
    Strict,
    TableColumns,
    file_argument,
    file_option,
    listed,
    listed_words,
)
from allocopt.cli.parameters import command_of, names_of
from allocopt.cli.terminal import screen_width

if TYPE_CHECKING:
    from allocopt.experiments.cells import Cell, Row
    from allocopt.experiments.simulations import Site
    from allocopt.simulator.what_if import WhatIf


@dataclass(frozen=True, slots=True)
class _SiteOptions:
    trace_argument: Annotated[
        Path | None, file_argument("Jobs: table .csv or sacct -P, .swf, .events, Batsim's .json.", metavar="TRACE")
    ] = None
    # The name that scripts have of it.
    trace_option: Annotated[Path | None, typer.Option("--trace", readable=False, hidden=True)] = None
    topology: Annotated[Path | None, file_option(TOPOLOGY_HELP, metavar="FILE")] = None
    cluster: Annotated[Path | None, file_option(CLUSTER_HELP, metavar="FILE,...")] = None
    columns: TableColumns = None
    strict: Strict = False
    labels: Labels = None
    processors_per_node: Annotated[
        int, typer.Option(min=1, max=LARGEST, metavar="N", help="Of the trace; jobs get nodes.")
    ] = 1
    max_jobs: Annotated[
        int | None, typer.Option(min=1, max=LARGEST, metavar="N", help="Only the first jobs submitted.")
    ] = None
    load: Annotated[
        float, typer.Option(min=0.001, max=1000.0, metavar="X", help="Arrival rate, times the trace's.")
    ] = 1.0

    @property
    def trace(self) -> Path:
        """File of jobs."""
        from allocopt.errors import UsageError

        trace = self.trace_argument or self.trace_option
        if trace is None or (self.trace_argument and self.trace_option):
            raise UsageError("name one file of jobs: allocopt what-if TRACE")
        return trace

    @property
    def files(self) -> list[Path]:
        """Files of the machine."""
        return [self.topology] if self.topology else listed(self.cluster)

    def read(self) -> "Site":
        """Read the machine and the jobs that it takes."""
        from allocopt.errors import UsageError
        from allocopt.experiments.simulations import Site
        from allocopt.experiments.specs import SimulationSpec

        if (self.topology is None) == (self.cluster is None):
            raise UsageError("give --topology, for whole nodes, or --cluster, for nodes that jobs may share")
        files = [str(file) for file in self.files]
        machine: dict[str, Any] = {"topology": files[0]} if self.topology else {"cluster": files}
        how = {name: getattr(self, name) for name in ("columns", "strict", "processors_per_node", "max_jobs")}
        labels = list(listed_words(self.labels)) or None
        return Site.of(SimulationSpec(trace=str(self.trace), labels=labels, skip_oversized=True, **machine, **how))


@dataclass(frozen=True, slots=True)
class _ComparedOptions:
    allocators: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Baseline first. Default: first,best-fit,lns; on a cluster lowest-switch,first,best-fit.",
            autocompletion=names_of("solvers"),
        ),
    ] = None
    schedulers: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Policies, with commas, as easy, sjf+easy, window.",
            autocompletion=names_of("policies"),
        ),
    ] = "easy"
    hop_slowdown: Annotated[
        float,
        typer.Option(min=0.0, max=1000.0, metavar="X", help="Share by which nodes twice as far apart slow a job."),
    ] = 0.0
    kill_at_limit: Annotated[
        bool, typer.Option("--kill-at-limit/--no-kill-at-limit", help="End jobs at their estimate, or not.")
    ] = True
    time_limit: Annotated[float | None, typer.Option(min=0.0, metavar="S", help="Limit per start, s.")] = None
    iterations: Annotated[int | None, typer.Option(min=1, max=LARGEST, metavar="N", help="Its steps.")] = None
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Fixes every random choice.")] = 0


def _what_if(
    site: _SiteOptions,
    compared: _ComparedOptions,
    workers: Workers = None,
    out: Annotated[Path | None, file_option("Write rows: .csv, .json, .jsonl, or a folder.", metavar="FILE")] = None,
    jobs_csv: Annotated[
        Path | None,
        file_option("Write the times of all jobs: SCHEDULER,ALLOCATOR.csv and as-recorded.csv.", metavar="FOLDER"),
    ] = None,
    report: Annotated[Path | None, file_option("Write a page; needs the extra plot.", metavar="FILE.html")] = None,
    as_json: Json = False,
) -> None:
    """Compare allocators and schedulers on a site's own trace and machine.

    On a topology jobs get whole nodes; those too large are dropped and counted.
    With --out, a run that was cut off goes on when it is called again.
    """
    from allocopt.cli.grids import finished_rows
    from allocopt.cli.options import check_files_differ
    from allocopt.cluster.cluster import Cluster
    from allocopt.experiments.grids import schedule_of, what_if_grid
    from allocopt.report.assumptions import assumptions
    from allocopt.report.provenance import provenance
    from allocopt.report.rows import check_suffix, write_table
    from allocopt.report.schedule_files import write_schedule_csv
    from allocopt.report.what_if import WhatIfRow, baseline, what_if_tables

    if out is not None:
        out = out if out.suffix and not out.is_dir() else out / "what-if.csv"
        check_suffix(out, ".csv", ".json", ".jsonl")
    # A missing package is told before simulations that may take hours.
    page = None
    if report is not None:
        from allocopt.report.html.sections.what_if import WhatIfPage
        from allocopt.report.plot import check_installed

        check_installed()
        page = WhatIfPage(report, f"{site.trace.name} on {','.join(file.name for file in site.files)}")
    found = site.read()
    # The baseline comes first. Where jobs share nodes, it is a model of what Slurm 22.05 does.
    default = "lowest-switch,first,best-fit" if isinstance(found.machine, Cluster) else "first,best-fit,lns"
    named = _names("--allocators", compared.allocators or default), _names("--schedulers", compared.schedulers)
    schedules = {} if jobs_csv is None else {pair: jobs_csv / f"{pair[1]},{pair[0]}.csv" for pair in product(*named)}
    check_files_differ(report, out, *schedules.values(), read=[site.trace, *site.files])
    asked, granted, remarks = _posed(site, found, compared)
    grid = what_if_grid(asked, *named, with_schedules=bool(schedules) or page is not None)
    rows: list[WhatIfRow] = []

    def take(cell: "Cell", held: "Row") -> None:
        row = replace(WhatIfRow.stored(held["row"]), granted=granted)
        rows.append(row := row.beside(baseline([*rows, row])))
        done = f"{len(rows)} of {len(grid.cells)}: {row.name}, {row.runtime_s:.1f} s"
        print(f"allocopt: {done}", file=sys.stderr, flush=True)
        if as_json:
            print(json.dumps(asdict(row), allow_nan=False), flush=True)
        if jobs_csv is not None:
            path = schedules.get((row.allocator, row.scheduler), jobs_csv / "as-recorded.csv")
            write_schedule_csv(path, schedule_of(asked, held), found.described)
        if page is not None:
            page.add(row, schedule_of(asked, held), found.node_names)

    try:
        with finished_rows(out, grid, {}, workers, take, "simulations"):
            if out is not None:
                write_table(out, [asdict(row) for row in rows])
    finally:
        # Cut off, it tells what is finished.
        if rows and not as_json:
            print(what_if_tables(rows, screen_width()))
    if page is not None:
        spec: dict[str, Any] = {"trace": site.trace.name, "skip_oversized": True}
        spec |= {"policy": ", ".join(named[1]), "allocator": ", ".join(named[0])}
        files = [file.name for file in site.files]
        spec |= {"topology": files[0]} if site.topology else {"cluster": files}
        spec |= {name: getattr(compared, name) for name in ("kill_at_limit", "time_limit", "iterations", "seed")}
        spec |= {"max_jobs": site.max_jobs, "load": site.load, "hop_slowdown": compared.hop_slowdown}
        given = {name: value for name, value in spec.items() if value is not None}
        page.write(assumptions(given, provenance(), remarks))


command = command_of(_what_if)


def _posed(site: _SiteOptions, found: "Site", compared: _ComparedOptions) -> "tuple[WhatIf, float, list[str]]":
    """Return the question, how much more whole nodes are than what jobs asked for, and remarks, which it prints."""
    import numpy as np

    from allocopt.cluster.cluster import THOUSANDTHS, Cluster
    from allocopt.errors import BadFileError
    from allocopt.simulator.recorded import Record
    from allocopt.simulator.rules import Rules
    from allocopt.simulator.what_if import WhatIf
    from allocopt.solving.budget import Budget
    from allocopt.traces.workload import NO_JOB

    jobs, machine, per_node, remarks = found.jobs, found.machine, site.processors_per_node, list(found.remarks)
    assert found.tree is not None
    is_cluster = isinstance(machine, Cluster)
    ignored = []
    if is_cluster and (follow := int((jobs.preceding != NO_JOB).sum())):
        ignored.append(f"{found.trace.name}: jobs that do not wait for a preceding job here: {follow}")
    # In the header one line has all reasons for which jobs are dropped; their own lines come first among the remarks.
    others = remarks[len(jobs.dropped) :]
    remarks = [*ignored, *remarks]
    for remark in (*found.machine_remarks, *filter(None, [jobs.dropped_in_words()]), *ignored, *others):
        print(f"allocopt: {remark}", file=sys.stderr)
    if not len(jobs):
        raise BadFileError(f"{found.trace.name}: none of its {len(found.trace)} jobs can run on {machine.size} nodes")
    asked = found.trace.subset(np.flatnonzero(np.isin(found.trace.ids, jobs.ids)))
    granted = per_node * float(jobs.processors @ jobs.run) / float(asked.processors @ asked.run)
    cores = np.full(machine.size, per_node)
    if isinstance(machine, Cluster) and per_node == 1:
        cores = machine.capacity[:, 0] // THOUSANDTHS
    # Nothing is recorded of jobs that come more densely.
    record = Record.of(asked, found.tree, cores) if site.load == 1.0 else None
    # Run times stay as they are: dividing the times of arrival alone makes the jobs come more densely.
    if site.load != 1.0:
        jobs = replace(jobs, submit=jobs.submit / site.load, recorded_start=np.full(len(jobs), np.nan))
    rules = Rules(kill_at_limit=compared.kill_at_limit, dependencies=not is_cluster)
    limits = Budget(compared.time_limit, compared.iterations)
    where = machine if isinstance(machine, Cluster) else found.tree.tree
    return WhatIf(jobs, where, rules, limits, compared.hop_slowdown, compared.seed, record), granted, remarks


def _names(option: str, text: str) -> list[str]:
    from allocopt.errors import UsageError

    names = list(listed_words(text))
    if not names or len(set(names)) < len(names):
        raise UsageError(f"{option} is {text!r}, must be different names with commas between")
    return names
