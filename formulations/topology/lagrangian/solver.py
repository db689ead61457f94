"""Solver ``lagrangian``: SCAS of any size with a bound, exact if few blocks remain to choose from.

The count rows of the Pack model are relaxed, and a bundle method finds prices of the sizes (`relaxation`). Paths become
packings, which are improved by removing stretches and packing them again (`packing`). HiGHS solves the Pack model of
the blocks that a better packing could use. See ``docs/scas.md``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from allocopt.formulations.backends.solver import HIGHS
from allocopt.formulations.topology.integer import Pack, first_positions
from allocopt.formulations.topology.lagrangian.packing import (
    MOST_STRETCHES,
    PACKING_KERNELS,
    Packing,
    Stretches,
    improve_packing,
)
from allocopt.formulations.topology.lagrangian.relaxation import RELAXATION_KERNELS, Bundle, Path, Relaxation
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import BLOCK_KERNELS, Blocks
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget
from allocopt.topology import TopologySolver

MOST_CUTS = 100
# The first price of a size is a quantile of the costs of about SAMPLE of its blocks.
QUANTILE, SAMPLE = 0.3, 1000
# Once the promised gain of the next step is at most this share of the bound, prices are roughly right, or final.
ROUGH, CONVERGED = 1e-5, 1e-7
FAIR_IMBALANCE = 1.2  # paths whose imbalance is within this factor of the least so far are made into packings
NOTICEABLE = 1e-3  # relative improvement for which a packing is offered while the prices are searched
MOST_CANDIDATES = 8
MOST_TAKEN, MOST_ENTRIES = 8, 65_536  # most blocks that a move removes, and most entries of its table
SLICE = 200  # moves between two looks at the clock
# The search turns to the next packing once at least LEAST_SLICES slices, with at least MOVES_PER_BLOCK moves per block,
# have saved at most the share QUIET of the cost.
LEAST_SLICES, MOVES_PER_BLOCK, QUIET = 8, 16, 1e-7
NOISE = 0.002  # standard deviation of prices around the best ones, relative to them
LARGEST_BLOCKS = 30_000_000
# COSTING_S: seconds to compute the cost of a block. ARRANGING: time from then until the first result, as a multiple of
# the time for the costs of all blocks.
COSTING_S, ARRANGING = 1.5e-8, 2.5
# Most steps of the prices; most packings that are improved before the program gets the remaining blocks.
PRICE_STEPS, ROUNDS = 400, 8
# Number of remaining blocks for which the program is solved at once, and most nonzeros for which it is solved at all.
FEW_BLOCKS, LARGEST_NONZEROS = 500, 3_000_000


@dataclass(frozen=True)
class Lagrangian(TopologySolver):
    """SCAS by Lagrangian relaxation of the count rows."""

    name: ClassVar[str] = "lagrangian"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.SCAS}),
        frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
        f"{LARGEST_BLOCKS:,} blocks: idle nodes x distinct sizes; exact if the remaining blocks have at most "
        f"{LARGEST_NONZEROS:,} nonzeros",
    )

    def refusal(self, problem: TopologyProblem) -> str | None:
        n_blocks = _number_of_blocks(problem)
        return None if n_blocks <= LARGEST_BLOCKS else f"it has {n_blocks:,} blocks, the limit is {LARGEST_BLOCKS:,}"

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        return (*BLOCK_KERNELS, *RELAXATION_KERNELS, *PACKING_KERNELS)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        # Iterations limit three numbers: steps of the prices, rounds of moves, and branch-and-bound nodes.
        run.offer(Allocation.sequential(problem))
        if run.clock.remaining() < COSTING_S * _number_of_blocks(problem):
            return StopReason.TIME_LIMIT
        started = run.clock.elapsed()
        blocks = Blocks.of(problem)
        costing_s = run.clock.elapsed() - started
        run.prove(*blocks.cheapest())
        if run.is_proved() or run.clock.expired() or run.clock.remaining() < ARRANGING * costing_s:
            return StopReason.TIME_LIMIT
        steps = min(PRICE_STEPS, budget.iterations or PRICE_STEPS)
        try:
            search = _Search(problem, blocks, run, seed)
            search.find_prices(steps)
            # Improve packings until few blocks remain that a better one could use.
            rounds, kept, done = min(ROUNDS, budget.iterations or ROUNDS), None, 0
            # If only the time is limited, continue while too many blocks remain for the program.
            is_endless = budget.seconds is not None and budget.iterations is None
            while not run.is_proved() and not run.clock.expired():
                if done >= rounds and (kept is not None or not is_endless):
                    break
                search.improve()
                done += 1
                if run.objective is not None:
                    kept = search.relaxation.survivors(search.bundle.prices, run.objective, LARGEST_NONZEROS)
                if kept is not None and len(kept) <= FEW_BLOCKS:
                    break
            else:
                # The optimum is proved, or the time is over.
                kept = None
        except TimeoutError:
            return StopReason.TIME_LIMIT
        if kept is not None:
            return HIGHS.solve(problem, run, Pack(problem, blocks, kept), budget, seed, run.solution)
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        return StopReason.COMPLETED if budget.iterations is None else StopReason.ITERATIONS


def _number_of_blocks(problem: TopologyProblem) -> int:
    return len(problem.idle_nodes) * len(np.unique(problem.sizes))


class _Search:
    def __init__(self, problem: TopologyProblem, blocks: Blocks, run: Run, seed: int) -> None:
        self.relaxation = Relaxation(blocks, run.clock)
        self._problem, self._blocks, self._run = problem, blocks, run
        self._rng = np.random.default_rng(seed)
        scale = blocks.sizes.astype(np.float64) ** 1.5
        some = blocks.costs[:, :: max(1, blocks.costs.shape[1] // SAMPLE)]
        self.bundle = Bundle(self.relaxation, np.quantile(some, QUANTILE, axis=1), scale, MOST_CUTS)
        self._least_imbalance = self._shown = np.inf
        sizes, starts = np.searchsorted(blocks.sizes, problem.sizes), first_positions(problem, run.solution)
        order = np.argsort(starts)
        self._candidates = [Packing.of(blocks, sizes[order], starts[order])]
        self._pack(self.bundle.path)
        self._work = Stretches.of(blocks, MOST_TAKEN + MOST_STRETCHES, MOST_ENTRIES)
        self._slices = max(LEAST_SLICES, MOVES_PER_BLOCK * len(problem.jobs) // SLICE)

    def find_prices(self, most_steps: int) -> None:
        """Raise the bound, make packings from paths on the way, and improve one packing at the rough prices."""
        bundle, steps = self.bundle, 0
        for promise in (ROUGH, CONVERGED):
            try:
                while steps < most_steps and bundle.promise > promise * bundle.value and not self._is_over():
                    steps += 1
                    self._pack(bundle.step())
                    self._run.prove(bundle.value, self._blocks.size_prices(bundle.prices))
            finally:
                self._offer(self._candidates[0])
            self._work.prices[:] = bundle.prices
            self._work.labels[:] = self.relaxation.labels(bundle.prices)
            if promise == ROUGH and len(self._problem.jobs) > 1:
                self._candidates[0] = self._improved(self._candidates[0])[0]

    def improve(self) -> None:
        is_quiet, prices = len(self._problem.jobs) < 2, self.bundle.prices
        if self._candidates:
            packing: Packing | None = self._candidates.pop(0)
        else:
            prices = prices * (1.0 + NOISE * self._rng.standard_normal(len(prices)))
            packing = Packing.of_path(self._blocks, self.relaxation.path(prices), self._run.clock)
        while packing is not None and not is_quiet and not self._is_over():
            packing, is_quiet = self._improved(packing)

    def _improved(self, packing: Packing) -> tuple[Packing, bool]:
        work = self._work
        work.block_sizes[:], work.block_starts[:] = packing.sizes, packing.starts
        for _ in range(self._slices):
            if self._is_over():
                break
            improve_packing(work, MOST_TAKEN, SLICE, self._rng)
        improved = Packing.of(self._blocks, work.block_sizes.copy(), work.block_starts.copy())
        self._offer(improved)
        return improved, packing.cost - improved.cost <= QUIET * improved.cost

    def _is_over(self) -> bool:
        return self._run.clock.expired() or self._run.is_proved()

    def _pack(self, path: Path) -> None:
        # Number of nodes in blocks of which the path has too many or too few.
        wrong = float(self._blocks.sizes @ np.abs(self._blocks.counts - path.used))
        if wrong > FAIR_IMBALANCE * self._least_imbalance:
            return
        self._least_imbalance = min(wrong, self._least_imbalance)
        packing = Packing.of_path(self._blocks, path, self._run.clock)
        if packing is None or any(packing.cost == other.cost for other in self._candidates):
            return
        self._candidates.append(packing)
        self._candidates.sort(key=lambda candidate: candidate.cost)
        del self._candidates[MOST_CANDIDATES:]
        if self._candidates[0].cost < self._shown * (1.0 - NOTICEABLE):
            self._shown = self._candidates[0].cost
            self._offer(self._candidates[0])

    def _offer(self, packing: Packing) -> None:
        if self._run.objective is None or packing.cost < self._run.objective:
            blocks, starts = self._blocks, packing.starts % self._blocks.costs.shape[1]
            by_size = [starts[packing.sizes == r].tolist() for r in range(len(blocks.sizes))]
            self._run.offer(Allocation.of_blocks(self._problem, blocks.starts_of_jobs(self._problem, by_size)))
