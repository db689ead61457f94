"""The workload of a capacity machine has the published numbers, and only jobs of the trace it is drawn from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocopt.errors import UsageError
from allocopt.traces.capacity import CapacityMachine, CapacityModel
from allocopt.traces.weekly_cycle import DAY_S, arrivals, weekly_cycle
from allocopt.traces.workload import Workload

CORES = 16


def trace(seed: int = 0, n: int = 2000, n_days: int = 28) -> Workload:
    """Jobs of 1 to 4,096 cores that take up to two days."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0.0, n_days * DAY_S, n))
    estimate = rng.choice([600.0, 7200.0, DAY_S, 2 * DAY_S], n, p=[0.4, 0.3, 0.2, 0.1])
    run = np.ceil(estimate * rng.uniform(0.01, 1.2, n))
    return Workload("source", np.arange(n), submit, run, 2 ** rng.integers(0, 13, n), estimate)


def machine(**changes: float) -> CapacityMachine:
    numbers = {"nodes": 1000, "jobs_per_day": 400.0, "longest_days": 7.0, "load": 0.9, **changes}
    return CapacityMachine(**numbers)  # type: ignore[arg-type]


def test_the_published_numbers_come_out() -> None:
    model = CapacityModel.fitted(machine(), trace(), CORES)
    days = 2000
    jobs = model.draw(days, np.random.default_rng(1), "capacity")
    # The number of jobs is a Poisson one; four standard deviations.
    assert abs(len(jobs) - 400 * days) <= 4 * np.sqrt(400 * days)
    area = float((jobs.processors * jobs.run).sum()) / (days * DAY_S * 1000)
    assert area == pytest.approx(0.9, rel=0.02)
    assert jobs.estimate.max() == 7 * DAY_S
    assert jobs.machine_processors == 1000
    assert 0 <= jobs.submit.min()
    assert jobs.submit.max() < days * DAY_S
    assert (np.diff(jobs.submit) >= 0).all()


@given(
    seed=st.integers(0, 20),
    nodes=st.sampled_from([64, 300, 5000]),
    load=st.floats(0.3, 1.2),
    longest_days=st.floats(0.1, 20.0),
)
@settings(max_examples=30, deadline=None)
def test_every_job_is_one_of_the_trace_and_fits(seed: int, nodes: int, load: float, longest_days: float) -> None:
    source = trace(seed, 300)
    asked = machine(nodes=nodes, load=load, longest_days=longest_days)
    try:
        model = CapacityModel.fitted(asked, source, CORES)
    except UsageError:
        # Such short jobs do not make the load, however the trace's jobs are chosen.
        with pytest.raises(UsageError, match="choose another load"):
            CapacityModel.fitted(asked, source, CORES)
        return
    jobs = model.draw(2, np.random.default_rng(seed), "drawn")
    assert (jobs.processors <= nodes).all()
    assert (jobs.run <= jobs.estimate).all()
    assert (jobs.run >= 1).all()
    assert jobs.estimate.max() <= max(round(longest_days * DAY_S), 1)
    known = set(zip(model.nodes.tolist(), model.run_s.tolist(), model.estimate_s.tolist(), strict=True))
    assert set(zip(jobs.processors.tolist(), jobs.run.tolist(), jobs.estimate.tolist(), strict=True)) <= known
    assert set(model.nodes.tolist()) <= set((-(-source.processors // CORES)).tolist())
    # The mean job makes the load; the exponent was found by bisection.
    mean = float(model.chances @ (model.nodes * model.run_s))
    assert mean == pytest.approx(load * nodes * DAY_S / 400.0, rel=1e-6)


def test_limits_up_to_a_day_stay_and_jobs_keep_their_share_of_the_limit() -> None:
    source = trace()
    model = CapacityModel.fitted(machine(nodes=100_000, jobs_per_day=40_000.0), source, CORES)
    short = source.estimate <= DAY_S
    np.testing.assert_array_equal(model.estimate_s[short], source.estimate[short])
    np.testing.assert_array_equal(model.run_s[short], np.minimum(source.run, source.estimate)[short])
    assert set(model.estimate_s[~short].tolist()) == {7 * DAY_S}
    shares = np.minimum(source.run, source.estimate) / source.estimate
    np.testing.assert_allclose(model.run_s / model.estimate_s, shares, atol=1e-3)


def test_a_seed_fixes_the_jobs() -> None:
    model = CapacityModel.fitted(machine(), trace(), CORES)
    one, two, other = (model.draw(3, np.random.default_rng(seed), "x") for seed in (5, 5, 6))
    for name in ("submit", "run", "processors", "estimate"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert one.submit.tolist() != other.submit.tolist()


@pytest.mark.parametrize("name", ["nodes", "jobs_per_day", "longest_days", "load"])
@pytest.mark.parametrize("value", [0, -1.0, float("inf")])
def test_numbers_that_make_no_sense_are_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name} is"):
        machine(**{name: value})


def test_a_trace_that_cannot_make_the_load_is_refused() -> None:
    with pytest.raises(UsageError, match="choose another load"):
        CapacityModel.fitted(machine(load=1e6), trace(), CORES)
    with pytest.raises(UsageError, match="no job fits"):
        CapacityModel.fitted(machine(nodes=1), trace().subset(np.flatnonzero(trace().processors > CORES)), CORES)
    with pytest.raises(UsageError, match="days"):
        CapacityModel.fitted(machine(), trace(), CORES).draw(0, np.random.default_rng(0), "x")
    with pytest.raises(UsageError, match="cores"):
        CapacityModel.fitted(machine(), trace(), 0)


def test_arrivals_follow_the_cycle_from_the_day_on_that_is_asked_for() -> None:
    # Two weeks, in which jobs arrive on the second day of the week alone, in its last hour.
    submit = np.concatenate([(week * 7 + 1) * DAY_S + 23 * 3600.0 + np.arange(1000.0) for week in range(2)])
    cycle = weekly_cycle(submit)
    assert cycle.sum() == pytest.approx(1.0)
    assert cycle.argmax() == 24 + 23
    for first_day, busy in ((0, 1), (1, 0), (2, 6)):
        drawn = arrivals(cycle, 4000, 7, np.random.default_rng(0), first_day)
        assert np.bincount((drawn // DAY_S).astype(int), minlength=7).argmax() == busy
        assert ((0 <= drawn) & (drawn < 7 * DAY_S)).all()
        assert (np.diff(drawn) >= 0).all()
