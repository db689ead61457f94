"""``allocopt what-if``: a site's own trace on its own topology under other allocators and schedulers."""

import json
import sys
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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
    file_option,
    listed,
    listed_words,
    read_cluster,
    read_topology,
)
from allocopt.cli.parameters import command_of, names_of
from allocopt.cli.terminal import screen_width

if TYPE_CHECKING:
    from allocopt.cluster.cluster import Cluster
    from allocopt.cluster.named import NamedTree
    from allocopt.cluster.topology import Topology
    from allocopt.experiments.cells import Cell, Row
    from allocopt.simulator.recorded import Record
    from allocopt.traces.workload import Workload


@dataclass(frozen=True, slots=True)
class _SiteOptions:
    """A site's trace, brought to its topology."""

    trace: Annotated[Path, file_option("Jobs: table .csv or sacct -P, .swf, .events, Batsim's .json.", metavar="FILE")]
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
    def files(self) -> list[Path]:
        """Files of the machine."""
        return [self.topology] if self.topology else listed(self.cluster)

    def machine(self) -> "tuple[Topology | Cluster, NamedTree]":
        """Read the machine, and what its nodes are called."""
        from allocopt.cluster.platform import Platform
        from allocopt.errors import UsageError
        from allocopt.simulator.shared.simulation import machine_of

        if (self.topology is None) == (self.cluster is None):
            raise UsageError("give --topology, for whole nodes, or --cluster, for nodes that jobs may share")
        if self.cluster is not None:
            cluster = read_cluster(self.cluster, self.labels)
            return cluster, cluster.topology
        assert self.topology is not None
        tree = read_topology(self.topology, self.labels)
        machine = machine_of(tree)
        return tree.tree if isinstance(machine, Platform) else machine, tree

    def jobs(self, machine: "Topology | Cluster", tree: "NamedTree") -> "_Jobs":
        """Read the jobs that the machine takes; say what was dropped and repaired."""
        import numpy as np

        from allocopt.cluster.cluster import THOUSANDTHS, Cluster
        from allocopt.errors import BadFileError
        from allocopt.simulator.recorded import Record
        from allocopt.simulator.shared.simulation import admitted
        from allocopt.traces.reading import read_workload
        from allocopt.traces.workload import NO_JOB

        read, per_node = read_workload(self.trace, self.columns, strict=self.strict), self.processors_per_node
        ready, told, size = read.in_nodes(per_node), list[str](), machine.size
        shares = isinstance(machine, Cluster) and per_node == 1
        if isinstance(machine, Cluster):
            size = machine.processors if shares else size
            ready = admitted(ready, machine, in_nodes=not shares, skip_oversized=True)
            if follow := int((ready.preceding != NO_JOB).sum()):
                told.append(f"{read.name}: jobs that do not wait for a preceding job here: {follow}")
        else:
            ready = ready.fitting(size)
        ready = ready if self.max_jobs is None else ready.first(self.max_jobs)
        told += ready.remarks(size)
        for remark in told:
            print(f"allocopt: {remark}", file=sys.stderr)
        if not len(ready):
            raise BadFileError(f"{read.name}: none of its {len(read)} jobs fits {tree.tree.size} nodes")
        asked = read.subset(np.flatnonzero(np.isin(read.ids, ready.ids)))
        granted = per_node * float(ready.processors @ ready.run) / float(asked.processors @ asked.run)
        cores = np.full(machine.size, per_node)
        if shares and isinstance(machine, Cluster):
            cores = machine.capacity[:, 0] // THOUSANDTHS
        # Nothing is recorded of jobs that come more densely.
        record = Record.of(asked, tree, cores) if self.load == 1.0 else None
        # Run times stay as they are: dividing the times of arrival alone makes the jobs come more densely.
        return _Jobs(replace(ready, submit=ready.submit / self.load), record, granted, told)


class _Jobs(NamedTuple):
    """Jobs of a site, what it did with them, how much more whole nodes are than what they asked for, and remarks."""

    workload: "Workload"
    record: "Record | None"
    granted: float
    remarks: list[str]


