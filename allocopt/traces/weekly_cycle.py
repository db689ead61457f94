"""The weekly cycle of job arrivals: their rate by hour of the day and day of the week."""

import numpy as np

from allocopt.arrays import FloatArray

HOUR_S = 3600.0
DAY_S = 86_400.0
DAY_HOURS, WEEK_DAYS = 24, 7


def weekly_cycle(submit_s: FloatArray) -> FloatArray:
    """Return the share of arrivals in every hour of the week, shape ``(168,)``; the shares sum to 1.

    The rate of an hour is the rate of its hour of the day times the rate of its weekday. One arrival is added to each
    count, so that no rate is 0. Days without jobs are left out.

    Parameters
    ----------
    submit_s
        Arrival times in seconds >= 0, shape ``(n,)``; time 0 is the beginning of the first day of a week.
    """
    hours = (submit_s // HOUR_S).astype(np.int64)
    days = np.unique(submit_s // DAY_S).astype(np.int64)
    hour = np.bincount(hours % DAY_HOURS, minlength=DAY_HOURS) + 1.0
    seen = np.bincount(days % WEEK_DAYS, minlength=WEEK_DAYS)
    weekday = np.bincount(hours // DAY_HOURS % WEEK_DAYS, minlength=WEEK_DAYS) + 1.0
    rates = np.outer(weekday / np.maximum(seen, 1), hour).ravel()
    return np.asarray(rates / rates.sum())


def arrivals(cycle: FloatArray, count: int, days: int, rng: np.random.Generator, first_day: int = 0) -> FloatArray:
    """Draw arrival times with a weekly cycle: seconds within ``days`` days, in increasing order, shape ``(count,)``.

    Parameters
    ----------
    cycle
        Shares of arrivals, from `weekly_cycle`.
    count
        Number of arrivals.
    days
        Number of days, at least 1.
    rng
        Source of randomness.
    first_day
        Day of the week on which time 0 is, 0 .. 6.
    """
    hours = (first_day * DAY_HOURS + np.arange(days * DAY_HOURS)) % len(cycle)
    weights = cycle[hours] / cycle[hours].sum()
    drawn = rng.choice(len(hours), size=count, p=weights)
    return np.sort(drawn * HOUR_S + rng.uniform(0.0, HOUR_S, count))
