"""Periods of schedulers that act at multiples of a given time."""

import math

from allocopt.errors import UsageError

# Limits of a period: all useful periods are within them, and none within them suffers from rounding errors.
_SHORTEST_S, _LONGEST_S = 1e-3, 1e9


def check_period(period_s: float) -> None:
    """Raise `UsageError` if a period, in seconds, is out of range."""
    if not _SHORTEST_S <= period_s <= _LONGEST_S:
        raise UsageError(f"the period is {period_s} s, must be within {_SHORTEST_S:g} and {_LONGEST_S:g} s")


def due_at(period_s: float, time: float) -> float:
    """Return the first multiple of a period that is not before ``time``, in seconds."""
    number = math.ceil(time / period_s)
    # The quotient is rounded, so the multiple may be off by one.
    candidates = (multiple * period_s for multiple in (number - 1, number, number + 1))
    return min(candidate for candidate in candidates if candidate >= time)
