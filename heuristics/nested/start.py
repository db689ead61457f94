"""Between allocations and the chains that the search works on."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.encoding import allocation_of_owners, encode, owners_of
from allocopt.problems.topology import Allocation, TopologyProblem
from heuristics.nested.circle import NOBODY, Circle, Ring
from heuristics.nested.insertion import Slide
from heuristics.nested.kernels import Search

LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A problem as the search takes it.

    Parameters
    ----------
    problem
        The problem.
    circle
        What does not change in its search.
    n_groups
        Groups of the lowest level that tells idle nodes apart.
    n_vertices
        Groups of all levels.
    """

    problem: TopologyProblem
    circle: Circle
    n_groups: int
    n_vertices: int

    @classmethod
    def of(cls, problem: TopologyProblem) -> "Start":
        """Prepare a problem."""
        encoding = encode(problem)
        # A level of one group saves the same for every allocation.
        telling = np.flatnonzero(encoding.n_groups > 1)
        counts = encoding.n_groups[telling]
        groups = encoding.groups[telling] + (np.cumsum(counts) - counts)[:, np.newaxis]
        sizes = encoding.sizes.astype(np.int64)
        full = int(sizes.sum()) == encoding.n_idle
        circle = Circle(
            np.ascontiguousarray(np.hstack((groups, np.zeros((len(telling), int(full)), dtype=np.int64))).T),
            encoding.weights[telling],
            sizes,
            np.append(0, np.cumsum(sizes)),
            encoding.n_idle if full else -1,
        )
        return cls(problem, circle, int(counts[0]) if len(counts) else 0, int(counts.sum()))

    def slide(self) -> Slide:
        """Allocate the working space of the insertion, without prices."""
        return Slide(
            np.zeros(self.n_vertices, dtype=np.int64),
            np.zeros(self.n_vertices),
            np.zeros(1, dtype=np.int64),
            np.zeros(2),
        )

    def empty_ring(self) -> Ring:
        """Return the ring of all positions, all of them left over."""
        size = len(self.circle.groups)
        positions = np.arange(size)
        return Ring(
            np.full(size, NOBODY, dtype=np.int64),
            np.roll(positions, -1),
            np.roll(positions, 1),
            np.zeros(int(self.circle.offset[-1]), dtype=np.int64),
            np.array([size]),
        )

    def ring(self, allocation: Allocation) -> Ring:
        """Return the ring of an allocation that is non-crossing."""
        ring = self.empty_ring()
        ring.owners[: len(self.problem.idle_nodes)] = owners_of(self.problem, allocation)
        left = np.flatnonzero(ring.owners == NOBODY)
        ring.after[left], ring.before[left] = np.roll(left, -1), np.roll(left, 1)
        ring.idle[0] = len(left)
        # From a left-over position on, every job's nodes come in the order of its chain.
        turned = np.roll(np.arange(len(ring.owners)), -int(left[0]))
        order = np.argsort(ring.owners[turned], kind="stable")
        ring.chains[:] = turned[order[len(left) :]]
        return ring

    def search(self, ring: Ring, seed: int) -> Search:
        """Begin at a ring."""
        n_jobs = len(self.circle.sizes)
        savings = self.savings(ring.chains)
        total = float(savings.sum())
        return Search(
            savings,
            np.array([total, total]),
            ring.chains.copy(),
            changed=np.zeros(n_jobs, dtype=np.int64),
            removed=np.zeros(n_jobs, dtype=np.int64),
            order=np.zeros(n_jobs, dtype=np.int64),
            out=np.zeros(n_jobs, dtype=np.int64),
            held=np.zeros_like(ring.chains),
            saved=np.zeros(n_jobs),
            random=np.array([np.random.default_rng(seed).integers(1, LARGEST_SEED)]),
        )

    def savings(self, chains: IntArray) -> FloatArray:
        """Return what each job saves of its hop cost, in hops, shape ``(J,)``."""
        circle = self.circle
        jobs = np.repeat(np.arange(len(circle.sizes)), circle.sizes)
        savings = np.zeros(len(circle.sizes))
        for level, weight in enumerate(circle.weights):
            pairs, counts = np.unique(jobs * self.n_vertices + circle.groups[chains, level], return_counts=True)
            np.add.at(savings, pairs // self.n_vertices, weight * counts.astype(np.float64) ** 2)
        return savings / circle.sizes

    def allocation(self, chains: IntArray) -> Allocation:
        """Return the allocation of some chains."""
        owners = np.full(len(self.problem.idle_nodes), NOBODY, dtype=np.int64)
        owners[chains] = np.repeat(np.arange(len(self.circle.sizes)), self.circle.sizes)
        return allocation_of_owners(self.problem, owners)
