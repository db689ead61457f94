"""Trainings of DRAS learn, validate and keep the best, and end the same whatever interrupts them."""

from pathlib import Path

import numpy as np
import pytest

from allocopt.errors import UsageError
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.learned.dras.environment import Validator, _Waits
from allocopt.learned.dras.policies import DrasPpo as DrasPpoPolicy
from allocopt.learned.dras.training import DrasPpo
from allocopt.learned.weights import read_weights
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import ListScheduler, Scheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload
from allocopt.training import TrainingRequest

NODES = 32
DAY_S = 86_400.0


def request(folder: Path) -> TrainingRequest:
    return TrainingRequest(folder, 0, None, False, "test")


def small(trace: Path, updates: int = 2, **options: object) -> DrasPpo:
    return DrasPpo(str(trace), updates=updates, environments=4, validation=2, every=1, window=16, **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_training_begins_with_the_rule_where_that_is_asked_for(trace: Path) -> None:
    begun = [small(trace, start=start).learner(0).best for start in ("random", "wfp3")]
    assert any(not np.array_equal(begun[0][name], begun[1][name]) for name in begun[0] if name.startswith("actor"))
    assert all(np.array_equal(begun[0][name], begun[1][name]) for name in begun[0] if name.startswith("critic"))


def test_long_real_spans_validate_beside_synthetic_weeks(trace: Path) -> None:
    training = small(trace, validated_weeks=2)
    phases, validation = training.jobsets(*training.traces()[0], 0)
    assert [jobs.submit.max() > 7 * DAY_S for jobs in validation] == [False, False, True, True]
    assert not any("held-out" in jobs.name for jobs in validation)
    assert len(phases[1][0]) == 4


def test_jobsets_may_be_days_and_few(trace: Path) -> None:
    training = small(trace, days=2, sampled=3)
    ((_, sampled), (_, real), (_, synthetic)) = (
        (share, jobsets) for jobsets, share in training.jobsets(*training.traces()[0], 0)[0]
    )
    assert (len(sampled), len(synthetic)) == (3, 12)
    assert all(jobs.submit.max() < 2 * DAY_S for jobs in [*real, *synthetic])
    assert len(real) > 4


def assert_waits_of(found: _Waits, index: int, week: Workload, scheduler: Scheduler | ListScheduler) -> None:
    wait_h = simulate(week, NODES, scheduler).job_times.wait_s / 3600
    assert (found.mean_h[index], found.longest_h[index]) == pytest.approx((wait_h.mean(), wait_h.max()))


@pytest.mark.slow
def test_validation_has_the_waits_of_simulations_of_the_agent_and_of_easy_backfilling(
    trace: Path, tmp_path: Path
) -> None:
    training, path = small(trace, updates=1), tmp_path / "weights.safetensors"
    list(training.train(request(tmp_path)))
    _, weeks = training.jobsets(*training.traces()[0], 0)
    validator = Validator(weeks, NODES, training.options())
    waits = validator.waits(read_weights(path)[0])
    for index, week in enumerate(weeks):
        assert_waits_of(waits, index, week, DrasPpoPolicy(weights=str(path)))
        assert_waits_of(validator.reference, index, week, ListScheduler(FirstComeFirstServed(), Backfill.EASY))


@pytest.mark.slow
def test_several_traces_make_one_agent(trace: Path, tmp_path: Path) -> None:
    training = DrasPpo(f"{trace},{trace}", processors=f"{NODES},64", updates=2, environments=4, validation=2, window=16)
    assert training.label == "dras-ppo-generic"
    *_, last = training.train(request(tmp_path))
    assert np.isfinite(last.measures["score"])


def test_jobs_of_a_cluster_count_by_the_resource_that_they_ask_for_most_of(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(
        "NodeName=n[1-4] CPUs=8 RealMemory=16000 State=UNKNOWN\n"
        "PartitionName=all Nodes=ALL Default=YES State=UP\n"
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n",
        encoding="utf-8",
    )
    asked = ("-n 4 --mem=100", "-n 1 --mem=8000", "-n 64 --mem=100")
    lines = [
        f"-dt {10 * number} -e submit_batch_job | -J j{number} -sim-walltime 60 --uid=u -t 00:07:00 {asks} pseudo.job\n"
        for number, asks in enumerate(asked)
    ]
    (tmp_path / "jobs.events").write_text("".join(lines), encoding="utf-8")
    training = DrasPpo(trace=str(tmp_path / "jobs.events"), cluster=str(tmp_path / "slurm.conf"))
    ((jobs, machine),) = training.traces()
    # Of 32 cores four are 4 units, of 64,000 MiB 8,000 are an eighth; the third job is larger than the cluster.
    assert machine == 32
    assert jobs.processors.tolist() == [4, 4]
    with pytest.raises(UsageError, match="do not give processors"):
        DrasPpo(trace="jobs.events", cluster="slurm.conf", processors=8)
