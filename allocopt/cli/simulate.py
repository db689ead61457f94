"""``allocopt simulate``."""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allocopt.cli.options import By, Json, check_files_differ, file_option
from allocopt.cli.spec_options import spec_command
from allocopt.cli.terminal import print_remarks, screen_width
from allocopt.experiments.fields import FieldError
from allocopt.experiments.specs import SimulationSpec

if TYPE_CHECKING:
    from allocopt.simulator.explain import Explanation
    from allocopt.simulator.groups import Grouping
    from allocopt.simulator.metrics import JobStatistics, Metrics
    from allocopt.simulator.schedule import Schedule

_OWN = (
    *("trace", "processors", "policy", "backfill", "kill_at_limit", "event_order", "max_jobs"),
    *("options", "fat_tree", "topology", "cluster", "allocator", "platform", "seed"),
)
"""Fields that have their own option; other tools rely on those in the first line."""


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """Outputs of a simulation: files, tables and rows."""

    explain: Annotated[str | None, typer.Option(metavar="JOB", help="Explain why this job waited, pass by pass.")] = (
        None
    )
    variants: Annotated[int | None, typer.Option(metavar="N", help="Average over N variants of the run times.")] = None
    by: By = None
    out: Annotated[Path | None, file_option("Write result and inputs as JSON, for rerun.", metavar="FILE")] = None
    jobs_csv: Annotated[Path | None, file_option("Write a row per job as .csv[.gz].", metavar="FILE")] = None
    swf: Annotated[Path | None, file_option("Write the schedule as .swf[.gz].", metavar="FILE")] = None
    energy_csv: Annotated[Path | None, file_option("Write energies as .csv[.gz].", metavar="FILE")] = None
    as_json: Json = False


def run(spec: SimulationSpec, asked: SimulateOptions, *, remembers: bool = True) -> list[dict[str, Any]]:
    """Simulate a trace on a machine under a scheduling policy."""
    from allocopt.experiments.results import ResultModel
    from allocopt.experiments.simulations import PreparedSimulation, measures_of_variants
    from allocopt.files.writing import compact_json
    from allocopt.report.schedule_files import write_energy_csv, write_schedule_csv, write_schedule_swf
    from allocopt.simulator.groups import groupings_named, measure_groups
    from allocopt.simulator.metrics import Trim, measure
    from allocopt.simulator.multicore.simulation import MulticoreSchedule
    from allocopt.version import __version__

    written = (asked.out, asked.jobs_csv, asked.swf, asked.energy_csv)
    check_files_differ(*written, read=[path for _, _, path in spec.files()])
    if asked.energy_csv is not None and spec.platform is None:
        raise FieldError("energy_csv", "needs platform, which is not given")
    groupings = groupings_named(asked.by or [])
    simulation = PreparedSimulation.of(spec)
    explanation = None if asked.explain is None else simulation.explanation(asked.explain)
    print_remarks(simulation.inputs.remarks)
    schedule, runtime_s = simulation.timed(explanation)
    print_remarks(simulation.remarks(schedule))
    trim, described = Trim(spec.trim, spec.trim), simulation.described(schedule)
    metrics = measure(schedule, trim, spec.starvation)
    groups = {
        one: measure_groups(schedule, described.labels_of(one, schedule), one, trim, spec.starvation)
        for one in groupings
    }
    row = simulation.row(schedule, metrics, runtime_s)
    if asked.jobs_csv is not None:
        write_schedule_csv(asked.jobs_csv, schedule, described)
    if asked.swf is not None:
        killed = "killed at the estimate" if simulation.rules.kill_at_limit else "not killed"
        how = f"policy {spec.policy}, {simulation.rules.event_order.name.lower()} events, jobs {killed}"
        if spec.platform is not None:
            how = f"policy {row['policy'] or 'as placed'}, execution {spec.execution}"
        fields = compact_json(spec.seen_from(asked.swf.parent))
        write_schedule_swf(asked.swf, schedule, (f"schedule by allocopt {__version__}: {how}", f"of {fields}"))
    if asked.energy_csv is not None and isinstance(schedule, MulticoreSchedule):
        write_energy_csv(asked.energy_csv, schedule)
    # Save learned knowledge before the result file: if this fails, no result file claims to be complete.
    if remembers and hasattr(simulation.policy, "remember"):
        simulation.policy.remember()
    if asked.out is not None:
        ResultModel.write(asked.out, spec, [row], simulation.inputs.remarks)
    if asked.variants is not None:
        found = measures_of_variants(spec, asked.variants)
        row |= {"variants": asked.variants, "of_variants": {name: list(one) for name, one in found.items()}}
    _print_answer(schedule, metrics, row, groups, explanation, asked.as_json)
    if hasattr(simulation.policy, "remarks"):
        print_remarks(simulation.policy.remarks())
    return [row]


command = spec_command(run, SimulationSpec, _OWN, SimulateOptions)


def _print_answer(
    schedule: "Schedule",
    metrics: "Metrics",
    row: dict[str, Any],
    groups: "dict[Grouping, dict[str, JobStatistics]]",
    explanation: "Explanation | None",
    as_json: bool,
) -> None:
    from allocopt.report.rows import SimulateGroupRow
    from allocopt.report.terminal import groups_table, metrics_table, variants_table
    from allocopt.simulator.explain import seconds

    if as_json:
        group_rows = [SimulateGroupRow.of(one.name, *each) for one, own in groups.items() for each in own.items()]
        for each in (row, *map(asdict, group_rows)):
            print(json.dumps(each, allow_nan=False), flush=True)
    else:
        print(metrics_table(metrics, screen_width()) + "\n")
        for one, own in groups.items():
            print(groups_table(one, own, screen_width()) + "\n")
        if "variants" in row:
            print(variants_table(row["variants"], row["of_variants"]) + "\n")
        if "energy_j" in row:
            print(f"energy {row['energy_j']:,.1f} J, energy-delay product {row['energy_delay_js']:,.0f} J s")
        if "mean_duration_error" in row:
            mean, most = row["mean_duration_error"], row["max_duration_error"]
            print(f"durations differ from the measured ones by {mean:.1%} on average, {most:.1%} at most")
        print(f"{row['jobs']:,} jobs measured; simulated in {row['runtime_s']:.3f} s, {row['jobs_per_s']:,.0f} jobs/s")
    if explanation is None:
        return
    # With --json, standard output is for rows.
    job, out = explanation.job, sys.stderr if as_json else sys.stdout
    release, start = float(schedule.release[job]), float(schedule.start[job])
    times = f"submitted at {seconds(release)}, started at {seconds(start)}, waited {seconds(start - release)}"
    print(f"\njob {schedule.workload.names[job] or schedule.workload.ids[job]}: {times}", file=out)
    for reason in explanation.reasons:
        until = "" if reason.last == reason.first else f" to {seconds(reason.last)} ({reason.passes} passes)"
        print(f"  {seconds(reason.first)}{until}: {reason.text}", file=out)
