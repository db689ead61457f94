"""What the DRAS paper prints."""

from typing import NamedTuple


class Shares(NamedTuple):
    """Shares of jobs and of core hours in per cent."""

    jobs: float
    core_hours: float


BACKFILLED, READY, RESERVED = "backfilled", "ready", "reserved"
ALL_READY = {BACKFILLED: Shares(0, 0), READY: Shares(100, 100), RESERVED: Shares(0, 0)}

TABLE_FOUR: dict[str, dict[str, Shares]] = {
    "Optimization": ALL_READY,
    "Decima-PG": ALL_READY,
    "BinPacking": ALL_READY,
    "Random": ALL_READY,
    "FCFS/B": {BACKFILLED: Shares(79.25, 30.45), READY: Shares(9.88, 16.99), RESERVED: Shares(10.87, 52.56)},
    "DRAS-DQL": {BACKFILLED: Shares(84.83, 34.17), READY: Shares(6.84, 10.91), RESERVED: Shares(15.17, 54.92)},
    "DRAS-PG": {BACKFILLED: Shares(83.76, 33.67), READY: Shares(8.63, 11.29), RESERVED: Shares(7.61, 55.04)},
    "DRAS-A2C": {BACKFILLED: Shares(80.36, 38.48), READY: Shares(10.60, 13.95), RESERVED: Shares(9.03, 47.56)},
    "DRAS-PPO": {BACKFILLED: Shares(79.73, 38.57), READY: Shares(10.96, 13.39), RESERVED: Shares(9.30, 48.03)},
}
"""Table 4, on 21 months of Theta. The shares of jobs of DRAS-DQL add up to more than 100: a misprint."""

LONGEST_WAIT_H = {"FCFS/B": 13 * 24.0, "Decima-PG": 170 * 24.0, "BinPacking": 95 * 24.0, "Random": 170 * 24.0}
"""Section 6.2: longest waits on 21 months of Theta; those of DRAS are said to be within 14 .. 20 days."""
