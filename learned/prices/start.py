"""The state that the guided search begins with."""

from allocopt.kernels.random import folded
from heuristics.topology.lns.state import Moves, State, Window
from learned.prices.glance import begin_guided
from learned.prices.network import Network


def guided_state(
    window: Window, network: Network, fading: float, hunt: float, most_removed: int, moves: Moves, seed: int
) -> tuple[State, float]:
    """Ask the network, and begin as it says; return the state, and what no allocation saves more than, in hops.

    Parameters
    ----------
    window
        The problem.
    network
        Whom to ask.
    fading
        See `learned.prices.insertion.insert_priced`.
    hunt
        By what the destruction scores are multiplied.
    most_removed, moves, seed
        See `heuristics.topology.lns.state.begin_at`.
    """
    sizes = window.encoding.sizes
    state, most = begin_guided(window.tree, sizes, network, fading, hunt, most_removed, moves, folded(seed))
    return state, float(most)
