"""The Lagrangian bound of a window: leaves have prices, and every block is placed alone."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.solving.budget import Clock
from formulations.dynamic.dcas.classes import Classes
from formulations.dynamic.dcas.prices.kernels import ascend, reply_space
from formulations.dynamic.dcas.sequence import Sequence

ITERATIONS = 120
LOOKS = 6
"""Looks at the clock while the bound rises."""


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Prices of leaves and what they prove.

    Parameters
    ----------
    leaf
        Price of a node of each leaf, in the unit of cost.
    best
        Saving less prices of a block of each class alone.
    bound
        Bound on the cost of any disjoint node sets.
    """

    leaf: FloatArray
    best: FloatArray
    bound: float


def no_prices(sequence: Sequence, classes: Classes) -> Prices:
    """Return the bound without prices: every block alone."""
    nothing = Prices(np.zeros(len(sequence.pod)), np.zeros(len(classes.sizes)), -np.inf)
    return _ascent(sequence, classes, nothing, np.inf, [1])


def good_prices(sequence: Sequence, classes: Classes, prices: Prices, upper: float, clock: Clock) -> Prices:
    """Raise the bound by a fixed number of subgradient steps, or fewer if the time runs out.

    Parameters
    ----------
    sequence, classes
        The window.
    prices
        To begin with.
    upper
        Cost of a known allocation.
    clock
        The running time.
    """
    steps = itertools.takewhile(lambda _: not clock.expired(), itertools.repeat(ITERATIONS // LOOKS, LOOKS))
    return _ascent(sequence, classes, prices, upper, steps)


def _ascent(sequence: Sequence, classes: Classes, prices: Prices, upper: float, steps: Iterable[int]) -> Prices:
    """Make some steps, and some more, until the bound reaches ``upper``."""
    leaf, best, bound = prices.leaf.copy(), prices.best.copy(), prices.bound
    trial, direction = leaf.copy(), np.zeros(len(leaf))
    excess = np.zeros(len(leaf) + len(best))
    pace = np.array([1.0, 0.0])
    space = reply_space(sequence, int(classes.sizes[classes.factor > 0].max()))
    for number in steps:
        if bound >= upper:
            break
        bound = ascend(sequence, classes, leaf, best, trial, direction, excess, space, pace, bound, upper, number)
    return Prices(leaf, best, bound)
