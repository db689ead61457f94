"""Solvers ``scip``, ``highs`` and ``cp-sat`` of windows: SCAS to proof by the Pack model.

The Pack model has one variable per distinct job size and circular start.
``y_{r,i}`` says that some job of size r begins at idle position i: minimize ``sum W_r(i) y_{r,i}`` so that
``sum_i y_{r,i} = e_r`` for every distinct size r, which e_r jobs have, and every idle position is covered at most once.
Equal jobs are one here, which removes the symmetry of the paper's model, and the rows that cover positions have
circular consecutive ones, which makes the linear relaxation nearly integral.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from allocopt.arrays import IntArray
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.encoding import allocation_of_blocks, owners_of, sequential_allocation
from allocopt.problems.topology.tables import BLOCK_KERNELS, Blocks, blocks_of
from allocopt.solving import Run, StopReason
from allocopt.solving.budget import Budget
from allocopt.topology import TopologySolver
from formulations.backends.protocol import BinaryProgram, Formulation, NameGrid
from formulations.backends.solver import CP_SAT, HIGHS, SCIP, BackEndSolver, ask_child, stop_reason


def first_positions(problem: TopologyProblem, allocation: Allocation) -> IntArray:
    """Idle position at which each job's circular block begins, shape ``(J,)``; 0 for a job that has all positions."""
    owners = owners_of(problem, allocation)
    starts = np.zeros(len(problem.jobs), dtype=np.int64)
    begins = np.flatnonzero((owners != np.roll(owners, 1)) & (owners >= 0))
    starts[owners[begins]] = begins
    return starts


@dataclass(frozen=True, slots=True)
class Pack:
    """The Pack model of a SCAS problem.

    Of its blocks, numbered ``r * m + i``, it may choose from those that are ``kept``, rising; None for all.
    """

    problem: TopologyProblem
    blocks: Blocks
    kept: IntArray | None = None

    def program(self) -> BinaryProgram:
        """Build the program; column ``r * m + i`` is ``y_{r,i}``, or column k is block ``kept[k]``."""
        sizes, counts, n_idle = self.blocks.sizes, self.blocks.counts.astype(np.float64), len(self.problem.idle_nodes)
        positions, costs = np.arange(n_idle), self.blocks.costs.ravel()
        kept = np.arange(costs.size) if self.kept is None else self.kept
        # Rows of the sizes, then of the positions; a column has a one for its size and one per position covered.
        size_rows, starts = np.divmod(kept, n_idle)
        heights = sizes[size_rows] + 1
        ends = np.cumsum(heights)
        # `entry` counts those of each column from 0; 0 is the size's row, k the k-th position covered.
        entry = np.arange(ends[-1]) - np.repeat(ends - heights, heights)
        position = (np.repeat(starts, heights) + entry - 1) % n_idle
        rows = np.where(entry == 0, np.repeat(size_rows, heights), len(sizes) + position)
        shape = (len(sizes) + n_idle, len(kept))
        return BinaryProgram(
            costs[kept],
            csc_array((np.ones(len(rows)), rows, np.concatenate(([0], ends))), shape=shape),
            np.concatenate((counts, np.full(n_idle, -np.inf))),
            np.concatenate((counts, np.ones(n_idle))),
            (NameGrid("y", (sizes, positions)) if self.kept is None else NameGrid("block", (kept,)),),
            (NameGrid("jobs_of_size", (sizes,)), NameGrid("position", (positions,))),
        )

    def decode(self, chosen: IntArray) -> Allocation | None:
        """Hand the chosen blocks of each size to the jobs of that size."""
        sizes, starts = np.divmod(chosen if self.kept is None else self.kept[chosen], len(self.problem.idle_nodes))
        of_size = [starts[sizes == r].tolist() for r in range(len(self.blocks.sizes))]
        return allocation_of_blocks(self.problem, self.blocks.starts_of_jobs(self.problem, of_size))

    def encode(self, allocation: Allocation) -> IntArray:
        """Columns of the blocks that the jobs have."""
        sizes = np.searchsorted(self.blocks.sizes, self.problem.sizes)
        blocks = np.sort(sizes * len(self.problem.idle_nodes) + first_positions(self.problem, allocation))
        return blocks if self.kept is None else np.searchsorted(self.kept, blocks)

    def bound_of(self, bound: float) -> float:
        """Return the bound of the program, whose costs are the problem's."""
        return bound


class ProgramSolver(BackEndSolver, TopologySolver):
    """A solver that hands a binary program to a back end, which runs in a child process and is killed if it overruns.

    The program is the Pack model, unless a subclass says otherwise.

    If a back end crashes in a solve, the answer is the best that it had shown, and a warning is logged; the sequential
    allocation, and a warm start, are answers from the beginning.
    """

    strategies = frozenset({Strategy.SCAS})
    largest_nonzeros = 1_000_000

    def formulate(self, problem: TopologyProblem, blocks: Blocks) -> Formulation:
        """Write a problem as a binary program."""
        return Pack(problem, blocks)

    def nonzeros(self, problem: TopologyProblem) -> int:
        """Nonzeros of the program, known before it is built."""
        return len(problem.idle_nodes) * int((np.unique(problem.sizes) + 1).sum())

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        return self.too_many(self.nonzeros(problem))

    def program(self, problem: TopologyProblem) -> BinaryProgram:
        """Build the program of a problem, whatever its size."""
        return self.formulate(problem, blocks_of(problem)).program()

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        return BLOCK_KERNELS

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Solve the program; see `TopologySolver.search`. Iterations are branch-and-bound nodes, CP-SAT's conflicts."""
        warm_start: Allocation | None = run.solution
        run.offer(sequential_allocation(problem))
        blocks = blocks_of(problem)
        run.prove(blocks.cheapest_total())
        if not run.is_proved():
            formulation = self.formulate(problem, blocks)
            ask_child(self.back_end, run, formulation, seed, warm_start, budget.iterations)
        return stop_reason(run.clock, budget)


class ScipPack(ProgramSolver):
    """The Pack model in SCIP."""

    back_end = SCIP


class HighsPack(ProgramSolver):
    """The Pack model in HiGHS: the linear relaxation first, then the columns that it leaves."""

    back_end = HIGHS
    largest_nonzeros = 3_000_000


class CpSatPack(ProgramSolver):
    """The Pack model in CP-SAT, on integer costs."""

    back_end = CP_SAT
