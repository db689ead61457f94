"""Multisets of job sizes, numbered in mixed radix: the states of the SCAS dynamic program."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Multisets:
    """All multisets of at most ``counts[r]`` jobs of each size.

    Parameters
    ----------
    strides
        Distance between a multiset's number and the number of the one with one more job of size r, shape ``(R,)``.
    digits
        Number of jobs of size r in each multiset, shape ``(R, S)``.
    used
        Nodes that each multiset takes, shape ``(S,)``.
    """

    strides: IntArray
    digits: IntArray
    used: IntArray

    @property
    def full(self) -> int:
        """Number of the multiset of all jobs."""
        return int(self.digits.shape[1]) - 1

    @classmethod
    def of(cls, sizes: IntArray, counts: IntArray) -> "Multisets":
        """Enumerate the multisets of ``counts[r]`` jobs of size ``sizes[r]``."""
        strides = np.concatenate(([1], np.cumprod(counts + 1)[:-1]))
        states = np.arange(np.prod(counts + 1))
        digits = states // strides[:, None] % (counts[:, None] + 1)
        return cls(strides, digits, sizes @ digits)


def number_of_multisets(sizes: IntArray) -> int:
    """Count the multisets of jobs of these sizes, one per job, without enumerating them."""
    _, counts = np.unique(sizes, return_counts=True)
    # Python integers: the product overflows 64 bits for a few hundred jobs.
    product = 1
    for count in counts.tolist():
        product *= count + 1
    return product
