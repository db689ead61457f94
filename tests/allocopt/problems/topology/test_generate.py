from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.options import FatTreeOptions
from allocopt.errors import UsageError
from allocopt.problems.topology.generate import _fitting_sizes, _idle_runs, drawn_window


@given(st.integers(1, 60), st.data())
def test_exactly_the_asked_nodes_are_idle_in_the_asked_number_of_runs(size: int, data: st.DataObject) -> None:
    n_idle = data.draw(st.integers(1, size))
    mean_run = data.draw(st.floats(1, 70))
    idle = _idle_runs(size, n_idle, mean_run, np.random.default_rng(data.draw(st.integers(0, 9))))
    assert len(idle) == len(set(idle.tolist())) == n_idle
    assert idle.min() >= 0
    assert idle.max() < size
    runs = 1 + int((np.diff(idle) > 1).sum())
    assert runs == max(1, min(round(n_idle / mean_run), size - n_idle + 1))


@pytest.mark.slow
def test_all_ways_to_lay_two_runs_are_equally_likely() -> None:
    rng = np.random.default_rng(0)
    drawn = Counter(tuple(_idle_runs(6, 3, 1.5, rng).tolist()) for _ in range(8000))
    ways = {way for way in combinations(range(6), 3) if (np.diff(way) > 1).sum() == 1}
    assert set(drawn) == ways
    assert len(ways) == comb(2, 1) * comb(4, 2)
    chi_squared = sum((count - 8000 / len(ways)) ** 2 / (8000 / len(ways)) for count in drawn.values())
    assert chi_squared < 31.3  # 99.9 % quantile at 11 degrees of freedom


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 30), st.floats(0.05, 1), st.integers(1, 300))
def test_sizes_are_in_range_and_fit_together(n_jobs: int, least: int, more: int, load: float, n_idle: int) -> None:
    rng = np.random.default_rng(1)
    if n_jobs * least > int(load * n_idle):
        with pytest.raises(UsageError, match="do not fit"):
            _fitting_sizes(n_jobs, (least, least + more), n_idle, load, rng)
        return
    sizes = _fitting_sizes(n_jobs, (least, least + more), n_idle, load, rng)
    assert len(sizes) == n_jobs
    assert least <= sizes.min() <= sizes.max() <= least + more
    assert sizes.sum() <= load * n_idle


def test_sizes_that_fit_are_uniform_and_left_alone() -> None:
    sizes = _fitting_sizes(2000, (2, 4), 10_000, 1.0, np.random.default_rng(3))
    assert set(sizes.tolist()) == {2, 3, 4}
    assert abs(sizes.mean() - 3) < 0.1


def test_a_loaded_window_is_nearly_full() -> None:
    problem = drawn_window("w", np.random.default_rng(0), 1000, 50, load=0.5, tree=FatTreeOptions(50, 20, 10))
    assert 450 <= problem.sizes.sum() <= 500
    assert (len(problem.idle_nodes), len(problem.jobs)) == (1000, 50)


@pytest.mark.parametrize(
    ("n_idle", "mean_run", "load"),
    [(0, 5.0, 0.9), (13, 5.0, 0.9), (5, 0.5, 0.9), (5, float("nan"), 0.9), (5, 5.0, 0.0), (5, 5.0, 1.01)],
)
def test_a_senseless_request_is_refused(n_idle: int, mean_run: float, load: float) -> None:
    with pytest.raises(UsageError, match="must be"):
        drawn_window("w", np.random.default_rng(0), n_idle, 1, 2, 40, mean_run, load, FatTreeOptions(2, 2, 3))
