"""Solver ``lagrangian``: SCAS of any size with a bound, and to proof where few blocks are left to choose from.

The count rows of the Pack model are relaxed (`relaxation`), prices of the sizes found by a bundle method (`bundle`),
paths made into packings (`packing`), these improved by taking out stretches and packing them anew (`stretch_kernels`),
and the blocks that a better packing could use handed to HiGHS as a Pack model; see ``docs/scas.md``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.base import Strategy
from allocopt.problems.blocks import BLOCK_KERNELS, blocks_of
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.solving.trivial import sequential_allocation
from formulations.integer.base import ask_child, stop_reason
from formulations.integer.pack import Pack
from formulations.integer.solvers import HIGHS
from formulations.lagrangian.bundle_kernels import balance_weights
from formulations.lagrangian.packing_kernels import insert_blocks, packing_cost
from formulations.lagrangian.relaxation import RELAXATION_KERNELS, OutOfTime
from formulations.lagrangian.search import CONVERGED, ROUGH, Search
from formulations.lagrangian.stretch_kernels import improve_packing

LARGEST_BLOCKS = 30_000_000
COSTING_S, ARRANGING = 1.5e-8, 2.5
"""Seconds to cost a block, and how many times as long it takes then until anything is found."""

PRICE_STEPS, ROUNDS = 400, 8
"""Steps of the prices, and packings that are improved before the blocks that are left go to the program."""

FEW_BLOCKS, LARGEST_NONZEROS = 500, 3_000_000
"""So few blocks go to the program at once; more nonzeros do not go there."""


@dataclass(frozen=True)
class Lagrangian(TopologySolver):
    """SCAS by Lagrangian relaxation of the count rows."""

    name: ClassVar[str] = "lagrangian"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.SCAS}),
        frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
        f"{LARGEST_BLOCKS:,} blocks: idle nodes x distinct sizes; to proof where the blocks that are left have "
        f"{LARGEST_NONZEROS:,} nonzeros",
    )

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        n_blocks = number_of_blocks(problem)
        return None if n_blocks <= LARGEST_BLOCKS else f"it has {n_blocks:,} blocks, {LARGEST_BLOCKS:,} are taken"

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        of_packings = (balance_weights, insert_blocks, packing_cost, improve_packing)
        return (*BLOCK_KERNELS, *RELAXATION_KERNELS, *of_packings)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Find prices, improve packings, close the gap; see `TopologySolver.search`.

        Iterations limit the steps of the prices, the rounds of moves, and the nodes of branch and bound, each.
        """
        run.offer(sequential_allocation(problem))
        if run.clock.remaining() < COSTING_S * number_of_blocks(problem):
            return StopReason.TIME_LIMIT
        started = run.clock.elapsed()
        blocks = blocks_of(problem)
        costing_s = run.clock.elapsed() - started
        run.prove(blocks.cheapest_total())
        if run.is_proved() or run.clock.expired() or run.clock.remaining() < ARRANGING * costing_s:
            return StopReason.TIME_LIMIT
        steps = min(PRICE_STEPS, budget.iterations or PRICE_STEPS)
        try:
            search = Search(problem, blocks, run, seed)
            search.find_prices(ROUGH, steps)
            search.improve_a_little()
            search.find_prices(CONVERGED, steps)
            kept = self._few_blocks(search, run, budget)
        except OutOfTime:
            return StopReason.TIME_LIMIT
        if kept is not None:
            ask_child(HIGHS, run, Pack(problem, blocks, kept), seed, run.solution, budget.iterations)
        return stop_reason(run.clock, budget)

    def _few_blocks(self, search: Search, run: Run, budget: Budget) -> IntArray | None:
        """Improve packings until few blocks are left that a better one could use; return those, None if too many.

        A limit on the time alone is used up before they are too many.
        """
        rounds = min(ROUNDS, budget.iterations or ROUNDS)
        kept, done = None, 0
        is_endless = budget.seconds is not None and budget.iterations is None
        while not run.is_proved() and not run.clock.expired():
            if done >= rounds and (kept is not None or not is_endless):
                return kept
            search.improve()
            done += 1
            kept = search.surviving_blocks(LARGEST_NONZEROS)
            if kept is not None and len(kept) <= FEW_BLOCKS:
                return kept
        return None


def number_of_blocks(problem: TopologyProblem) -> int:
    """Idle nodes times distinct sizes."""
    return len(problem.idle_nodes) * len(np.unique(problem.sizes))
