"""What tests say of results."""

import pytest

from allocopt.solving.result import Result, Status, StopReason


def assert_proved(result: Result, expected: float, relative: float = 1e-9) -> None:
    """Assert that a result is proved, and its objective the expected one within a relative distance."""
    assert result.status is Status.OPTIMAL
    assert result.stopped_by is StopReason.PROVED
    assert result.objective == pytest.approx(expected, rel=relative, abs=1e-9)
    assert result.bound == result.objective
