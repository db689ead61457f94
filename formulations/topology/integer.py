"""Solvers ``scip``, ``highs``, ``cp-sat``, ``scip-paper``: exact SCAS by the Pack model or the NSA paper's model.

The Pack model has one variable per distinct job size and circular start. ``y_{r,i}`` is 1 if some job of size r begins
at idle position i; this costs ``W_r(i)``. Let e_r jobs have size r. Minimize ``sum W_r(i) y_{r,i}`` so
that ``sum_i y_{r,i} = e_r`` for every distinct size r, and every idle position is covered at most once. Equal jobs
share variables, which removes the symmetry of the paper's model. The rows that cover positions have circular
consecutive ones, which makes the linear relaxation nearly integral.

The paper's model M_SCAS (section IV-A): ``y_{j,i}`` is 1 if job j begins at idle position i, ``x_{j,k}`` if it has
position k, ``D(i, n)`` are the n circular positions from i, and ``l_{j,i}`` is the hop cost of ``D(i, n_j)``:

- minimize ``sum l_{j,i} y_{j,i}`` (Eq. 2) with ``sum_i y_{j,i} = 1`` for every job (Eq. 3)
- and ``y_{j,i} <= x_{j,k}`` for every job, start i and position k in ``D(i, n_j)`` (Eq. 4), all binary (Eq. 5);
- not in the paper, but needed, and in the authors' program: ``sum_j x_{j,k} <= 1`` for every position, and
  ``sum_i x_{j,i} = n_j`` for every job.

With ``cancel`` the model also has the authors' ``cancel_j``: ``sum_i y_{j,i} + cancel_j = 1`` and
``sum_i x_{j,i} = n_j (1 - cancel_j)``, at a penalty above the cost of every allocation. So cancelling is never optimal,
and a bound of the program is a bound of the problem.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csc_array

from allocopt.arrays import IntArray
from allocopt.formulations.backends.program import BinaryProgram, Formulation, Names, Rows
from allocopt.formulations.backends.solver import HIGHS, SCIP, BackEnd, BackEndSolver
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import BLOCK_KERNELS, Blocks
from allocopt.solving import Run
from allocopt.topology import TopologySolver

LOGGER = logging.getLogger(__name__)


def first_positions(problem: TopologyProblem, allocation: Allocation) -> IntArray:
    """Return the idle position at which each job's circular block begins, shape ``(J,)``; 0 if it has all positions."""
    # A block begins where its owner differs from that of the position before. A job with all positions has no such
    # beginning.
    owners = allocation.owners(problem)
    starts = np.zeros(len(problem.jobs), dtype=np.int64)
    begins = np.flatnonzero((owners != np.roll(owners, 1)) & (owners >= 0))
    starts[owners[begins]] = begins
    return starts


@dataclass(frozen=True, slots=True)
class Pack(Formulation):
    """The Pack model of a SCAS problem, with all blocks or only those in ``kept``."""

    problem: TopologyProblem
    blocks: Blocks
    kept: IntArray | None = None

    def program(self) -> BinaryProgram:
        # Without `kept`, column ``r * m + i`` is ``y_{r,i}``; with it, column k is block ``kept[k]``.
        sizes, counts, n_idle = self.blocks.sizes, self.blocks.counts.astype(np.float64), len(self.problem.idle_nodes)
        positions, costs = np.arange(n_idle), self.blocks.costs.ravel()
        kept = np.arange(costs.size) if self.kept is None else self.kept
        # Rows of sizes come first, then rows of positions. A column has a 1 in the row of its size and in those of the
        # positions that it covers.
        size_rows, starts = np.divmod(kept, n_idle)
        heights = sizes[size_rows] + 1
        ends = np.cumsum(heights)
        # `entry` numbers the entries of each column from 0: 0 is the size's row, k the k-th covered position.
        entry = np.arange(ends[-1]) - np.repeat(ends - heights, heights)
        position = (np.repeat(starts, heights) + entry - 1) % n_idle
        rows = np.where(entry == 0, np.repeat(size_rows, heights), len(sizes) + position)
        shape = (len(sizes) + n_idle, len(kept))
        return BinaryProgram(
            costs[kept],
            csc_array((np.ones(len(rows)), rows, np.concatenate(([0], ends))), shape=shape),
            np.concatenate((counts, np.full(n_idle, -np.inf))),
            np.concatenate((counts, np.ones(n_idle))),
            [("y", sizes, positions) if self.kept is None else ("block", kept)],
            [("jobs_of_size", sizes), ("position", positions)],
        )

    def decode(self, chosen: IntArray) -> Allocation:
        sizes, starts = np.divmod(chosen if self.kept is None else self.kept[chosen], len(self.problem.idle_nodes))
        of_size = [starts[sizes == r].tolist() for r in range(len(self.blocks.sizes))]
        return Allocation.of_blocks(self.problem, self.blocks.starts_of_jobs(self.problem, of_size))

    def encode(self, allocation: Allocation) -> IntArray:
        sizes = np.searchsorted(self.blocks.sizes, self.problem.sizes)
        blocks = np.sort(sizes * len(self.problem.idle_nodes) + first_positions(self.problem, allocation))
        return blocks if self.kept is None else np.searchsorted(self.kept, blocks)


