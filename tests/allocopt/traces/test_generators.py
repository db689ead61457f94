import numpy as np
import pytest

from allocopt.errors import UsageError
from allocopt.traces.generators import Range, uniform_workload


def test_every_value_of_a_range_comes_and_none_other() -> None:
    made = uniform_workload(20_000, np.random.default_rng(1))
    assert set(made.processors.tolist()) == set(range(1, 41))
    assert set(np.diff(made.submit, prepend=0.0).tolist()) == set(range(5, 31))
    assert (made.run.min(), made.run.max()) == (10, 1800)
    assert made.ids.tolist() == list(range(1, 20_001))


def test_ranges_are_parameters() -> None:
    made = uniform_workload(50, np.random.default_rng(1), nodes=(3, 3), run_s=(7, 7), gap_s=(0, 0))
    assert set(made.processors.tolist()) == {3}
    assert set(made.run.tolist()) == {7.0}
    assert set(made.submit.tolist()) == {0.0}


def test_a_longer_workload_begins_with_the_shorter_one() -> None:
    short, long = (uniform_workload(jobs, np.random.default_rng(3)) for jobs in (100, 1000))
    for name in ("ids", "submit", "run", "processors"):
        assert getattr(short, name).tolist() == getattr(long, name)[:100].tolist()


@pytest.mark.parametrize(
    ("jobs", "nodes", "run_s", "gap_s"),
    [
        (0, (1, 2), (1, 2), (1, 2)),
        (1, (0, 2), (1, 2), (1, 2)),
        (1, (3, 2), (1, 2), (1, 2)),
        (1, (1, 2), (0, 2), (1, 2)),
        (1, (1, 2), (1, 2), (-1, 2)),
    ],
)
def test_an_impossible_range_is_refused(jobs: int, nodes: Range, run_s: Range, gap_s: Range) -> None:
    with pytest.raises(UsageError, match="must"):
        uniform_workload(jobs, np.random.default_rng(0), nodes, run_s, gap_s)
