"""``allocopt simulate``."""

import json
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from allocopt.cli.options import Json
from allocopt.cli.outputs import check_files_differ
from allocopt.cli.screen import screen_width
from allocopt.cli.simulate_multicore import CoreOptions, Outputs, platform_path, simulate_on_cores
from allocopt.cli.simulate_options import (
    AllocatorName,
    Backfilling,
    BackfillOrder,
    Compression,
    Dependencies,
    EnergyCsv,
    EventOrderName,
    ExactEstimates,
    ExecutionName,
    Explain,
    FatTreeShape,
    JobsCsv,
    KillAtLimit,
    MaxJobs,
    Options,
    PlacementFile,
    PlatformFile,
    PolicyName,
    Processors,
    ProcessorsPerNode,
    Profiles,
    ScheduleSwf,
    Seed,
    Sharing,
    SkipOversized,
    StarvationS,
    Strategy,
    TopologyFile,
    Trace,
    Trimmed,
    Types,
)
from allocopt.cli.topology_options import Labels, TableColumns, read_cluster, read_jobs

if TYPE_CHECKING:
    from allocopt.cluster.platform import Platform
    from allocopt.cluster.topology import Topology
    from allocopt.simulator.allocators import Allocator
    from allocopt.simulator.explain import Explanation
    from allocopt.simulator.metrics import Metrics
    from allocopt.simulator.quota.execution import QuotaExecution
    from allocopt.simulator.registry import AnyScheduler
    from allocopt.simulator.rules import Rules
    from allocopt.simulator.schedule import Schedule
    from allocopt.traces.workload import Workload


def command(
    trace: Trace,
    processors: Processors = None,
    policy: PolicyName = "fcfs",
    backfill: Backfilling = None,
    backfill_order: BackfillOrder = None,
    conservative_compression: Compression = True,
    option: Options = None,
    kill_at_limit: KillAtLimit = None,
    event_order: EventOrderName = "batched",
    dependencies: Dependencies = True,
    exact_estimates: ExactEstimates = False,
    skip_oversized: SkipOversized = False,
    max_jobs: MaxJobs = None,
    seed: Seed = 0,
    processors_per_node: ProcessorsPerNode = 1,
    fat_tree: FatTreeShape = None,
    topology: TopologyFile = None,
    labels: Labels = None,
    columns: TableColumns = None,
    allocator: AllocatorName = None,
    strategy: Strategy = None,
    platform_file: PlatformFile = None,
    types: Types = None,
    execution: ExecutionName = None,
    sharing: Sharing = None,
    placement: PlacementFile = None,
    profiles: Profiles = None,
    jobs_csv: JobsCsv = None,
    swf: ScheduleSwf = None,
    energy_csv: EnergyCsv = None,
    trim: Trimmed = 0.0,
    starvation: StarvationS = 86_400.0,
    explain: Explain = None,
    as_json: Json = False,
) -> None:
    """Simulate a trace on a machine under a scheduling policy, and measure the schedule."""
    from allocopt.kernels.ready import make_ready
    from allocopt.simulator.rules import EventOrder, Rules
    from allocopt.simulator.scheduler import Remembering, WithExecution
    from allocopt.simulator.simulate import entries_of, simulate

    check_files_differ(trace, platform_path(platform_file), topology, placement, profiles, jobs_csv, swf, energy_csv)
    cores = CoreOptions(platform_file, types, execution, sharing, placement, energy_csv)
    if cores.are_meant():
        machine = dict(processors=processors, fat_tree=fat_tree, topology=topology, labels=labels, columns=columns)
        nodes = dict(allocator=allocator, strategy=strategy, processors_per_node=processors_per_node > 1)
        order = dict(backfill=backfill, backfill_order=backfill_order, option=option, explain=explain)
        one_by_one = event_order != "batched"
        given = dict(event_order=one_by_one, exact_estimates=exact_estimates, skip_oversized=skip_oversized)
        others = {**machine, **nodes, **order, **given}
        outputs = Outputs(jobs_csv, swf, trim, starvation, as_json)
        return simulate_on_cores(trace, policy, bool(kill_at_limit), max_jobs, seed, cores, outputs, others)
    scheduler = _scheduler(policy, backfill, backfill_order, conservative_compression, option or [])
    _check_sharing(scheduler, policy, profiles, {"fat-tree": fat_tree, "topology": topology, "allocator": allocator})
    kills = not isinstance(scheduler, WithExecution) if kill_at_limit is None else kill_at_limit
    jobs, tree = read_jobs(trace, columns), _topology(topology, labels, fat_tree, processors)
    workload, platform = _read(jobs, processors, processors_per_node, tree, skip_oversized, max_jobs)
    if exact_estimates:
        workload = (workload.killed_at_limit() if kills else workload).with_exact_estimates()
    rules = Rules(EventOrder[event_order.upper()], kills, dependencies)
    model = None if profiles is None else _sharing(workload, profiles)
    places = _allocator(platform, scheduler, allocator, strategy, seed)
    explanation = _explanation(workload, explain, scheduler)
    # What is compiled the first time is no part of the simulation.
    make_ready(entries_of(scheduler, platform, model, explanation))
    started = time.perf_counter()
    schedule = simulate(
        workload, platform, scheduler, rules, seed, allocator=places, execution=model, observer=explanation
    )
    runtime_s = time.perf_counter() - started
    _write(schedule, jobs_csv, swf, rules, policy)
    if isinstance(scheduler, Remembering):
        scheduler.remember()
    _print(schedule, _measured(schedule, trim, starvation), runtime_s, as_json)
    _print_remarks(scheduler)
    _print_explanation(explanation, schedule, as_json)


