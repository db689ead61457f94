"""Variants of a trace keep its jobs and limits, and intervals are those of Student's t distribution."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workloads import busy_days

from allocopt.traces.variants import Interval, varied_run_times


def test_variants_keep_jobs_and_limits_and_change_run_times_by_so_much() -> None:
    jobs = busy_days(0, 4000, 10, 32)
    varied = varied_run_times(jobs, np.random.default_rng(0))
    assert varied.estimate.tolist() == jobs.estimate.tolist()
    assert varied.submit.tolist() == jobs.submit.tolist()
    assert (varied.run >= 1).all()
    assert (varied.run <= jobs.estimate).all()
    long = jobs.run < 0.8 * jobs.estimate
    logs = np.log(varied.run[long] / jobs.run[long])
    assert (logs.mean(), logs.std()) == (pytest.approx(0.0, abs=0.01), pytest.approx(0.05, abs=0.005))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_an_interval_is_that_of_the_t_distribution(values: list[float]) -> None:
    stats = pytest.importorskip("scipy.stats")
    mean, low, high = Interval.of(np.array(values))
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    assert mean == pytest.approx(np.mean(values), abs=1e-6)
    assert high - mean == pytest.approx(half, rel=1e-6, abs=1e-6)
    assert mean - low == pytest.approx(half, rel=1e-6, abs=1e-6)


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    pytest.importorskip("scipy.special")
    rng = np.random.default_rng(0)
    covered = [low <= 3.0 <= high for _, low, high in (Interval.of(rng.normal(3.0, 2.0, 8)) for _ in range(4000))]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)
