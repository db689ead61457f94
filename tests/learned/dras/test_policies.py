"""Shipped agents: whose they are, and what they do on days that they have not seen."""

from pathlib import Path

import numpy as np
import pytest

from allocopt.simulator.registry import get_policy
from allocopt.simulator.rules import Backfill, Mode
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed
from learned.dras.jobsets import EVALUATION_LOAD, EVALUATION_SEEDS, Split, SyntheticModel
from learned.dras.policies import DecimaPg, DrasA2c, DrasDql, DrasPg, DrasPpo
from learned.weights import read_weights

WEIGHTS = Path(__file__).resolve().parents[3] / "learned" / "weights"
SHIPPED = sorted([*WEIGHTS.glob("dras-*.safetensors"), *WEIGHTS.glob("decima-*.safetensors")])
AGENTS = (DrasPpo, DrasA2c, DrasPg, DrasDql, DecimaPg)
THETA_NODES = 4360


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_weights_name_their_trace_and_whom_to_thank(path: Path) -> None:
    _, card = read_weights(path)
    assert path.name.startswith(card.training)
    assert card.settings["trace"]
    assert (
        "Parallel Workloads Archive" in card.settings["acknowledgement"] or "CQGym" in card.settings["acknowledgement"]
    )
    assert path.stat().st_size < 100_000


@pytest.mark.parametrize("kind", AGENTS)
def test_every_agent_is_shipped_for_theta(kind: type[DrasPpo]) -> None:
    assert get_policy(kind.name) == kind()


@pytest.fixture(scope="module")
def theta(shared_data: Path) -> Workload:
    return read_workload(shared_data / "traces" / "Theta-2018-01.swf.gz").fitting(THETA_NODES)


def waits_h(jobs: Workload, scheduler: object) -> tuple[float, float]:
    wait_s = simulate(jobs, THETA_NODES, scheduler).job_times.wait_s  # type: ignore[arg-type]
    return float(wait_s.mean() / 3600), float(wait_s.max() / 3600)


def test_on_the_held_out_week_jobs_wait_a_fifth_less_and_none_half_as_long_again(theta: Workload) -> None:
    week = Split.of(theta).evaluation()
    mean_h, longest_h = waits_h(week, ListScheduler(FirstComeFirstServed(), Backfill.EASY))
    found = waits_h(week, DrasPpo())
    assert found[0] < 0.8 * mean_h
    assert found[1] < 1.5 * longest_h


@pytest.mark.slow
def test_on_twenty_synthetic_weeks_too(theta: Workload) -> None:
    model = SyntheticModel.fitted(Split.of(theta).training(), THETA_NODES)
    weeks = [model.week(seed, 0, EVALUATION_LOAD) for seed in EVALUATION_SEEDS]
    easy = ListScheduler(FirstComeFirstServed(), Backfill.EASY)
    reference = np.array([waits_h(week, easy) for week in weeks])
    found = np.array([waits_h(week, DrasPpo()) for week in weeks])
    assert found[:, 0].mean() < 0.8 * reference[:, 0].mean()
    assert found[:, 1].max() < 1.5 * reference[:, 1].max()
    assert (found / reference)[:, 1].mean() < 1.5


def test_no_reserved_job_starts_after_its_reserved_time(theta: Workload) -> None:
    week = Split.of(theta).evaluation()
    policy = DrasPpo()
    schedule = simulate(week, THETA_NODES, policy)
    assert (schedule.start <= policy.log.promised).all()
    assert (policy.log.modes == int(Mode.RESERVED)).any()


def test_without_reservations_large_jobs_starve(theta: Workload) -> None:
    week = Split.of(theta).evaluation()
    large = week.processors >= THETA_NODES // 4
    two_level, one_level = (simulate(week, THETA_NODES, policy).job_times.wait_s for policy in (DrasPpo(), DecimaPg()))
    assert one_level[large].mean() > 2 * two_level[large].mean()
