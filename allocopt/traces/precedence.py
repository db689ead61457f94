"""Jobs that may start only some time after another job has ended: which one, and that there is no circle of them."""

import numpy as np

from allocopt.arrays import FloatArray, IntArray

NONE = -1
"""Stands for no preceding job."""


def preceding_rows(ids: IntArray, preceding: IntArray) -> IntArray:
    """Return the row of each job's preceding job, -1 where it has none or it is not among the jobs.

    Parameters
    ----------
    ids
        Distinct numbers of the jobs, shape ``(n,)`` as all arrays here.
    preceding
        For each job the number of the one that has to end first, -1 for none.
    """
    follows = np.flatnonzero(preceding != NONE)
    rows = np.full(len(preceding), -1)
    if len(follows) and len(ids):
        order = np.argsort(ids)
        wanted = preceding[follows]
        places = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
        found = order[places]
        rows[follows] = np.where(ids[found] == wanted, found, -1)
    return rows


def without_lost(ids: IntArray, preceding: IntArray, think_s: FloatArray) -> tuple[IntArray, FloatArray, int]:
    """Return the preceding jobs and think times without those of jobs that are not there, and how many these were.

    Parameters
    ----------
    ids, preceding
        As for `preceding_rows`.
    think_s
        Seconds from the end of the preceding job.
    """
    lost = (preceding != NONE) & (preceding_rows(ids, preceding) < 0)
    return np.where(lost, NONE, preceding), np.where(lost, 0.0, think_s), int(lost.sum())


def row_on_a_cycle(ids: IntArray, preceding: IntArray) -> int | None:
    """Return the first row of a job that has to end before it can start, or None; arrays of shape ``(n,)``."""
    jobs = len(ids)
    # A last row, its own successor, ends every chain. Each round doubles the steps that are taken along the chains:
    # after as many as there are jobs, whoever has not come to the end has come to a cycle.
    after = np.append(preceding_rows(ids, preceding), jobs)
    after[after < 0] = jobs
    for _ in range(jobs.bit_length() if (after < jobs).any() else 0):
        after = after[after]
    on_cycle = after[after < jobs]
    return int(on_cycle.min()) if len(on_cycle) else None