def _scheduler(
    policy: str, backfill: str | None, backfill_order: str | None, compression: bool, options: list[str]
) -> "AnyScheduler":
    """Make the scheduler; backfilling is for queue orders."""
    from allocopt.cli.solver_options import parse_options
    from allocopt.simulator.registry import backfilled, get_policy
    from allocopt.simulator.simulate import as_scheduler

    found = get_policy(policy, parse_options(options))
    return as_scheduler(backfilled(policy, found, backfill, backfill_order, compression=compression))


def _check_sharing(scheduler: object, policy: str, profiles: Path | None, others: Mapping[str, object]) -> None:
    """Raise `UsageError` where options do not go with a policy: those of shared cores, and of nodes."""
    from allocopt.errors import UsageError
    from allocopt.simulator.scheduler import WithExecution

    if not isinstance(scheduler, WithExecution):
        if profiles is not None:
            raise UsageError(f"--profiles goes with policies by which jobs share cores, not with {policy!r}")
        return
    for name, given in others.items():
        if given is not None:
            raise UsageError(f"--{name} does not go with policy {policy!r}")


def _sharing(workload: "Workload", profiles: Path) -> "QuotaExecution":
    """Return how jobs run that share cores."""
    from allocopt.simulator.quota.execution import QuotaExecution
    from allocopt.traces.executables import profiled_jobs, read_profiles

    return QuotaExecution(profiled_jobs(workload, read_profiles(profiles)))


def _topology(
    topology: Path | None, labels: str | None, fat_tree: str | None, processors: int | None
) -> "Topology | None":
    """Return how the nodes are connected, if an option says."""
    from allocopt.cluster.topology import FatTree
    from allocopt.errors import UsageError
    from allocopt.files.faults import shown

    given = {"--processors": processors, "--fat-tree": fat_tree, "--topology": topology}
    sizes = [option for option, value in given.items() if value is not None]
    if len(sizes) > 1:
        raise UsageError(f"{' and '.join(sizes)} both say how large the machine is: give one")
    if topology is not None:
        return read_cluster(topology, labels).tree
    if fat_tree is None:
        return None
    # More digits than any cluster has are none of a size.
    shape = [int(part) if re.fullmatch("[0-9]{1,18}", part) else 0 for part in fat_tree.split(",")]
    if len(shape) != 3 or not all(shape):
        raise UsageError(f"--fat-tree is {shown(fat_tree)}, must be three positive numbers such as 10,10,10")
    return FatTree(shape[0], shape[1], shape[2])


def _read(
    trace: "Workload",
    processors: int | None,
    per_node: int,
    topology: "Topology | None",
    skip_oversized: bool,
    max_jobs: int | None,
) -> "tuple[Workload, Platform]":
    """Bring the trace to nodes, and find its machine; say what was dropped or repaired."""
    workload = trace.in_nodes(per_node)
    platform = _platform(workload, processors, per_node, topology)
    if skip_oversized:
        workload = workload.fitting(platform.size)
    if max_jobs is not None:
        workload = workload.first(max_jobs)
    for remark in workload.remarks(platform.size):
        print(f"allocopt: {remark}", file=sys.stderr)
    return workload, platform


