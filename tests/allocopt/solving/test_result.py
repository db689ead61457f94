"""Gaps."""

import pytest

from allocopt.solving.result import gap_between


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [
        (100.0, 90.0, 0.1),
        (100.0, 110.0, 0.1),
        (-50.0, -75.0, 0.5),
        (100.0, 100.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, -1e-9, 1.0),
        (None, 1.0, None),
        (1.0, None, None),
        (None, None, None),
    ],
)
def test_a_gap_is_relative_to_the_objective(objective: float | None, bound: float | None, gap: float | None) -> None:
    assert gap_between(objective, bound) == (None if gap is None else pytest.approx(gap))
