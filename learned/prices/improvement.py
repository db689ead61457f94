"""Better allocations of windows whose optimum nobody knows, by the search that the network guides."""

import numpy as np

from allocopt.problems.topology import Allocation, TopologyProblem
from heuristics.topology.lns.kernels import search_neighbourhoods
from heuristics.topology.lns.state import Window
from learned.prices.network import Weights, network_of
from learned.prices.solver import LnsPrices
from learned.prices.start import guided_state

HOTTEST, COLDEST = 0.14, 0.1
"""Temperatures of a search that begins from a good allocation of many jobs, in hops: as those of the solver."""


def improved(
    problem: TopologyProblem, known: Allocation, weights: Weights, fading: float, steps: int, rng: np.random.Generator
) -> Allocation:
    """Search on from the best known allocation; return the best one found, which may be the same.

    Parameters
    ----------
    problem, known
        The window, and its best known allocation.
    weights
        The network as it is.
    fading
        See `learned.prices.insertion.insert_priced`.
    steps
        Steps of the search.
    rng
        Source of randomness.
    """
    solver = LnsPrices()
    moves = solver.moves(len(problem.jobs))
    window, seed = Window.of(problem), int(rng.integers(2**62))
    state, _ = guided_state(window, network_of(weights), fading, solver.hunt, solver.most_removed, moves, seed)
    state = window.moved(state, known, moves)
    cooling = (COLDEST / HOTTEST) ** (1 / steps)
    search_neighbourhoods(state, moves, HOTTEST, cooling, steps)
    return window.allocation(state)