def _platform(workload: "Workload", processors: int | None, per_node: int, topology: "Topology | None") -> "Platform":
    """Return the machine that the options or the trace name."""
    from allocopt.cluster.platform import NODES, Platform
    from allocopt.errors import BadFileError, UsageError

    if topology is not None:
        return Platform.whole_nodes(topology)
    if processors is not None and processors < per_node:
        raise UsageError(f"--processors {processors} are less than one node of {per_node}")
    size = workload.machine_processors if processors is None else processors // per_node
    if not size:
        fault = "the trace does not say how large its machine is; --processors does"
        raise BadFileError(f"{workload.name}: {fault}")
    return Platform.pool(size) if per_node == 1 else Platform.pool(size, NODES)


def _allocator(
    platform: "Platform", scheduler: "AnyScheduler", name: str | None, strategy: str | None, seed: int
) -> "Allocator | None":
    """Make the allocator."""
    if name is None and strategy is None:
        return None
    from allocopt.errors import UsageError
    from allocopt.simulator.window import TopologyAllocator, WindowScheduler
    from allocopt.solving.registry import get_solver

    if isinstance(scheduler, WindowScheduler):
        raise UsageError("policy 'window' allocates by itself: give --option solver=... and --option strategy=...")
    if name is None:
        raise UsageError("--strategy is that of --allocator, which is not given")
    if platform.topology is None:
        raise UsageError("--allocator needs to know how the nodes are connected: give --fat-tree or --topology")
    return TopologyAllocator(platform.topology, get_solver(name), strategy or "free", seed=seed)


def _explanation(workload: "Workload", job: int | None, scheduler: "AnyScheduler") -> "Explanation | None":
    """Make the observer of a job, if one is meant."""
    from allocopt.simulator.explain import Explanation

    return None if job is None else Explanation(workload, job, scheduler)


def _write(schedule: "Schedule", jobs_csv: Path | None, swf: Path | None, rules: "Rules", policy: str) -> None:
    """Write the schedule's files."""
    from allocopt.report.schedule_csv import write_schedule_csv
    from allocopt.report.schedule_swf import write_schedule_swf
    from allocopt.version import __version__

    if jobs_csv is not None:
        write_schedule_csv(jobs_csv, schedule)
    if swf is not None:
        killed = "killed at the estimate" if rules.kill_at_limit else "not killed"
        how = f"policy {policy}, {rules.event_order.name.lower()} events, jobs {killed}"
        write_schedule_swf(swf, schedule, (f"schedule by allocopt {__version__}: {how}",))


def _measured(schedule: "Schedule", trim: float, starvation: float) -> "Metrics":
    """Measure the schedule."""
    from allocopt.simulator.metrics import Trim, measure

    return measure(schedule, Trim(trim, trim), starvation)


def _print(schedule: "Schedule", metrics: "Metrics", runtime_s: float, as_json: bool) -> None:
    """Print the row or the tables."""
    from allocopt.report.metrics_table import metrics_table
    from allocopt.report.simulate_row import SimulateRow

    row = SimulateRow.of(schedule, metrics, runtime_s)
    if as_json:
        print(json.dumps(row.as_dict(), allow_nan=False), flush=True)
        return
    print(metrics_table(metrics, screen_width()))
    print(f"\n{row.jobs:,} jobs measured; simulated in {runtime_s:.3f} s, {row.jobs_per_s:,.0f} jobs/s")


def _print_remarks(scheduler: "AnyScheduler") -> None:
    """Print what a scheduler of windows has to say of them, on standard error."""
    from allocopt.simulator.scheduler import Remarking

    for remark in scheduler.remarks() if isinstance(scheduler, Remarking) else ():
        print(f"allocopt: {remark}", file=sys.stderr)


def _print_explanation(explanation: "Explanation | None", schedule: "Schedule", as_json: bool) -> None:
    """Print why a job waited; where standard output holds a row, on standard error."""
    from allocopt.simulator.explain import seconds

    if explanation is None:
        return
    job, out = explanation.job, sys.stderr if as_json else sys.stdout
    release, start = float(schedule.release[job]), float(schedule.start[job])
    times = f"submitted at {seconds(release)}, started at {seconds(start)}, waited {seconds(start - release)}"
    print(f"\njob {schedule.workload.ids[job]}: {times}", file=out)
    for reason in explanation.reasons:
        until = "" if reason.last == reason.first else f" to {seconds(reason.last)} ({reason.passes} passes)"
        print(f"  {seconds(reason.first)}{until}: {reason.text}", file=out)
