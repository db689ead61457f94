"""The measured run: 38 NPB jobs on two nodes of four cores, with the time of each job and the energy of all."""

from pathlib import Path

import numpy as np
import pytest
from support.multicore import (
    MEASURED_ENERGY_J,
    MEASURED_MAKESPAN_S,
    examples,
    measured_durations,
    measured_jobs,
    measured_machine,
    measured_placements,
)

from allocopt.arrays import FloatArray
from allocopt.cluster.multicore import Machine
from allocopt.cluster.reading import read_machine
from allocopt.simulator.multicore.simulation import MulticoreSchedule, PlacedJobs
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.simulate import simulate

SHARING = 0.7
"""With this one the constants of IRMaSim's own example meet the measured run."""
STALLED = 0.5
"""Share of its power that a core draws while it waits for memory, as fitted to the measured run."""


def example(shared_data: Path) -> Machine:
    """Read the platform that IRMaSim gives for this run."""
    return read_machine(examples(shared_data) / "cal" / "job_4_cal_str_19314_log2_v1" / "platform.json")


def replayed(shared_data: Path, machine: Machine, execution: Execution) -> tuple[MulticoreSchedule, FloatArray]:
    """Start each job when and where it was started; return the schedule and the relative errors of durations."""
    made = PlacedJobs(measured_placements(shared_data), {}).replay(machine, measured_jobs(shared_data), execution)
    measured = measured_durations(shared_data)
    took = np.array([measured[name] for name in made.jobs.names])
    return made, np.abs((made.end - made.start) / took - 1)


def test_the_run_is_what_was_measured(shared_data: Path) -> None:
    jobs = measured_jobs(shared_data)
    assert set(jobs.names) == set(measured_placements(shared_data))
    assert len(jobs) == 38


def test_durations_with_the_constants_of_table_iii_are_near_the_measured_ones(shared_data: Path) -> None:
    _, errors = replayed(shared_data, measured_machine(), Execution())
    assert errors.mean() <= 0.05
    assert errors.max() <= 0.125


def test_without_contention_durations_are_far_off(shared_data: Path) -> None:
    _, errors = replayed(shared_data, measured_machine(), Execution(ExecutionKind.BASELINE))
    assert errors.mean() >= 0.25


def test_energy_is_near_the_measured_one_where_stalled_cores_draw_half(shared_data: Path) -> None:
    made, _ = replayed(shared_data, measured_machine(STALLED), Execution())
    assert made.energy_j == pytest.approx(MEASURED_ENERGY_J, rel=0.1)


def test_equation_5_alone_takes_too_much_for_cores_that_wait(shared_data: Path) -> None:
    made, _ = replayed(shared_data, measured_machine(), Execution())
    assert 1.1 < made.energy_j / MEASURED_ENERGY_J < 1.25


def test_the_constants_of_the_example_fit_with_a_smaller_weight_of_further_tasks(shared_data: Path) -> None:
    made, errors = replayed(shared_data, example(shared_data), Execution(sharing=SHARING))
    assert errors.mean() <= 0.07
    assert errors.max() <= 0.15
    assert made.energy_j == pytest.approx(MEASURED_ENERGY_J, rel=0.1)


@pytest.mark.parametrize("given", ["table iii", "example"])
def test_our_own_schedule_takes_as_long_and_as_much_energy(shared_data: Path, given: str) -> None:
    machine, sharing = (measured_machine(STALLED), 1.0) if given == "table iii" else (example(shared_data), SHARING)
    made = simulate(measured_jobs(shared_data), machine, "shortest-high_gflops", execution=Execution(sharing=sharing))
    assert made.makespan_s == pytest.approx(MEASURED_MAKESPAN_S, rel=0.05)
    assert made.energy_j == pytest.approx(MEASURED_ENERGY_J, rel=0.1)
