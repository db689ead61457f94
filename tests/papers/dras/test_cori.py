"""The synthetic Cori has the numbers of Table 2, and its figure compares all methods on the same jobs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.agents import AGENT_NAMES, write_agent
from support.artifacts import ours, rows_of
from support.workloads import busy_days

from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.learned.dras.policies import DecimaPg, DrasPpo
from allocopt.reproduction import ReproductionRequest
from allocopt.simulator.rules import Backfill, Reservations
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.capacity import CapacityMachine, CapacityModel
from allocopt.traces.weekly_cycle import DAY_S
from allocopt.traces.workload import Workload
from papers.artifact import Asked
from papers.dras import cori_figure
from papers.dras.cori import CORI, LOAD, MACHINE, TABLE_TWO, TRACE_DAYS, main

NODES = 32


def test_the_machine_is_that_of_table_two() -> None:
    assert (MACHINE.nodes, CORI.processors) == (12_076, 12_076)
    assert MACHINE.jobs_per_day * TABLE_TWO["days"] == pytest.approx(2_607_054)
    assert MACHINE.longest_days == 7
    assert MACHINE.load == LOAD


def small_days(data: Path, days: int, seed: int) -> Workload:
    """Jobs of a machine of 32 nodes."""
    model = CapacityModel.fitted(CapacityMachine(NODES, 80.0, 3.0, 0.9), busy_days(1, 900, 20, NODES))
    return model.draw(days, np.random.default_rng(seed), "small")


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a training of every agent, and make the machine small."""
    monkeypatch.setattr(cori_figure, "cori_days", small_days)
    monkeypatch.setattr(cori_figure, "CORI", replace(CORI, processors=NODES))
    for agent in AGENT_NAMES:
        write_agent(tmp_path / f"{agent}-cori" / "weights.safetensors", agent, Path(CORI.trace).name)
    return tmp_path


@pytest.mark.slow
def test_agents_schedule_in_the_environment_as_their_policies_do(trained: Path) -> None:
    asked, jobs = Asked(trained, False, (0,), str(trained)), small_days(trained, 3, 0)
    for method, policy, kind in (
        ("DRAS-PPO", DrasPpo, Reservations.KEPT),
        ("Decima-PG", DecimaPg, Reservations.NONE),
    ):
        scheduler = policy(weights=str(trained / f"{policy.name}-cori" / "weights.safetensors"))
        assert scheduler.reservations is kind
        found = cori_figure._schedule(method, jobs, asked, 0)
        np.testing.assert_array_equal(found.start, simulate(jobs, NODES, scheduler).start)


@pytest.mark.slow
def test_every_method_is_compared_on_the_same_jobs(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cori_figure, "DRAWS", 2)
    rows = rows_of("dras-figure7-cori", ReproductionRequest(trained, False, (0,)), trained=str(trained))
    means = []
    for seed in (9000, 9001):
        jobs = small_days(trained, cori_figure.DAYS, seed)
        schedule = simulate(jobs, NODES, ListScheduler(FirstComeFirstServed(), Backfill.EASY))
        means.append(schedule.job_times.wait_s.mean() / 3600)
    assert ours(rows, "FCFS/B", "mean wait h") == pytest.approx(np.mean(means))
    for method in cori_figure._methods(Asked(trained, False, (0,), str(trained))):
        low, ratio, high = (ours(rows, method, f"mean wait / FCFS/B{end}") for end in (", from", "", ", to"))
        assert low <= ratio <= high
        assert rows[method, "mean wait / FCFS/B"].n == 2
        assert 0 < ours(rows, method, "utilization") <= 1
    assert ours(rows, "FCFS/B", "mean wait / FCFS/B") == 1
    assert 0 <= ours(rows, "DRAS-PPO", "area") <= 1


def test_the_trace_has_three_weeks_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papers.dras.cori.cori_days", small_days)
    monkeypatch.setattr("sys.argv", ["cori", str(tmp_path / "out.swf"), "--data", str(tmp_path)])
    written: list[str] = []
    main(written.append)
    lines = [line for line in (tmp_path / "out.swf").read_text().splitlines() if not line.startswith(";")]
    assert written == [f"{tmp_path / 'out.swf'}: {len(lines):,} jobs of {TRACE_DAYS} days on 12,076 nodes"]
    assert 0.8 * TRACE_DAYS * DAY_S < max(int(line.split()[1]) for line in lines) < TRACE_DAYS * DAY_S
