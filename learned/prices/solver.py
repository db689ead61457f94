"""Solver ``lns-prices``: the large neighbourhood search of ``lns``, started and guided by a network's prediction."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import Float32Array, FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.heuristics.topology.lns.kernels import search_neighbourhoods
from allocopt.heuristics.topology.lns.solver import LARGEST, MOST_IDLE, Lns
from allocopt.heuristics.topology.lns.state import (
    MOVES,
    START_KERNELS,
    STATE,
    EncodedProblem,
    Holdings,
    Moves,
    State,
    begin_at,
    no_holdings,
    note_nodes,
    parts_of,
)
from allocopt.kernels.arrays import put, stable_order
from allocopt.kernels.compiled import helper, kernel
from allocopt.kernels.insertion import fill_tables, idle_state, single_job_savings
from allocopt.kernels.random import folded
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from allocopt.learned.prices.insertion import bound_alone, insert_priced
from allocopt.learned.prices.network import SHAPES, WEIGHTS, Prediction, Weights, features_of, predict
from allocopt.learned.weights import FOLDER, SUFFIX, Card, check_shapes, load_weights
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.certificates import PartPrices
from allocopt.problems.topology.tables import node_prices
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run

# Seconds of an insertion, per idle node times nodes of the largest job; and the largest share of the remaining time
# that a prediction may take
INSERTION_S, SHARE = 2e-10, 0.5
SHIPPED = "lns-prices"  # Name of the weights that come with the package
MOST_HUNT = 1000.0
# Share of the steps that first remove the job of the largest regret at the predicted prices, and the number of jobs
# among which this job is chosen
WORSE, RIVALS = 0.9, 4
# With at most this number of jobs, every job is charged exactly; with more jobs, charges have this relative tolerance
FEW_JOBS, TOLERANCE = 30, 0.15
BEGUN = types.Tuple((STATE, float64))


@dataclass(frozen=True, slots=True)
class LnsPrices(Lns):
    """Inserts jobs by a network's predicted prices, which also prove a bound, then continues with a guided search."""

    hottest: float = 0.7
    coldest: float = 0.05
    most_removed: int = 6
    guidance: float = 0.85  # Factor of the predicted worths in the search
    fading: float = 0.5  # Worths are multiplied by the share of nodes still to be inserted, to this power
    # Factor of the predicted destruction scores, 0 .. 1000; the product is added to the regret of a job, in hops, when
    # the job to be removed is chosen
    hunt: float = 0.0
    # ``lns-prices`` for the shipped network, or a file that ``allocopt train lns-prices`` wrote
    weights: str = SHIPPED

    name: ClassVar[str] = "lns-prices"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}),
        frozenset({Promise.ANYTIME, Promise.BOUND}),
        f"{LARGEST:,} idle nodes x nodes of the largest job, {MOST_IDLE:,} idle nodes",
    )

    def __post_init__(self) -> None:
        Lns.__post_init__(self)
        for name, value in (("guidance", self.guidance), ("fading", self.fading)):
            if not 0 < value < float("inf"):
                raise UsageError(f"{name} is {value}, must be positive")
        if not 0 <= self.hunt <= MOST_HUNT:
            raise UsageError(f"hunt is {self.hunt}, must be within 0 .. {MOST_HUNT:g}")

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        # Read the weights, too, before the clock of a solve starts.
        self.loaded()
        return (_begin_guided, *START_KERNELS, search_neighbourhoods)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        largest, n_jobs = int(problem.sizes.max()), len(problem.jobs)
        # Rough upper limit of the time of a prediction: an insertion for every distinct size, and a bound.
        seconds = INSERTION_S * len(problem.idle_nodes) * largest * 2 * min(n_jobs, largest)
        if seconds > SHARE * run.clock.remaining():
            return Lns(self.steps).search(problem, run, budget, seed)
        window, moves = EncodedProblem.of(problem), self.moves(n_jobs)
        state, most = self.begin_guided(window, self.loaded(), moves, seed)
        run.prove(window.cost(most), partial(_proof, window, parts_of(state)[0].price.copy(), most))
        cooling = self._cooling(n_jobs, warm=True)
        return self._walk(window, self._better(window, state, moves, run), run, budget, cooling)

    def loaded(self) -> Weights:
        """Return the network's parameters; raises `BadFileError` if the file holds no such network."""
        path = FOLDER / f"{SHIPPED}{SUFFIX}" if self.weights == SHIPPED else Path(self.weights)
        return load_weights(path, SHIPPED, _packed)

    def moves(self, n_jobs: int) -> Moves:
        moves = Lns.moves(self, n_jobs)
        return moves._replace(worse=WORSE, rivals=RIVALS, guidance=self.guidance, fading=self.fading)

    def begin_guided(self, window: EncodedProblem, weights: Weights, moves: Moves, seed: int) -> tuple[State, float]:
        """Begin the guided search of a window; return its state, and an upper bound of savings, in hops."""
        tree, sizes = window.tree, window.encoding.sizes
        state, most = _begin_guided(tree, sizes, weights, self.hunt, self.most_removed, moves, folded(seed))
        return state, float(most)


