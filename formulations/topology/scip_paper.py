"""The model M_SCAS of the NSA paper (section IV-A), completed.

``y_{j,i}`` says that job j begins at idle position i, ``x_{j,k}`` that it has position k, ``D(i, n)`` are the n
circular positions from i, and ``l_{j,i}`` is the hop cost of ``D(i, n_j)``:

- minimize ``sum l_{j,i} y_{j,i}`` (Eq. 2) with ``sum_i y_{j,i} = 1`` for every job (Eq. 3)
- and ``y_{j,i} <= x_{j,k}`` for every job, start i and position k in ``D(i, n_j)`` (Eq. 4), all variables
  binary (Eq. 5);
- not printed, but needed, and in the authors' program: ``sum_j x_{j,k} <= 1`` for every position, and
  ``sum_i x_{j,i} = n_j`` for every job.

With ``cancel`` there is the authors' ``cancel_j`` too: ``sum_i y_{j,i} + cancel_j = 1`` and
``sum_i x_{j,i} = n_j (1 - cancel_j)``, at a penalty above the cost of every allocation. Cancelling is then never
optimal, and a bound of the program is a bound of the problem.
"""

import logging
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array, hstack, vstack

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.encoding import allocation_of_blocks
from allocopt.problems.topology.tables import Blocks
from formulations.backends.protocol import BinaryProgram, NameGrid
from formulations.backends.solver import SCIP, BackEndSpec
from formulations.topology.integer import ProgramSolver, first_positions

LOGGER = logging.getLogger(__name__)


def paper_nonzeros(problem: TopologyProblem) -> int:
    """Nonzeros of the model, the few of the cancel variables apart, known before it is built."""
    return len(problem.idle_nodes) * (2 * int(problem.sizes.sum()) + 3 * len(problem.jobs))


