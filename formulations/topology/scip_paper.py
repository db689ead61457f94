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

from allocopt.arrays import IntArray
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.encoding import allocation_of_blocks
from allocopt.problems.topology.tables import Blocks
from formulations.backends.protocol import BinaryProgram, NameGrid, Rows
from formulations.backends.solver import SCIP
from formulations.topology.integer import ProgramSolver, first_positions

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Paper:
    """The paper's model of a SCAS problem.

    With ``cancel``, jobs may be cancelled at a penalty, as in the authors' program.
    """

    problem: TopologyProblem
    blocks: Blocks
    cancel: bool = False

    def program(self) -> BinaryProgram:
        """Build the program; columns are y, then x, both by job and position, then the cancel variables."""
        sizes, m, n_jobs = self.problem.sizes, self._n_idle, self._n_jobs
        jobs, positions = np.arange(n_jobs), np.arange(m)
        y = np.arange(n_jobs * m)
        x, cancelled = len(y) + y, jobs[: n_jobs * self.cancel]
        cancel = 2 * len(y) + cancelled
        ones, once = np.ones(len(y)), np.ones(n_jobs)
        of_job = np.append(np.repeat(jobs, m), cancelled)
        rows = Rows()
        # (3)
        rows.add(of_job, np.append(y, cancel), np.append(ones, once[cancelled]), once, once)
        # (4), a row per job, start and offset
        start = np.repeat(y, np.repeat(sizes, m))
        offset = np.concatenate([np.tile(np.arange(n), m) for n in sizes.tolist()])
        covered = len(y) + start // m * m + (start % m + offset) % m
        pairs, values = np.tile(np.arange(len(start)), 2), np.repeat([1.0, -1.0], len(start))
        rows.add(pairs, np.append(start, covered), values, np.zeros(len(start)))
        rows.add(np.tile(positions, n_jobs), x, ones, np.ones(m))
        # In place of its nodes a job may have what counts for its cancelling.
        rows.add(of_job, np.append(x, cancel), np.append(ones, once[cancelled] * sizes[cancelled]), sizes, sizes)

        costs = self.blocks.costs[np.searchsorted(self.blocks.sizes, sizes)]
        penalty = costs.max(axis=1).sum() + self.problem.hop_cost
        names = [NameGrid("y", (jobs, positions)), NameGrid("x", (jobs, positions)), NameGrid("cancel", (cancelled,))]
        covers = (NameGrid("covers", (jobs[j : j + 1], positions, np.arange(n))) for j, n in enumerate(sizes.tolist()))
        position, nodes = NameGrid("position", (positions,)), NameGrid("nodes", (jobs,))
        return rows.program(
            np.concatenate((costs.ravel(), np.zeros(costs.size), np.full(len(cancel), penalty))),
            *(names, [NameGrid("starts_once", (jobs,)), *covers, position, nodes]),
        )

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
        """Return the bound of the program: in its optimum no job is cancelled."""
        return bound

    @property
    def _n_idle(self) -> int:
        return len(self.problem.idle_nodes)

    @property
    def _n_jobs(self) -> int:
        return len(self.problem.jobs)


@dataclass(frozen=True)
class ScipPaper(ProgramSolver):
    """The NSA paper's model M_SCAS in SCIP, to reproduce its Table IV.

    With ``cancel``, SCIP may cancel jobs at a penalty, as in the authors' program (``cancel_j`` of `Paper`). A solution
    with cancelled jobs is no allocation and never becomes the incumbent: the answer is then the best complete
    allocation, at worst the sequential one, with its status. The log of this module says at level INFO, for every such
    solution that SCIP shows, how many jobs it cancels; the last of these messages is what the paper's column "Cancel"
    counts.
    """

    name: ClassVar[str] = "scip-paper"
    back_end = SCIP
    largest_nonzeros = 500_000

    cancel: bool = False

    def formulate(self, problem: TopologyProblem, blocks: Blocks) -> Paper:
        """Write the problem as the paper's model."""
        return Paper(problem, blocks, self.cancel)

    def nonzeros(self, problem: TopologyProblem) -> int:
        """Nonzeros of the paper's model, the few of the cancel variables apart."""
        return len(problem.idle_nodes) * (2 * int(problem.sizes.sum()) + 3 * len(problem.jobs))
