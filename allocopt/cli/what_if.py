"""``allocopt what-if``: simulate a site's trace on its own machine under other allocators and schedulers."""

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
    By,
    IncludeUnavailable,
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
from allocopt.cli.terminal import print_remarks, screen_width, wrapped

if TYPE_CHECKING:
    from allocopt.experiments.cells import Cell, Row
    from allocopt.experiments.simulations import Site
    from allocopt.report.html.sections.what_if import WhatIfPage
    from allocopt.report.what_if_rows import WhatIfRows
    from allocopt.simulator.what_if import WhatIf


@dataclass(frozen=True, slots=True)
class _SiteOptions:
    trace_argument: Annotated[
        Path | None, file_argument("Jobs: table .csv or sacct -P, .swf, .events, Batsim's .json.", metavar="TRACE")
    ] = None
    # Hidden; kept for scripts that use it.
    trace_option: Annotated[Path | None, typer.Option("--trace", readable=False, hidden=True)] = None
    topology: Annotated[Path | None, file_option(f"Read {TOPOLOGY_HELP}", metavar="FILE")] = None
    cluster: Annotated[Path | None, file_option(f"Read {CLUSTER_HELP}", metavar="FILE,...")] = None
    columns: TableColumns = None
    strict: Strict = False
    labels: Labels = None
    include_unavailable: IncludeUnavailable = None
    processors_per_node: Annotated[
        int, typer.Option(min=1, max=LARGEST, metavar="N", help="Set the trace's processors per node.")
    ] = 1
    max_jobs: Annotated[
        int | None, typer.Option(min=1, max=LARGEST, metavar="N", help="Use only the first N jobs.")
    ] = None
    load: Annotated[
        float, typer.Option(min=0.001, max=1000.0, metavar="X", help="Multiply the arrival rate of the trace.")
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
        """Read the machine, and the jobs that it can serve."""
        from allocopt.errors import UsageError
        from allocopt.experiments.simulations import Site
        from allocopt.experiments.specs import SimulationSpec

        if (self.topology is None) == (self.cluster is None):
            raise UsageError("give either --topology (whole nodes) or --cluster (nodes that jobs may share)")
        files = [str(file) for file in self.files]
        machine: dict[str, Any] = {"topology": files[0]} if self.topology else {"cluster": files}
        how = {name: getattr(self, name) for name in ("columns", "strict", "processors_per_node", "max_jobs")}
        how["labels"] = list(listed_words(self.labels)) or None
        how["include_unavailable"] = list(listed_words(self.include_unavailable)) or None
        return Site.of(SimulationSpec(trace=str(self.trace), skip_oversized=True, **machine, **how))


@dataclass(frozen=True, slots=True)
class _ComparedOptions:
    allocators: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Baseline first. Default: first,best-fit,lns; with --cluster lowest-switch,first,best-fit.",
            autocompletion=names_of("solvers"),
        ),
    ] = None
    schedulers: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Compare policies: easy,sjf+easy,window,...",
            autocompletion=names_of("policies"),
        ),
    ] = "easy"
    hop_slowdown: Annotated[
        float,
        typer.Option(min=0.0, max=1000.0, metavar="X", help="Slow jobs by X if hops double; 0.1 is 10 %."),
    ] = 0.0
    kill_at_limit: Annotated[
        bool, typer.Option("--kill-at-limit/--no-kill-at-limit", help="Kill jobs at their estimate.")
    ] = True
    time_limit: Annotated[float | None, typer.Option(min=0.0, metavar="S", help="Limit each start's solve, s.")] = None
    iterations: Annotated[int | None, typer.Option(min=1, max=LARGEST, metavar="N", help="Limit steps per start.")] = (
        None
    )
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Set the random seed.")] = 0
    variants: Annotated[int, typer.Option(min=0, metavar="N", help="Average over N variants.")] = 0