@dataclass(frozen=True, slots=True)
class Paper:
    """The paper's model of a problem.

    Parameters
    ----------
    problem
        A SCAS problem.
    blocks
        Its blocks.
    cancel
        Whether jobs may be cancelled at a penalty, as in the authors' program.
    """

    problem: TopologyProblem
    blocks: Blocks
    cancel: bool = False

    def program(self) -> BinaryProgram:
        """Build the program; columns are y, then x, both by job and position, then the cancel variables."""
        return BinaryProgram(self._costs(), self._matrix(), *self._sides(), self._column_grids(), self._row_grids())

    def decode(self, chosen: IntArray) -> Allocation | None:
        """Allocation of the chosen starts; None if a job is cancelled."""
        jobs, starts = np.divmod(chosen[chosen < self._n_jobs * self._n_idle], self._n_idle)
        if len(jobs) < self._n_jobs:
            cancelled = self._n_jobs - len(jobs)
            LOGGER.info("%s: a solution cancels %d of %d jobs", self.problem.name, cancelled, self._n_jobs)
            return None
        return allocation_of_blocks(self.problem, starts[np.argsort(jobs)])

    def encode(self, allocation: Allocation) -> IntArray:
        """Columns of the starts and positions that the jobs have."""
        starts = first_positions(self.problem, allocation)
        jobs = np.arange(self._n_jobs)
        owner = np.repeat(jobs, self.problem.sizes)
        positions = np.searchsorted(self.problem.idle_nodes, np.concatenate(allocation.nodes))
        x = (self._n_jobs + owner) * self._n_idle + positions
        return np.sort(np.concatenate((jobs * self._n_idle + starts, x)))

    def bound_of(self, bound: float) -> float:
        """Bound of the program: in its optimum no job is cancelled."""
        return bound

    @property
    def _n_idle(self) -> int:
        return len(self.problem.idle_nodes)

    @property
    def _n_jobs(self) -> int:
        return len(self.problem.jobs)

    def _costs(self) -> FloatArray:
        """Objective (2), and the penalties."""
        starts = self.blocks.costs[np.searchsorted(self.blocks.sizes, self.problem.sizes)]
        penalty = starts.max(axis=1).sum() + self.problem.hop_cost
        cancel = np.full(self._n_jobs * self.cancel, penalty)
        return np.concatenate((starts.ravel(), np.zeros(starts.size), cancel))

    def _matrix(self) -> csc_array:
        """Rows in the order of the module's text: (3), (4), exclusive positions, sizes."""
        sizes, m, n_jobs = self.problem.sizes, self._n_idle, self._n_jobs
        per_job = _by_job(n_jobs, m)
        exclusive = hstack([csr_array((m, n_jobs * m)), _by_position(n_jobs, m)])
        starts = hstack([per_job, csr_array(per_job.shape)])
        totals = hstack([csr_array(per_job.shape), per_job])
        rows = vstack([starts, _covering(sizes, m), exclusive, totals])
        return csc_array(hstack([rows, self._cancelling(rows.shape[0])]) if self.cancel else rows)

    def _cancelling(self, n_rows: int) -> coo_array:
        """Columns of the cancel variables: in the first rows, (3), and in the last, where they stand for all nodes."""
        jobs = np.arange(self._n_jobs)
        values = np.concatenate((np.ones(self._n_jobs), self.problem.sizes))
        rows = np.concatenate((jobs, n_rows - self._n_jobs + jobs))
        return coo_array((values, (rows, np.tile(jobs, 2))), shape=(n_rows, self._n_jobs))

    def _sides(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper sides of the rows."""
        sizes, ones = self.problem.sizes.astype(np.float64), np.ones(self._n_jobs)
        covering = self._n_idle * int(sizes.sum())
        lower = (ones, np.full(covering + self._n_idle, -np.inf), sizes)
        upper = (ones, np.zeros(covering), np.ones(self._n_idle), sizes)
        return np.concatenate(lower), np.concatenate(upper)

    def _column_grids(self) -> tuple[NameGrid, ...]:
        jobs, positions = np.arange(self._n_jobs), np.arange(self._n_idle)
        grids = (NameGrid("y", (jobs, positions)), NameGrid("x", (jobs, positions)))
        return (*grids, NameGrid("cancel", (jobs,))) if self.cancel else grids

    def _row_grids(self) -> tuple[NameGrid, ...]:
        jobs, positions = np.arange(self._n_jobs), np.arange(self._n_idle)
        covering = (
            NameGrid("covers", (jobs[j : j + 1], positions, np.arange(n)))
            for j, n in enumerate(self.problem.sizes.tolist())
        )
        return (
            NameGrid("starts_once", (jobs,)),
            *covering,
            NameGrid("position", (positions,)),
            NameGrid("nodes", (jobs,)),
        )


def _by_job(n_jobs: int, m: int) -> csr_array:
    """One row per job that sums its m variables."""
    columns = np.arange(n_jobs * m)
    return csr_array((np.ones(len(columns)), columns, np.arange(n_jobs + 1) * m), shape=(n_jobs, n_jobs * m))


def _by_position(n_jobs: int, m: int) -> csr_array:
    """One row per position that sums the variables of all jobs there."""
    columns = np.arange(n_jobs * m).reshape(n_jobs, m).T.ravel()
    return csr_array((np.ones(len(columns)), columns, np.arange(m + 1) * n_jobs), shape=(m, n_jobs * m))


def _covering(sizes: IntArray, m: int) -> csr_array:
    """Constraint (4), a row per job, start and offset: ``y_{j,i} - x_{j,(i + offset) mod m} <= 0``."""
    y, x = [], []
    for j, n in enumerate(sizes.tolist()):
        start = np.repeat(np.arange(m), n)
        offset = np.tile(np.arange(n), m)
        y.append(j * m + start)
        x.append((len(sizes) + j) * m + (start + offset) % m)
    columns = np.column_stack((np.concatenate(y), np.concatenate(x)))
    n_rows = len(columns)
    values = np.tile([1.0, -1.0], n_rows)
    return csr_array((values, columns.ravel(), np.arange(n_rows + 1) * 2), shape=(n_rows, 2 * len(sizes) * m))


@dataclass(frozen=True)
class ScipPaper(ProgramSolver):
    """The NSA paper's model M_SCAS in SCIP, to reproduce its Table IV.

    Parameters
    ----------
    cancel
        Whether SCIP may cancel jobs at a penalty, as in the authors' program (``cancel_j`` of `Paper`). A solution
        with cancelled jobs is no allocation and never becomes the incumbent: the answer is then the best complete
        allocation, at worst the sequential one, with its status. The log of this module says at level INFO, for every
        such solution that SCIP shows, how many jobs it cancels; the last of these messages is what the paper's column
        "Cancel" counts.
    """

    name: ClassVar[str] = "scip-paper"
    back_end: ClassVar[BackEndSpec] = SCIP
    largest_nonzeros: ClassVar[int] = 500_000

    cancel: bool = False

    def formulate(self, problem: TopologyProblem, blocks: Blocks) -> Paper:
        """Write the problem as the paper's model."""
        return Paper(problem, blocks, self.cancel)

    def nonzeros(self, problem: TopologyProblem) -> int:
        """Nonzeros of the paper's model."""
        return paper_nonzeros(problem)
