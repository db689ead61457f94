"""What is asked for: the classes of jobs, and the class of every job."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.classes import JobClasses
from allocopt.kernels.tree import GroupTree
from allocopt.problems.encoding import Encoding
from allocopt.problems.job_classes import job_classes
from allocopt.problems.topology import TopologyProblem


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """The jobs of a window and, where their fragmentation has a weight, the nodes that are left over as the last one.

    Parameters
    ----------
    classes
        Jobs of equal size and equal rules.
    of_job
        Class of every job, shape ``(J,)``.
    """

    classes: JobClasses
    of_job: IntArray

    @classmethod
    def of(cls, problem: TopologyProblem, encoding: Encoding, tree: GroupTree) -> "Demand":
        """Return the demand of a window."""
        return cls(*job_classes(problem, encoding, tree, leftover_is_job=True))

    @property
    def sizes(self) -> IntArray:
        """Nodes of every job, shape ``(J,)``."""
        return self.classes.sizes[self.of_job]

    @property
    def multiplicity(self) -> IntArray:
        """Jobs of every class, shape ``(R,)``."""
        return np.bincount(self.of_job, minlength=len(self.classes.sizes))

    @property
    def largest(self) -> int:
        """Nodes of the largest job."""
        return int(self.classes.sizes.max())

    def savings_of(self, counts: IntArray, weights: FloatArray) -> FloatArray:
        """Return what every job saves with its nodes of each vertex, in hops.

        Parameters
        ----------
        counts
            Nodes of each vertex by job, shape ``(J, V)``.
        weights
            What a squared count saves by vertex, shape ``(V,)``.
        """
        classes, sizes = self.classes, self.sizes
        savings: FloatArray = counts.astype(np.float64) ** 2 @ weights / sizes
        if classes.ruled:
            bonus = classes.bonus[self.of_job][:, classes.level]
            savings = classes.factor[self.of_job] * savings + (bonus * (counts == sizes[:, None])).sum(axis=1)
        return savings