def _what_if(
    site: _SiteOptions,
    compared: _ComparedOptions,
    workers: Workers = None,
    out: Annotated[Path | None, file_option("Write rows to .csv, .json, .jsonl or folder.", metavar="FILE")] = None,
    jobs_csv: Annotated[
        Path | None,
        file_option("Write a row per job: SCHEDULER,ALLOCATOR.csv and as-recorded.csv.", metavar="FOLDER"),
    ] = None,
    report: Annotated[
        Path | None, file_option("Write an HTML page; needs allocopt[plot].", metavar="FILE.html")
    ] = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Compare allocators and schedulers on a site's own trace and machine.

    Jobs that the machine can never serve are dropped and counted by reason.
    With --out, an interrupted run continues when it is started again.
    """
    from allocopt.cli.grids import finished_rows
    from allocopt.cli.options import check_files_differ
    from allocopt.cluster.cluster import Cluster
    from allocopt.experiments.grids import what_if_grid
    from allocopt.report.rows import check_suffix
    from allocopt.report.what_if_rows import WhatIfRows

    if out is not None:
        out = out if out.suffix and not out.is_dir() else out / "what-if.csv"
        check_suffix(out, ".csv", ".json", ".jsonl")
    # Report a missing package before simulations that may take hours.
    page = None if report is None else _page(report, site)
    found = site.read()
    # The baseline comes first. If jobs share nodes, it is a model of Slurm 22.05.
    default = "lowest-switch,first,best-fit" if isinstance(found.machine, Cluster) else "first,best-fit,lns"
    named = _names("--allocators", compared.allocators or default), _names("--schedulers", compared.schedulers)
    schedules = {} if jobs_csv is None else {pair: jobs_csv / f"{pair[1]},{pair[0]}.csv" for pair in product(*named)}
    groups_out = None if out is None else out.with_name(f"{out.stem}.groups{out.suffix}")
    check_files_differ(report, out, groups_out, *schedules.values(), read=[site.trace, *site.files])
    grouped = _groupings(by, found)
    asked, granted, remarks = _posed(site, found, compared)
    asked = replace(asked, described=found.described, by=grouped)
    grid = what_if_grid(asked, *named, with_schedules=bool(schedules) or page is not None)
    answer = _Answer(
        asked=asked,
        rows=WhatIfRows(granted=granted),
        node_names=found.node_names,
        simulations=len(grid.cells),
        jobs_csv=jobs_csv,
        schedules=schedules,
        page=page,
        prints_rows=as_json,
        prints_groups=by is not None,
    )
    try:
        with finished_rows(out, grid, {}, workers, answer.take, "simulations"):
            if out is not None and groups_out is not None:
                answer.write(out, groups_out)
    finally:
        # An interrupted run prints what is finished.
        if answer.rows.combinations and not as_json:
            print(answer.tables(screen_width()))
    if page is not None:
        page.write(_assumed(site, compared, named, remarks))


@dataclass(kw_only=True, slots=True)
class _Answer:
    """Rows of combinations and of groups of jobs so far, and where they are printed and written."""

    asked: "WhatIf"
    rows: "WhatIfRows"
    node_names: tuple[str, ...]
    simulations: int  # total number, finished or not
    jobs_csv: Path | None
    schedules: dict[tuple[str, str], Path]  # files by allocator and scheduler
    page: "WhatIfPage | None"
    prints_rows: bool
    prints_groups: bool

    def take(self, cell: "Cell", held: "Row") -> None:
        """Add a finished combination, and print and write what the options ask for."""
        from allocopt.experiments.grids import schedule_of
        from allocopt.report.schedule_files import write_schedule_csv

        row, own = self.rows.add(held)
        done = f"{len(self.rows.combinations)} of {self.simulations}: {row.name}, {row.runtime_s:.1f} s"
        print(f"allocopt: {done}", file=sys.stderr, flush=True)
        if self.prints_rows:
            # Programs that read rows of combinations get rows of groups only with --by.
            for each in (row, *(own if self.prints_groups else ())):
                print(json.dumps(asdict(each), allow_nan=False), flush=True)
        if self.jobs_csv is not None:
            path = self.schedules.get((row.allocator, row.scheduler), self.jobs_csv / "as-recorded.csv")
            write_schedule_csv(path, schedule_of(self.asked, held), self.asked.described)
        if self.page is not None:
            self.page.add(row, schedule_of(self.asked, held), self.node_names, own)

    def write(self, out: Path, groups_out: Path) -> None:
        """Write the table of combinations, and that of groups if there are any."""
        from allocopt.report.rows import write_table

        write_table(out, self.rows.combinations.records())
        if self.rows.groups:
            write_table(groups_out, self.rows.groups.records())

    def tables(self, width: int | None) -> str:
        """Return tables and verdicts for a terminal."""
        from allocopt.report.what_if import verdict, what_if_tables
        from allocopt.report.what_if_groups import group_tables

        combinations, groups = self.rows.combinations.rows, self.rows.groups.rows
        # The verdict is last, so that it is on the screen when the command ends.
        said = wrapped(verdict(combinations, groups))
        parts = [what_if_tables(combinations, width), group_tables(groups, width), said]
        return "\n\n".join(filter(None, parts))


def _page(report: Path, site: _SiteOptions) -> "WhatIfPage":
    from allocopt.report.html.sections.what_if import WhatIfPage
    from allocopt.report.plot import check_installed

    check_installed()
    return WhatIfPage(report, f"{site.trace.name} on {','.join(file.name for file in site.files)}")


def _assumed(
    site: _SiteOptions, compared: _ComparedOptions, named: tuple[list[str], list[str]], remarks: list[str]
) -> list[str]:
    """Return what was assumed, as sentences for the page."""
    from allocopt.report.assumptions import assumptions
    from allocopt.report.provenance import provenance

    spec: dict[str, Any] = {"trace": site.trace.name, "skip_oversized": True}
    spec |= {"policy": ", ".join(named[1]), "allocator": ", ".join(named[0])}
    files = [file.name for file in site.files]
    spec |= {"topology": files[0]} if site.topology else {"cluster": files}
    spec |= {name: getattr(compared, name) for name in ("kill_at_limit", "time_limit", "iterations", "seed")}
    spec |= {"max_jobs": site.max_jobs, "load": site.load, "hop_slowdown": compared.hop_slowdown}
    given = {name: value for name, value in spec.items() if value is not None}
    return assumptions(given, provenance(), remarks)


command = command_of(_what_if)


def _groupings(by: list[str] | None, found: "Site") -> tuple[str, ...]:
    """Return the groupings of --by; by default partitions, if there are between two and `MOST_SHOWN`."""
    from allocopt.report.what_if_groups import MOST_SHOWN
    from allocopt.simulator.groups import GROUPINGS, groupings_named

    if by is not None:
        return tuple(one.name for one in groupings_named(by))
    used = set(found.described.labels(GROUPINGS["partition"]).values())
    return ("partition",) if found.has_partitions and 1 < len(used) <= MOST_SHOWN else ()


def _posed(site: _SiteOptions, found: "Site", compared: _ComparedOptions) -> "tuple[WhatIf, float, list[str]]":
    """Print remarks; return the question, the ratio of granted to requested node time, and the remarks."""
    import numpy as np

    from allocopt.cluster.cluster import THOUSANDTHS, Cluster
    from allocopt.errors import BadFileError
    from allocopt.simulator.recorded import Record
    from allocopt.simulator.rules import Rules
    from allocopt.simulator.what_if import WhatIf
    from allocopt.solving.budget import Budget

    jobs, machine, per_node, remarks = found.jobs, found.machine, site.processors_per_node, list(found.remarks)
    assert found.tree is not None
    # The first remarks count dropped jobs by reason; print one line for all of them instead.
    others = remarks[len(jobs.dropped) :]
    print_remarks((*found.machine_remarks, *filter(None, [jobs.dropped_in_words()]), *others))
    if not len(jobs):
        raise BadFileError(
            f"{found.trace.name}: none of the {len(found.trace)} jobs can run on the {machine.size} nodes"
        )
    taken = found.trace.subset(np.flatnonzero(np.isin(found.trace.ids, jobs.ids)))
    granted = per_node * float(jobs.processors @ jobs.run) / float(taken.processors @ taken.run)
    cores = np.full(machine.size, per_node)
    if isinstance(machine, Cluster) and per_node == 1:
        cores = machine.capacity[:, 0] // THOUSANDTHS
    # The record does not apply to jobs that arrive at another rate.
    record = Record.of(taken, found.tree, cores) if site.load == 1.0 else None
    # Only arrival times are divided, not run times, so the load is multiplied.
    if site.load != 1.0:
        jobs = replace(jobs, submit=jobs.submit / site.load, recorded_start=np.full(len(jobs), np.nan))
    rules = Rules(kill_at_limit=compared.kill_at_limit)
    limits = Budget(compared.time_limit, compared.iterations)
    where = machine if isinstance(machine, Cluster) else found.tree.tree
    asked = WhatIf(
        jobs,
        where,
        rules,
        limits,
        compared.hop_slowdown,
        compared.seed,
        record,
        variants=compared.variants,
    )
    return asked, granted, remarks


def _names(option: str, text: str) -> list[str]:
    from allocopt.errors import UsageError

    names = list(listed_words(text))
    if not names or len(set(names)) < len(names):
        raise UsageError(f"{option} is {text!r}, must be different names separated by commas")
    return names
