"""Trainings of DRAS learn, validate and keep the best, and end the same whatever interrupts them."""

from pathlib import Path

import numpy as np
import pytest

from allocopt.simulator.simulate import simulate
from allocopt.training import TrainingRequest
from learned.dras.policies import DrasPpo as DrasPpoPolicy
from learned.dras.training import DecimaPg, DrasA2c, DrasDql, DrasPg, DrasPpo, DrasTraining
from learned.weights import read_weights

NODES = 32
DAY_S = 86_400.0
TRAININGS = (DrasPpo, DrasA2c, DrasPg, DrasDql, DecimaPg)


def request(folder: Path, seed: int = 0, minutes: float | None = None, *, resumes: bool = False) -> TrainingRequest:
    return TrainingRequest(folder, seed, minutes, resumes, "test")


def small(kind: type[DrasTraining], trace: Path, updates: int = 2, **options: object) -> DrasTraining:
    return kind(str(trace), updates=updates, environments=4, validation=2, every=1, window=16, **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_training_begins_with_the_rule_where_that_is_asked_for(trace: Path, tmp_path: Path) -> None:
    begun = [small(DrasPpo, trace, start=start).learner(0).best for start in ("random", "wfp3")]
    assert any(not np.array_equal(begun[0][name], begun[1][name]) for name in begun[0] if name.startswith("actor"))
    assert all(np.array_equal(begun[0][name], begun[1][name]) for name in begun[0] if name.startswith("critic"))


def test_long_real_spans_validate_beside_synthetic_weeks(trace: Path) -> None:
    training = small(DrasPpo, trace, validated_weeks=2)
    phases, validation = training.jobsets(*training.traces()[0], 0)
    assert [jobs.submit.max() > 7 * DAY_S for jobs in validation] == [False, False, True, True]
    assert not any("held-out" in jobs.name for jobs in validation)
    assert len(phases[1][0]) == 4


@pytest.mark.slow
def test_an_agent_in_simulate_has_the_waits_of_the_validation(trace: Path, tmp_path: Path) -> None:
    from learned.dras.environment import Validator

    training = small(DrasPpo, trace, updates=1)
    list(training.train(request(tmp_path)))
    path = tmp_path / "weights.safetensors"
    _, weeks = training.jobsets(*training.traces()[0], 0)
    waits = Validator(weeks, NODES, training.options()).waits(read_weights(path)[0])
    for index, week in enumerate(weeks):
        times = simulate(week, NODES, DrasPpoPolicy(weights=str(path))).job_times
        assert times.wait_s.mean() / 3600 == pytest.approx(waits.mean_h[index])
        assert times.wait_s.max() / 3600 == pytest.approx(waits.longest_h[index])


def test_validation_compares_with_easy_backfilling(trace: Path) -> None:
    from learned.dras.environment import Validator

    training = small(DrasPpo, trace)
    workload = training.traces()[0][0].first(100)
    reference = Validator([workload], NODES, training.options()).reference
    from allocopt.simulator.rules import Backfill
    from allocopt.simulator.scheduler import ListScheduler
    from heuristics.scheduling.queue_orders import FirstComeFirstServed

    wait_s = simulate(workload, NODES, ListScheduler(FirstComeFirstServed(), Backfill.EASY)).job_times.wait_s
    assert reference.mean_h[0] == pytest.approx(wait_s.mean() / 3600)
    assert reference.longest_h[0] == pytest.approx(wait_s.max() / 3600)


@pytest.mark.slow
def test_several_traces_make_one_agent(trace: Path, tmp_path: Path) -> None:
    training = DrasPpo(f"{trace},{trace}", processors=f"{NODES},64", updates=2, environments=4, validation=2, window=16)
    assert training.label == "dras-ppo-generic"
    *_, last = training.train(request(tmp_path))
    assert np.isfinite(last.measures["score"])
