"""Solver ``annealing-as-published``: the walk that the NSA authors' code takes, to reproduce the paper's Table III.

A rejected move restores the energy that the next one is compared with, but not the allocation that it starts from, so
that most moves start from a state that was not accepted. The temperatures are those of the code (25,000 to 2.5 at
1,000 a hop), not of Table I. Its reachable set is wider than DCAS: strategy ``free``.
"""

from dataclasses import dataclass
from typing import ClassVar

from allocopt.problems.base import Strategy
from allocopt.solving.protocol import Capabilities, Promise
from heuristics.annealing.metropolis import MOST_JOBS, WindowAnnealing


@dataclass(frozen=True, slots=True)
class AnnealingAsPublished(WindowAnnealing):
    """The published walk; only there to be compared with.

    Parameters
    ----------
    hottest, coldest, steps, most_removed
        As in `WindowAnnealing`.
    """

    hottest: float = 25.0
    coldest: float = 0.0025
    most_removed: int = 2

    name: ClassVar[str] = "annealing-as-published"
    restores: ClassVar[bool] = False
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}), frozenset({Promise.ANYTIME}), f"{MOST_JOBS:,} jobs"
    )
