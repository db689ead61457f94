"""Agents of DRAS: shipped ones on unseen days, and one that goes on learning in operation."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from support.workloads import busy_days

from allocopt.arrays import Float32Array
from allocopt.envs.dras.dynamics import Weights
from allocopt.envs.dras.task import DrasOptions
from allocopt.errors import UsageError
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.learned.dras import policies
from allocopt.learned.dras.environment import Validator, _Waits
from allocopt.learned.dras.jobsets import EVALUATION_LOAD, EVALUATION_SEEDS, RUN_JITTER, Split, SyntheticModel
from allocopt.learned.dras.policies import DecimaPg, DrasPpo, _adapted, _ended_jobs
from allocopt.learned.rl.networks import SlotActorCritic, weights_of
from allocopt.learned.rl.slots import CompactNetwork
from allocopt.learned.weights import Card, read_weights, write_weights
from allocopt.simulator.decisions import Decision
from allocopt.simulator.rules import Backfill, Mode
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View
from allocopt.traces.reading import read_workload
from allocopt.traces.variants import varied_run_times
from allocopt.traces.workload import Workload

WEIGHTS = Path(__file__).resolve().parents[3] / "learned" / "weights"
SHIPPED = sorted([*WEIGHTS.glob("dras-*.safetensors"), *WEIGHTS.glob("decima-*.safetensors")])
THETA_NODES = 4360
NODES, DAY_S = 32, 86_400.0
REWARD = Weights(mean_wait=1.0, longest_wait=0.02)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_weights_name_their_trace_and_whom_to_thank(path: Path) -> None:
    _, card = read_weights(path)
    assert path.name.startswith(card.training)
    assert card.settings["trace"]
    thanks = card.settings["acknowledgement"]
    assert "Parallel Workloads Archive" in thanks or "CQGym" in thanks
    assert path.stat().st_size < 100_000


@pytest.fixture(scope="module")
def theta(shared_data: Path) -> Workload:
    return read_workload(shared_data / "traces" / "Theta-2018-01.swf.gz").fitting(THETA_NODES)


def waits_h(jobs: Workload, scheduler: object) -> tuple[float, float]:
    wait_s = simulate(jobs, THETA_NODES, scheduler).job_times.wait_s  # type: ignore[arg-type]
    return float(wait_s.mean() / 3600), float(wait_s.max() / 3600)


def test_on_the_held_out_week_jobs_wait_a_fifth_less_and_none_half_as_long_again(theta: Workload) -> None:
    week = Split.of(theta).evaluation()
    easy, found = waits_h(week, ListScheduler(FirstComeFirstServed(), Backfill.EASY)), waits_h(week, DrasPpo())
    assert found[0] < 0.8 * easy[0]
    assert found[1] < 1.5 * easy[1]


@pytest.mark.slow
def test_on_twenty_synthetic_weeks_too(theta: Workload) -> None:
    model = SyntheticModel.fitted(Split.of(theta).training(), THETA_NODES)
    weeks = [model.span(seed, 0, EVALUATION_LOAD) for seed in EVALUATION_SEEDS]
    easy = ListScheduler(FirstComeFirstServed(), Backfill.EASY)
    reference = np.array([waits_h(week, easy) for week in weeks])
    found = np.array([waits_h(week, DrasPpo()) for week in weeks])
    assert found[:, 0].mean() < 0.8 * reference[:, 0].mean()
    assert found[:, 1].max() < 1.5 * reference[:, 1].max()
    assert (found / reference)[:, 1].mean() < 1.5


def test_no_reserved_job_is_late_and_without_reservations_large_jobs_starve(theta: Workload) -> None:
    week, policy = Split.of(theta).evaluation(), DrasPpo()
    schedule = simulate(week, THETA_NODES, policy)
    assert (schedule.start <= policy.log.promised).all()
    assert (policy.log.modes == int(Mode.RESERVED)).any()
    large = week.processors >= THETA_NODES // 4
    one_level = simulate(week, THETA_NODES, DecimaPg()).job_times.wait_s
    assert one_level[large].mean() > 2 * schedule.job_times.wait_s[large].mean()


def fresh_weights(seed: int) -> dict[str, Float32Array]:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return weights_of(SlotActorCritic(CompactNetwork(21)))


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    settings = {"reward": asdict(REWARD), "window": 50}
    write_weights(tmp_path / "agent", fresh_weights(0), Card("dras-ppo", "compact", 0, 1, "0", "", "test", settings))
    return tmp_path / "agent"


@pytest.mark.slow
def test_new_weights_are_better_on_other_variants_of_what_was_seen_or_not_taken() -> None:
    seen, options = busy_days(0, 250, 8, NODES), DrasOptions(reward=REWARD, skips_forced=True)
    rng = np.random.default_rng(99)
    validator = Validator([varied_run_times(seen, rng, RUN_JITTER) for _ in range(24)], NODES, options)
    changed = 0
    for seed in range(2):
        old = fresh_weights(seed)
        new = _adapted(old, seen, NODES, options, (seed, 0), updates=8, learning_rate=2e-3)
        if any(not np.array_equal(new[name], old[name]) for name in old):
            changed += 1
            assert validator.waits(new).mean_h.mean() < validator.waits(old).mean_h.mean()
    assert changed > 0


@pytest.mark.slow
def test_without_a_gate_whatever_was_learned_is_taken() -> None:
    seen, options = busy_days(0, 150, 4, NODES), DrasOptions(reward=REWARD, skips_forced=True)
    old = fresh_weights(0)
    adapted = partial(_adapted, old, seen, NODES, options, (0, 0), updates=1, variants=1, judging=2)
    learned = adapted(gated=False)
    assert any(not np.array_equal(learned[name], old[name]) for name in old)
    # The gate lets pass the same weights or leaves the old ones.
    assert any(all(np.array_equal(adapted()[name], one[name]) for name in old) for one in (learned, old))


def waits(mean_h: list[float], longest_h: list[float]) -> _Waits:
    return _Waits(np.array(mean_h), np.array(longest_h), 0.0)


def test_better_is_shorter_beyond_doubt_and_never_longer_at_the_end() -> None:
    old = waits([2.0, 2.0, 2.0], [9.0, 9.0, 9.0])
    assert waits([1.8, 1.7, 1.9], [9.0, 9.0, 9.0]).are_better_than(old)
    assert not waits([1.8, 1.7, 1.9], [9.0, 9.0, 9.1]).are_better_than(old)
    assert not waits([1.0, 2.1, 2.2], [8.0, 8.0, 8.0]).are_better_than(old)
    assert not old.are_better_than(old)


@dataclass(slots=True)
class Watching:
    """Schedules as a policy does, and notes what has been seen of the jobs at every instance."""

    policy: DrasPpo
    seen: list[tuple[float, Workload]] = field(default_factory=list)

    def schedule(self, view: View) -> Iterator[Decision]:
        self.seen.append((view.now, _ended_jobs(view, view.now - 2 * DAY_S)))
        return self.policy.schedule(view)


def test_jobs_are_looked_at_once_they_have_ended(agent: Path) -> None:
    workload = busy_days(0, 150, 4, NODES)
    watching = Watching(DrasPpo(str(agent)))
    schedule = simulate(workload, NODES, watching)
    for now, seen in watching.seen:
        expected = (schedule.end <= now) & (schedule.release >= now - 2 * DAY_S)
        assert len(seen) == expected.sum()
        np.testing.assert_allclose(seen.run, (schedule.end - schedule.start)[expected])
        np.testing.assert_array_equal(seen.processors, workload.processors[expected])


@pytest.mark.slow
def test_a_dynamic_agent_learns_every_week_and_a_static_one_never(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "_adapted", partial(_adapted, updates=1, variants=1, judging=2))
    workload = busy_days(0, 600, 18, NODES)
    static, dynamic = DrasPpo(str(agent)), DrasPpo(str(agent), dynamic=True)
    first = simulate(workload, NODES, static)
    second = simulate(workload, NODES, dynamic)
    assert static.operation == (0, 0)
    assert dynamic.operation[0] >= 2
    ungated = DrasPpo(str(agent), dynamic=True, gated=False)
    simulate(workload, NODES, ungated)
    assert ungated.operation == (dynamic.operation[0], dynamic.operation[0])
    before = first.start < 7 * DAY_S
    np.testing.assert_array_equal(first.start[before], second.start[before])
    np.testing.assert_array_equal(simulate(workload, NODES, dynamic).start, second.start)


@pytest.mark.parametrize("options", [{"period_days": 0.0}, {"memory_days": -1.0}, {"seed": -1}])
def test_periods_that_make_no_sense_are_refused(options: dict[str, float], agent: Path) -> None:
    with pytest.raises(UsageError):
        DrasPpo(str(agent), dynamic=True, **options)  # type: ignore[arg-type]
