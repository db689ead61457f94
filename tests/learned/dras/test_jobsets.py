"""Jobsets keep to training days, follow the trace's patterns, and have the load that is asked for."""

import numpy as np
import pytest

from allocopt.errors import UsageError
from allocopt.learned.dras.jobsets import RUN_JITTER, WEEK_S, Split, SyntheticModel
from allocopt.traces.variants import varied_run_times
from allocopt.traces.weekly_cycle import DAY_S
from allocopt.traces.workload import Workload

N = 64


def trace(name: str = "Theta-2018-01", n_days: int = 28, per_day: int = 40) -> Workload:
    """Jobs of which three quarters arrive in the afternoon; those of the second week have run time 777."""
    rng = np.random.default_rng(1)
    n = n_days * per_day
    day = np.repeat(np.arange(n_days), per_day)
    hour = np.where(rng.random(n) < 0.75, rng.uniform(12, 24, n), rng.uniform(0, 12, n))
    run = rng.integers(60, 700, n).astype(float)
    run[(day >= 7) & (day < 14)] = 777.0
    estimate = np.ceil(run * rng.uniform(1, 3, n))
    return Workload(name, np.arange(n), day * DAY_S + hour * 3600, run, rng.integers(1, N + 1, n), estimate)


def test_the_evaluation_part_is_the_held_out_days_alone_and_nothing_of_them_is_in_any_jobset() -> None:
    split = Split.of(trace())
    training, held_out, weeks = split.training(), split.evaluation(), split.spans()
    assert set(held_out.run) == {777.0}
    assert 0 <= held_out.submit.min() < DAY_S
    assert (len(held_out), len(training), len(weeks)) == (7 * 40, 21 * 40, 3)
    assert 777.0 not in training.run
    assert all(777.0 not in week.run and week.submit.max() < WEEK_S for week in weeks)
    assert 777.0 not in SyntheticModel.fitted(training, N).sampled(500, np.random.default_rng(0)).run


def test_the_last_fifth_of_other_traces_is_held_out_and_a_week_must_be_left() -> None:
    assert Split.of(trace("Theta-2018-01.swf", n_days=31)).held_out == range(7, 14)
    assert Split.of(trace("SDSC-SP2-1998-4.2-cln", n_days=71)).held_out == range(56, 71)
    split = Split.of(trace("other", n_days=70))
    assert split.training().submit.max() < 56 * DAY_S
    assert len(split.evaluation()) == 14 * 40
    with pytest.raises(UsageError, match="no whole span"):
        Split(trace(n_days=5), range(0, 3)).spans()


def test_a_sampled_jobset_arrives_at_the_mean_gap_of_the_trace() -> None:
    training = Split.of(trace()).training()
    jobs = SyntheticModel.fitted(training, N).sampled(4000, np.random.default_rng(3))
    assert jobs.submit[0] == 0
    mean_gap_s, gaps = len(set(training.submit // DAY_S)) * DAY_S / len(training), np.diff(jobs.submit)
    assert gaps.mean() == pytest.approx(mean_gap_s, rel=0.06)
    # A Poisson process: gaps vary as much as they are long.
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.1)


@pytest.mark.parametrize("load", [0.3, 0.85, 1.2])
def test_a_synthetic_week_has_the_load_asked_for(load: float) -> None:
    model = SyntheticModel.fitted(Split.of(trace()).training(), N)
    weeks = [model.span(0, index, load) for index in range(5)]
    for jobs, count in [*((week, 1) for week in weeks), (model.span(0, 0, load, days=21), 3)]:
        area = (np.minimum(jobs.run, jobs.estimate) * jobs.processors).sum()
        assert area / (WEEK_S * N) == pytest.approx(count * load, abs=0.01)
        assert (count - 1) * WEEK_S < jobs.submit.max() < count * WEEK_S


def test_a_synthetic_week_follows_hours_run_times_and_accuracies() -> None:
    training = Split.of(trace()).training()
    model = SyntheticModel.fitted(training, N)
    weeks = [model.span(0, index, 0.9) for index in range(10)]
    submit, run, estimate = (
        np.concatenate([getattr(w, name) for w in weeks]) for name in ("submit", "run", "estimate")
    )
    late = np.mean(training.submit % DAY_S >= DAY_S / 2)
    assert np.mean(submit % DAY_S >= DAY_S / 2) == pytest.approx(late, abs=0.04)
    assert np.median(run) == pytest.approx(np.median(training.run), rel=0.1)
    assert np.all(run <= estimate)
    # Estimates are rounded up to 300 s, so they are longer than the trace's.
    expected = np.median(np.ceil(training.estimate / 300) * 300)
    assert np.median(estimate) == pytest.approx(expected, rel=0.34)


def test_a_seed_fixes_a_week_whose_load_is_positive() -> None:
    model = SyntheticModel.fitted(Split.of(trace()).training(), N)
    one, two, other = model.span(5, 1, 0.85), model.span(5, 1, 0.85), model.span(5, 2, 0.85)
    assert one.submit.tolist() == two.submit.tolist()
    assert one.submit.tolist() != other.submit.tolist()
    with pytest.raises(UsageError, match="load"):
        model.span(0, 0, 0.0)


def test_a_variant_differs_in_run_times_alone_and_keeps_within_estimates() -> None:
    jobs = trace()
    variant = varied_run_times(jobs, np.random.default_rng(0), RUN_JITTER)
    for name in ("submit", "processors", "estimate"):
        np.testing.assert_array_equal(getattr(variant, name), getattr(jobs, name))
    assert (variant.run != jobs.run).mean() > 0.9
    assert (variant.run <= np.maximum(jobs.estimate, 1.0)).all()
    assert 0.15 < np.log(variant.run / jobs.run)[variant.run < jobs.estimate].std() < 0.25
    steadier = varied_run_times(jobs, np.random.default_rng(0), 0.05)
    assert 0.03 < np.log(steadier.run / jobs.run)[steadier.run < jobs.estimate].std() < 0.07
