"""What the CuSH paper prints: Table 1, and numbers of its text."""

from typing import NamedTuple


class Published(NamedTuple):
    """A row of Table 1 for a machine."""

    turnaround: float
    wait: float
    rewards: float


CUSH = "CuSH"

TABLE_ONE: dict[str, dict[str, Published]] = {
    "sierra": {
        CUSH: Published(3.33, 11.09, -379.92),
        "fcfs, depth-first": Published(7.13, 22.68, -2342.47),
        "fcfs, breadth-first": Published(5.71, 15.58, -1407.31),
        "sjf, depth-first": Published(5.19, 18.53, -853.70),
        "sjf, breadth-first": Published(4.13, 12.07, -444.83),
        "drf, depth-first": Published(7.43, 21.45, -2623.49),
        "drf, breadth-first": Published(5.54, 12.76, -1267.79),
        "random, depth-first": Published(7.17, 23.62, -2197.91),
        "random, breadth-first": Published(5.42, 13.53, -1114.54),
    },
    "summit": {
        CUSH: Published(3.80, 11.79, -489.03),
        "fcfs, depth-first": Published(6.54, 20.90, -2014.06),
        "fcfs, breadth-first": Published(7.07, 19.45, -2292.52),
        "sjf, depth-first": Published(5.23, 18.37, -949.60),
        "sjf, breadth-first": Published(5.14, 15.33, -766.75),
        "drf, depth-first": Published(6.40, 19.59, -1854.43),
        "drf, breadth-first": Published(6.69, 17.86, -2059.94),
        "random, depth-first": Published(7.01, 22.39, -2332.09),
        "random, breadth-first": Published(6.46, 16.38, -1820.30),
    },
}

HORIZON_TURNAROUND = {2: 3.66, 5: 3.33, 10: 3.34, 20: 3.37}
"""Section 4.2.2: CuSH's mean normalized turnaround time by time horizon."""
RIGHT_FROM_EPOCH = 1000
"""Section 4.2.1: from this epoch on the selection of policies is almost perfect."""
