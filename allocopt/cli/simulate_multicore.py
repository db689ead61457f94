"""``allocopt simulate --platform``: jobs of tasks on a multicore machine."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from allocopt.cli.screen import screen_width

if TYPE_CHECKING:
    from allocopt.cluster.multicore import Machine
    from allocopt.simulator.multicore.simulation import MulticoreSchedule, PlacedJobs
    from allocopt.simulator.multicore.state import Execution
    from allocopt.traces.tasks import TaskWorkload

Row = dict[str, str | float | int | None]
"""What is printed as JSON."""


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """The options of multicore platforms, None where they are not given.

    Parameters
    ----------
    platform, types
        The platform's file, and the folder of a library of types.
    execution, sharing
        How jobs run.
    placement
        Where and when jobs were started elsewhere.
    energy_csv
        File for the energy.
    """

    platform: Path | None
    types: Path | None
    execution: str | None
    sharing: float | None
    placement: Path | None
    energy_csv: Path | None

    def are_meant(self) -> bool:
        """Whether the machine is a multicore platform.

        Raises
        ------
        UsageError
            If an option of one is given without the platform.
        """
        if self.platform is not None:
            return True
        from allocopt.errors import UsageError

        for name in fields(self):
            if getattr(self, name.name) is not None:
                raise UsageError(f"--{name.name.replace('_', '-')} goes with --platform, which is not given")
        return False

    def how(self, kill_at_limit: bool) -> "Execution":
        """Return how jobs run."""
        from allocopt.simulator.multicore.state import Execution, ExecutionKind

        kind = ExecutionKind.CONTENTION if self.execution is None else ExecutionKind(self.execution)
        return Execution(kind, 1.0 if self.sharing is None else self.sharing, kill_at_limit)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What is written and printed.

    Parameters
    ----------
    jobs_csv, swf
        Files for the schedule, if any.
    trim, starvation
        How it is measured.
    as_json
        Whether a row is printed, or tables.
    """

    jobs_csv: Path | None
    swf: Path | None
    trim: float
    starvation: float
    as_json: bool


def platform_path(platform: Path | None) -> Path | None:
    """Return the file of a platform, which may be named as in ``FILE#NAME``."""
    return None if platform is None else Path(str(platform).partition("#")[0])


def simulate_on_cores(
    trace: Path,
    policy: str,
    kill_at_limit: bool,
    max_jobs: int | None,
    seed: int,
    cores: CoreOptions,
    outputs: Outputs,
    others: Mapping[str, object],
) -> None:
    """Simulate, write the files and print.

    Parameters
    ----------
    trace
        The workload of tasks.
    policy
        Name of the policy.
    kill_at_limit
        Whether jobs end when their estimate is over.
    max_jobs
        How many jobs are simulated; None for all.
    seed
        Fixes every random choice.
    cores, outputs
        Further options.
    others
        Options that are for other machines, by parameter; false or None where they are not given, as they must be.
    """
    from allocopt.cluster.reading import read_machine
    from allocopt.errors import UsageError
    from allocopt.simulator.multicore.policies import DEFAULT_NAME, get_action
    from allocopt.simulator.multicore.simulation import read_placed_jobs
    from allocopt.simulator.simulate import simulate
    from allocopt.traces.irmasim import read_irmasim

    for name, given in others.items():
        if given not in (None, False):
            raise UsageError(f"--{name.replace('_', '-')} does not go with --platform")
    assert cores.platform is not None
    machine, jobs, execution = read_machine(cores.platform, cores.types), read_irmasim(trace), cores.how(kill_at_limit)
    policy = get_action(policy).name
    if cores.placement is not None and policy != DEFAULT_NAME:
        raise UsageError("--policy does not go with --placement, which says when and where jobs start")
    known = None if cores.placement is None else read_placed_jobs(cores.placement, jobs.names)
    jobs = jobs if max_jobs is None else jobs.first(max_jobs)
    extra: Row = {"policy": policy, "execution": str(execution.kind)}
    began = time.perf_counter()
    if known is None:
        with _naming(trace):
            made = simulate(jobs, machine, policy, seed=seed, execution=execution)
    else:
        assert cores.placement is not None
        with _naming(cores.placement):
            made, extra = _replayed(machine, jobs, known, execution)
    runtime_s = time.perf_counter() - began
    _write(outputs, cores.energy_csv, made, extra)
    _print(outputs, made, runtime_s, extra)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file of a job that can never start."""
    from allocopt.errors import InvalidProblemError
    from allocopt.files.faults import bad_file

    try:
        yield
    except InvalidProblemError as error:
        raise bad_file(path, str(error)) from None


def _replayed(
    machine: "Machine", jobs: "TaskWorkload", known: "PlacedJobs", execution: "Execution"
) -> "tuple[MulticoreSchedule, Row]":
    """Simulate what was started elsewhere; compare durations where they were measured."""
    import numpy as np

    from allocopt.simulator.multicore.simulation import replay

    made = replay(machine, jobs, known.placed, execution)
    extra: Row = {"policy": None, "execution": str(execution.kind)}
    if known.duration_s:
        measured = np.array([known.duration_s[name] for name in made.jobs.names])
        errors = np.abs((made.end - made.start) / measured - 1.0)
        extra |= {"mean_duration_error": float(errors.mean()), "max_duration_error": float(errors.max())}
    return made, extra


def _write(outputs: Outputs, energy_csv: Path | None, made: "MulticoreSchedule", extra: Row) -> None:
    """Write the files that are asked for."""
    from allocopt.report.energy_csv import write_energy_csv
    from allocopt.report.schedule_csv import write_schedule_csv
    from allocopt.report.schedule_swf import write_schedule_swf
    from allocopt.version import __version__

    if outputs.jobs_csv is not None:
        write_schedule_csv(outputs.jobs_csv, made)
    if outputs.swf is not None:
        how = f"policy {extra['policy'] or 'as placed'}, execution {extra['execution']}"
        write_schedule_swf(outputs.swf, made, (f"schedule by allocopt {__version__}: {how}",))
    if energy_csv is not None:
        write_energy_csv(energy_csv, made)


def _print(outputs: Outputs, made: "MulticoreSchedule", runtime_s: float, extra: Row) -> None:
    """Print the row or the tables."""
    from allocopt.report.metrics_table import metrics_table
    from allocopt.report.simulate_row import SimulateRow
    from allocopt.simulator.metrics import Trim, measure

    metrics = measure(made, Trim(outputs.trim, outputs.trim), outputs.starvation)
    row = SimulateRow.of(made, metrics, runtime_s)
    energy = {"energy_j": made.energy_j, "energy_delay_js": made.energy_delay_js, "flow_time_s": made.flow_time_s}
    if outputs.as_json:
        print(json.dumps({**row.as_dict(), **energy, **extra}, allow_nan=False), flush=True)
        return
    print(metrics_table(metrics, screen_width()))
    print(f"\nenergy {made.energy_j:,.1f} J, energy-delay product {made.energy_delay_js:,.0f} J s")
    if "mean_duration_error" in extra:
        mean, most = extra["mean_duration_error"], extra["max_duration_error"]
        print(f"durations differ from the measured ones by {mean:.1%} on average, {most:.1%} at most")
    print(f"{row.jobs:,} jobs measured; simulated in {runtime_s:.3f} s, {row.jobs_per_s:,.0f} jobs/s")