@dataclass(frozen=True, slots=True)
class Paper(Formulation):
    """The paper's model of a SCAS problem; with ``cancel``, jobs may be cancelled at a penalty."""

    problem: TopologyProblem
    blocks: Blocks
    cancel: bool = False

    def program(self) -> BinaryProgram:
        # Columns are y, then x, both by job and position, then the cancel variables.
        sizes, m, n_jobs = self.problem.sizes, len(self.problem.idle_nodes), len(self.problem.jobs)
        jobs, positions = np.arange(n_jobs), np.arange(m)
        y = np.arange(n_jobs * m)
        x, cancelled = len(y) + y, jobs[: n_jobs * self.cancel]
        cancel = 2 * len(y) + cancelled
        ones, once = np.ones(len(y)), np.ones(n_jobs)
        of_job = np.append(np.repeat(jobs, m), cancelled)
        rows = Rows()
        # Eq. 3
        rows.add(of_job, np.append(y, cancel), np.append(ones, once[cancelled]), once, once)
        # Eq. 4, a row per job, start and offset
        start = np.repeat(y, np.repeat(sizes, m))
        offset = np.concatenate([np.tile(np.arange(n), m) for n in sizes.tolist()])
        covered = len(y) + start // m * m + (start % m + offset) % m
        pairs, values = np.tile(np.arange(len(start)), 2), np.repeat([1.0, -1.0], len(start))
        rows.add(pairs, np.append(start, covered), values, np.zeros(len(start)))
        rows.add(np.tile(positions, n_jobs), x, ones, np.ones(m))
        # The variable of a cancelled job replaces its nodes.
        rows.add(of_job, np.append(x, cancel), np.append(ones, once[cancelled] * sizes[cancelled]), sizes, sizes)

        costs = self.blocks.costs[np.searchsorted(self.blocks.sizes, sizes)]
        penalty = costs.max(axis=1).sum() + self.problem.hop_cost
        names: list[Names] = [("y", jobs, positions), ("x", jobs, positions), ("cancel", cancelled)]
        covers: list[Names] = [
            ("covers", jobs[j : j + 1], positions, np.arange(n)) for j, n in enumerate(sizes.tolist())
        ]
        return rows.program(
            np.concatenate((costs.ravel(), np.zeros(costs.size), np.full(len(cancel), penalty))),
            names,
            [("starts_once", jobs), *covers, ("position", positions), ("nodes", jobs)],
        )

    def decode(self, chosen: IntArray) -> Allocation | None:
        """Return the allocation of the chosen starts; None if a job is cancelled."""
        m, n_jobs = len(self.problem.idle_nodes), len(self.problem.jobs)
        jobs, starts = np.divmod(chosen[chosen < n_jobs * m], m)
        if len(jobs) < n_jobs:
            LOGGER.info("%s: a solution cancels %d of %d jobs", self.problem.name, n_jobs - len(jobs), n_jobs)
            return None
        return Allocation.of_blocks(self.problem, starts[np.argsort(jobs)])

    def encode(self, allocation: Allocation) -> IntArray:
        starts = first_positions(self.problem, allocation)
        m, jobs = len(self.problem.idle_nodes), np.arange(len(self.problem.jobs))
        owner = np.repeat(jobs, self.problem.sizes)
        positions = np.searchsorted(self.problem.idle_nodes, np.concatenate(allocation.nodes))
        x = (len(jobs) + owner) * m + positions
        return np.sort(np.concatenate((jobs * m + starts, x)))


class PackSolver(BackEndSolver[TopologyProblem, Blocks], TopologySolver):
    """Solver of the Pack model."""

    strategies = frozenset({Strategy.SCAS})

    @property
    def largest_nonzeros(self) -> int:
        return 3_000_000 if self.back_end == HIGHS else 1_000_000

    def nonzeros(self, problem: TopologyProblem) -> int:
        """Return the number of nonzeros, known before the program is built."""
        return len(problem.idle_nodes) * int((np.unique(problem.sizes) + 1).sum())

    def refusal(self, problem: TopologyProblem) -> str | None:
        return self.too_many(self.nonzeros(problem))

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        return BLOCK_KERNELS

    tables = staticmethod(Blocks.of)

    def prepare(self, problem: TopologyProblem, blocks: Blocks, run: Run) -> object:
        # Back ends start from a given warm start, not from the sequential allocation.
        given: object = run.solution
        run.offer(Allocation.sequential(problem))
        run.prove(*blocks.cheapest())
        return given

    def formulate(self, problem: TopologyProblem, blocks: Blocks, known: float | None = None) -> Formulation:
        return Pack(problem, blocks)


@dataclass(frozen=True)
class ScipPaper(PackSolver):
    """The NSA paper's model M_SCAS in SCIP, to reproduce its Table IV.

    With ``cancel``, SCIP may cancel jobs at a penalty, as in the authors' program (``cancel_j`` of `Paper`). A solution
    with cancelled jobs is not an allocation and never becomes the incumbent. The answer is then the best complete
    allocation, at worst the sequential one, with its status. For every such solution that SCIP reports, this module
    logs the number of cancelled jobs at level INFO; the last of these numbers is the paper's column "Cancel".
    """

    name: ClassVar[str] = "scip-paper"
    largest_nonzeros: ClassVar[int] = 500_000

    back_end: BackEnd = field(default=SCIP, init=False)
    cancel: bool = False

    def nonzeros(self, problem: TopologyProblem) -> int:
        """Return the number of nonzeros of the paper's model, without the few of the cancel variables."""
        return len(problem.idle_nodes) * (2 * int(problem.sizes.sum()) + 3 * len(problem.jobs))

    def formulate(self, problem: TopologyProblem, blocks: Blocks, known: float | None = None) -> Formulation:
        return Paper(problem, blocks, self.cancel)