def _proof(window: EncodedProblem, prices: FloatArray, most: float) -> PartPrices:
    """Return the certificate of the bound: without prices if the savings of single jobs prove it, else with prices."""
    if float(window.alone().sum()) <= most:
        return PartPrices()
    of_position = np.empty(window.encoding.n_idle)
    of_position[window.tree.leaf_positions] = np.repeat(prices, np.diff(window.tree.leaf_first))
    return node_prices(window.problem, of_position)


def _packed(arrays: Mapping[str, Float32Array], card: Card) -> Weights:
    check_shapes(SHAPES, arrays)
    return Weights(*(np.ascontiguousarray(arrays[name]) for name in SHAPES))


class _Glance(NamedTuple):
    """First allocation and bounds of a window, computed from one prediction."""

    alone: FloatArray  # Saving of each job if it had all idle nodes for itself, in hops, shape ``(J,)``
    priced: FloatArray  # The same at the predicted prices, minus what the job would pay
    most: float  # Upper bound of savings by the predicted prices, in hops
    saving: float  # Saving of the first allocation, in hops
    holdings: Holdings  # Nodes of each job in the first allocation; savings are not computed


@helper(allocates=True)
def glance(tree: GroupTree, sizes: IntArray, prediction: Prediction, fading: float) -> _Glance:
    """Insert jobs of these sizes by a prediction, and compute the bounds."""
    largest = sizes.max()
    state = idle_state(tree, largest, 0.0)
    fill_tables(tree, state, largest)
    alone = single_job_savings(tree, state, largest)
    for size in range(1, largest + 1):
        alone[size] /= size
    priced, of_size = alone.copy(), np.bincount(sizes)
    most = bound_alone(tree, state, np.flatnonzero(of_size), of_size, prediction.prices, priced)
    counts = np.empty((sizes.size, prediction.worth.size), dtype=np.int64)
    order = stable_order(-prediction.order)
    tolerance = 0.0 if sizes.size <= FEW_JOBS else TOLERANCE
    saving = insert_priced(tree, state, sizes, order, prediction.worth, fading, tolerance, counts)
    holdings = no_holdings(sizes)
    for job in range(sizes.size):
        note_nodes(holdings, counts[job], job)
    return _Glance(alone[sizes], priced[sizes], most, saving, holdings)


@helper(allocates=True)
def begin_following(
    tree: GroupTree,
    sizes: IntArray,
    prediction: Prediction,
    hunt: float,
    most_removed: int,
    moves: Moves,
    seed: int,
) -> tuple[State, float]:
    """Begin the guided search by a prediction; return its state, and an upper bound of savings, in hops."""
    seen = glance(tree, sizes, prediction, moves.fading)
    state = begin_at(tree, sizes, seen.holdings, seen.priced, most_removed, moves, seed)
    put(prediction.worth, state.groups.worth)
    put(prediction.prices, state.groups.price)
    put(hunt * prediction.destruction, state.search.eagerness)
    return state, min(seen.alone.sum(), seen.most)


@kernel(BEGUN(GROUP_TREE, int64[::1], WEIGHTS, float64, int64, MOVES, int64), allocates=True)
def _begin_guided(
    tree: GroupTree, sizes: IntArray, weights: Weights, hunt: float, most_removed: int, moves: Moves, seed: int
) -> tuple[State, float]:
    prediction = predict(weights, features_of(tree, sizes))
    return begin_following(tree, sizes, prediction, hunt, most_removed, moves, seed)
