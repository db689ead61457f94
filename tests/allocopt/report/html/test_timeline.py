"""Schedules as figures need them, against sums over every second."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.timelines import timeline

from allocopt.report.html.timeline import Timeline


def every_second(line: Timeline, first: np.ndarray, last: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum of the weights of the spans that cover each second."""
    seconds = np.arange(int(line.submit.min()), int(line.end.max()))
    covers = (first[:, None] <= seconds) & (seconds < last[:, None])
    total: np.ndarray = (covers * weights[:, None]).sum(axis=0)
    return total


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 9))
def test_means_between_edges_are_sums_over_seconds(seed: int, jobs: int, width: int) -> None:
    random = np.random.default_rng(seed)
    submit = random.integers(0, 40, jobs).astype(float)
    start = submit + random.integers(0, 20, jobs)
    end = start + random.integers(1, 30, jobs)
    size = random.integers(1, 5, jobs)
    line = Timeline([""] * jobs, submit, start, end, size, 64)
    held, waiting = every_second(line, start, end, size), every_second(line, submit, start, np.ones(jobs))
    bins = len(held) // width
    edges = float(submit.min()) + width * np.arange(bins + 1.0)
    for ours, seconds in ((line.held(edges), held), (line.waiting(edges), waiting)):
        expected = seconds[: bins * width].reshape(bins, width).mean(axis=1)
        np.testing.assert_allclose(ours, expected, atol=1e-9)
    assert line.utilization == pytest.approx(held.sum() / (64 * len(held)))
    busiest = int(line.busiest() - submit.min())
    assert held[busiest] == held.max()
    assert size[line.running(line.busiest())].sum() == held.max()


def test_schedules_are_one_when_all_jobs_run_at_the_same_times() -> None:
    lines = {"a": timeline(20), "b": timeline(20, seed=1), "c": timeline(20)}
    assert [names for names, _ in Timeline.distinct(lines.items())] == [["a", "c"], ["b"]]
