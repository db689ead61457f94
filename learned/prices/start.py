"""A problem as the guided search takes it."""

import time
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.problems.encoding import encode
from allocopt.problems.group_tree import group_tree
from allocopt.problems.topology import Allocation, TopologyProblem
from heuristics.lns.start import Window
from heuristics.lns.state import Groups, Holdings, Moves, Open, Search
from learned.prices.glance import Glance, glance
from learned.prices.network import Weights


@dataclass(frozen=True, slots=True, eq=False)
class GuidedWindow(Window):
    """A problem and what is seen of it at one glance.

    Parameters
    ----------
    glance
        Prediction, bounds and first allocation.
    encoding_s
        How long it took to encode the problem, in seconds.
    """

    glance: Glance
    encoding_s: float

    @classmethod
    def of(cls, problem: TopologyProblem, weights: Weights, fading: float) -> "GuidedWindow":
        """Prepare a problem; ``fading`` as in `learned.prices.insertion.insert_priced`."""
        started = time.perf_counter()
        encoding = encode(problem)
        encoding_s = time.perf_counter() - started
        tree = group_tree(encoding)
        return cls(problem, encoding, tree, glance(tree, encoding.sizes, weights, fading, True), encoding_s)

    def holdings(self) -> Holdings:
        """Return who holds what in the first allocation; savings are not computed."""
        seen = self.glance
        return Holdings(seen.first, seen.length, seen.leaf, seen.nodes, np.zeros(len(seen.length)))

    def first(self, most_removed: int, moves: Moves) -> tuple[Groups, Open, Search]:
        """Begin at the first allocation."""
        return self.begin(self.holdings(), self.glance.priced, most_removed, moves)

    def warm(self, allocation: Allocation, most_removed: int, moves: Moves) -> tuple[Groups, Open, Search]:
        """Begin at another allocation."""
        return self.search(allocation, self.glance.priced, most_removed, moves)

    def guide(self, groups: Groups, search: Search, hunt: float) -> None:
        """Tell the search what the network says: worths, and ``hunt`` times the destruction scores."""
        prediction = self.glance.prediction
        groups.worth[:] = prediction.worth
        if np.isfinite(self.glance.most):
            groups.price[:] = prediction.prices
        search.eagerness[:] = hunt * prediction.destruction

    def bound(self) -> float:
        """Return the least hop cost that is not excluded."""
        saving: FloatArray = self.glance.alone
        return self.cost(min(float(saving.sum()), self.glance.most))
