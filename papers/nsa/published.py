"""What the NSA paper prints: Tables III and IV, a row per epoch."""

from typing import NamedTuple


class TableThree(NamedTuple):
    """A row of Table III: mean costs, and seconds per window."""

    sequential: float
    sa_500: float
    sa_500_s: float
    sa_1000: float
    sa_1000_s: float
    nsa_500: float
    nsa_500_s: float
    improvement: float


TABLE_THREE = (
    TableThree(99152, 87322, 0.8, 86958, 1.5, 85596, 1.5, 1.57),
    TableThree(105087, 91662, 0.7, 90810, 1.5, 89026, 1.5, 1.96),
    TableThree(110728, 97723, 0.8, 97006, 1.6, 96215, 1.6, 0.82),
    TableThree(102931, 90909, 0.9, 89797, 1.9, 89127, 1.9, 0.75),
    TableThree(105780, 94016, 0.7, 92483, 1.5, 91471, 1.5, 1.09),
    TableThree(106006, 91388, 0.7, 90084, 1.5, 88919, 1.5, 1.29),
    TableThree(105448, 93022, 0.7, 91804, 1.5, 91060, 1.5, 0.81),
    TableThree(104471, 84483, 0.8, 83266, 1.6, 82668, 1.4, 0.72),
    TableThree(107885, 97214, 0.8, 96337, 1.5, 94642, 1.5, 1.76),
    TableThree(102747, 90393, 0.7, 89552, 1.4, 87163, 1.5, 2.67),
)
TABLE_THREE_MEAN = TableThree(105023.5, 91813.2, 0.76, 90809.7, 1.55, 89588.7, 1.54, 1.34)


class TableFour(NamedTuple):
    """A row of Table IV: mean costs, seconds per window, and the share of jobs that SCIP left out."""

    scip: float
    scip_s: float
    limited: float
    cancelled: float
    limited_s: float
    nsa: float
    nsa_s: float
    improvement: float


TABLE_FOUR = (
    TableFour(79597, 26.2, 79484, 0.01, 8.5, 85596, 1.6, -7.54),
    TableFour(83863, 14.7, 81421, 0.04, 8.5, 89026, 1.5, -6.16),
    TableFour(89422, 21.2, 86687, 0.04, 9.2, 96215, 1.6, -7.60),
    TableFour(82598, 21.5, 82410, 0.02, 8.7, 89127, 1.9, -7.90),
    TableFour(84438, 22.0, 80421, 0.03, 8.1, 91471, 1.5, -8.33),
    TableFour(80905, 16.6, 80380, 0.01, 7.9, 88919, 1.5, -9.91),
    TableFour(84358, 19.5, 85253, 0.01, 8.1, 91060, 1.5, -7.94),
    TableFour(76331, 12.2, 75734, 0.01, 6.3, 82668, 1.4, -8.30),
    TableFour(88091, 22.6, 87345, 0.02, 8.5, 94642, 1.6, -7.44),
    TableFour(81320, 13.1, 82013, 0.01, 7.9, 87163, 1.5, -7.19),
)
TABLE_FOUR_MEAN = TableFour(83092.3, 18.96, 82114.8, 0.02, 8.17, 89588.7, 1.56, -7.82)
