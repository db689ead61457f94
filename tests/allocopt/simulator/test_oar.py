"""Conservative backfilling against real executions under OAR, which plans anew when a job ends early."""

from pathlib import Path

import numpy as np
import pytest
from support.oar import SIZE, executed, profiles_in_file, workload_file

from allocopt.cluster.platform import Platform
from allocopt.simulator.rules import Backfill
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed

OAR = ListScheduler(FirstComeFirstServed(), Backfill.CONSERVATIVE, compression=True)
MEASURED = {
    0: ("11778", "241.0"),
    1: ("11309", "13.6"),
    2: ("10970", "27.6"),
    3: ("11145", "12.1"),
    4: ("11194", "25.8"),
}
"""Makespan and mean wait in seconds."""


def run(jobs: Workload) -> tuple[float, float]:
    """Simulate OAR on whole nodes; return makespan and mean wait in seconds."""
    made: Schedule = simulate(jobs, Platform.whole_nodes(SIZE), OAR)
    return float(made.end.max() - jobs.submit.min()), float((made.start - made.release).mean())


@pytest.mark.parametrize("seed", MEASURED)
def test_the_measured_runs_are_read_as_published(shared_data: Path, seed: int) -> None:
    measured = executed(shared_data, seed)
    assert (f"{measured.makespan:.0f}", f"{measured.mean_wait:.1f}") == MEASURED[seed]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_makespan_and_mean_wait_are_near_the_measured_ones(shared_data: Path, seed: int) -> None:
    measured = executed(shared_data, seed)
    makespan, wait = run(read_workload(workload_file(shared_data, seed)))
    assert makespan == pytest.approx(measured.makespan, rel=0.005)
    assert wait == pytest.approx(measured.mean_wait, abs=10)


@pytest.mark.parametrize(
    ("seed", "makespan", "wait"),
    [(1, "11307", "9.6"), (2, "10952", "22.7"), (3, "11146", "9.4"), (4, "11193", "21.8")],
)
def test_the_published_simulation_comes_out(shared_data: Path, seed: int, makespan: str, wait: str) -> None:
    made = run(read_workload(workload_file(shared_data, seed)))
    assert (f"{made[0]:.0f}", f"{made[1]:.1f}") == (makespan, wait)


@pytest.mark.parametrize(("seed", "different"), [(0, 761), (1, 0), (2, 0), (3, 0), (4, 0)])
def test_the_workload_file_of_seed_0_is_not_what_ran(shared_data: Path, seed: int, different: int) -> None:
    measured, in_file = executed(shared_data, seed).profiles, profiles_in_file(shared_data, seed)
    assert len(in_file) == len(measured) == 800
    assert sum(a != b for a, b in zip(measured, in_file, strict=True)) == different


def test_seed_0_as_it_ran_is_as_explained(shared_data: Path) -> None:
    # Makespan 1.8 % and mean wait 10 % below the measured ones, which hang on two decisions late in a saturated run.
    made = run(executed(shared_data, 0).jobs)
    assert (f"{made[0]:.1f}", f"{made[1]:.1f}") == ("11566.0", "217.4")


def test_nodes_do_not_change_the_schedule(shared_data: Path) -> None:
    jobs = read_workload(workload_file(shared_data, 2))
    pool, nodes = (simulate(jobs, platform, OAR).start for platform in (SIZE, Platform.whole_nodes(SIZE)))
    assert np.array_equal(pool, nodes)