@dataclass(frozen=True, slots=True)
class _ComparedOptions:
    """What is compared on the site, and under which rules."""

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
    time_limit: Annotated[
        float | None, typer.Option(min=0.0, metavar="S", help="Limit of an allocator per start, s.")
    ] = None
    iterations: Annotated[int | None, typer.Option(min=1, max=LARGEST, metavar="N", help="Its steps.")] = None
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Fixes every random choice.")] = 0


def _what_if(
    site: _SiteOptions,
    compared: _ComparedOptions,
    workers: Workers = None,
    out: Annotated[
        Path | None, file_option("Write the rows: .csv, .json, .jsonl, or a folder.", metavar="FILE")
    ] = None,
    jobs_csv: Annotated[
        Path | None, file_option("Write the times of all jobs: SCHEDULER,ALLOCATOR.csv.", metavar="FOLDER")
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
    from allocopt.simulator.rules import Rules
    from allocopt.simulator.what_if import WhatIf
    from allocopt.solving.budget import Budget

    machine, tree = site.machine()
    # The baseline stands first: what Slurm itself does where jobs share nodes.
    default = "lowest-switch,first,best-fit" if isinstance(machine, Cluster) else "first,best-fit,lns"
    named = _names("--allocators", compared.allocators or default), _names("--schedulers", compared.schedulers)
    schedules = {} if jobs_csv is None else {pair: jobs_csv / f"{pair[1]},{pair[0]}.csv" for pair in product(*named)}
    if out is not None:
        out = out if out.suffix and not out.is_dir() else out / "what-if.csv"
        check_suffix(out, ".csv", ".json", ".jsonl")
    check_files_differ(report, out, *schedules.values(), read=[site.trace, *site.files])
    # A missing package is told before simulations that may take hours.
    page = None
    if report is not None:
        from allocopt.report.html.sections.what_if import WhatIfPage
        from allocopt.report.plot import check_installed

        check_installed()
        page = WhatIfPage(report, f"{site.trace.name} on {','.join(file.name for file in site.files)}")
    workload, record, granted, remarks = site.jobs(machine, tree)
    rules = Rules(kill_at_limit=compared.kill_at_limit, dependencies=not isinstance(machine, Cluster))
    limits = Budget(compared.time_limit, compared.iterations)
    asked = WhatIf(workload, machine, rules, limits, compared.hop_slowdown, compared.seed, record)
    grid = what_if_grid(asked, *named, with_schedules=bool(schedules) or page is not None)
    rows: list[WhatIfRow] = []

    def take(cell: "Cell", held: "Row") -> None:
        row = replace(WhatIfRow.stored(held["row"]), granted=granted)
        rows.append(row := row.beside(baseline([*rows, row])))
        done = f"{len(rows)} of {len(grid.cells)}: {row.name}, {row.runtime_s:.1f} s"
        print(f"allocopt: {done}", file=sys.stderr, flush=True)
        if as_json:
            print(json.dumps(asdict(row), allow_nan=False), flush=True)
        if schedules:
            write_schedule_csv(schedules[row.allocator, row.scheduler], schedule_of(asked, held))
        if page is not None:
            page.add(row, schedule_of(asked, held), tree.nodes)

    try:
        with finished_rows(out, grid, {}, workers, take, "simulations"):
            if out is not None:
                write_table(out, [asdict(row) for row in rows])
    finally:
        # Cut off, it tells what is finished.
        if rows and not as_json:
            print(what_if_tables(rows, screen_width()))
    if page is not None:
        names = {"policy": ", ".join(named[1]), "allocator": ", ".join(named[0])}
        spec: dict[str, Any] = {"trace": site.trace.name, **names, "skip_oversized": True}
        files = [file.name for file in site.files]
        spec |= {"topology": files[0]} if site.topology else {"cluster": files}
        spec |= {name: getattr(compared, name) for name in ("kill_at_limit", "time_limit", "iterations", "seed")}
        spec |= {"max_jobs": site.max_jobs, "load": site.load, "hop_slowdown": compared.hop_slowdown}
        given = {name: value for name, value in spec.items() if value is not None}
        page.write(assumptions(given, provenance(), remarks))


command = command_of(_what_if)


def _names(option: str, text: str) -> list[str]:
    """Names with commas between; none twice."""
    from allocopt.errors import UsageError

    names = list(listed_words(text))
    if not names or len(set(names)) < len(names):
        raise UsageError(f"{option} is {text!r}, must be different names with commas between")
    return names
