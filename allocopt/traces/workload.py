"""A workload: the jobs of a trace or a generator, in the order of their submission."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allocopt.arrays import FloatArray, IntArray, frozen_integers
from allocopt.errors import InvalidProblemError, UsageError

Counts = tuple[tuple[str, int], ...]
"""Numbers of jobs by reason."""

OVERSIZED = "larger than the machine"
SURPLUS = "beyond the number of jobs asked for"


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Jobs with their submit times, run times and sizes; kept sorted by submit time, then id.

    Parameters
    ----------
    name
        Name of the trace.
    ids
        Distinct numbers of the jobs, shape ``(n,)`` as all arrays here.
    submit
        Submit times in seconds, not negative.
    run
        Run times in seconds, positive.
    processors
        Processors (or whole nodes, where the trace counts nodes) that each job occupies, at least 1.
    estimate
        Run times in seconds as the users estimated them, positive.
    machine_processors
        Size of the machine that the trace comes from; None where the trace does not say.
    dropped, repaired
        Number of jobs that were left out, or whose missing values were filled in, by reason.

    Raises
    ------
    InvalidProblemError
        If any of this does not hold; it names the job.
    """

    name: str
    ids: IntArray
    submit: FloatArray
    run: FloatArray
    processors: IntArray
    estimate: FloatArray
    machine_processors: int | None = None
    dropped: Counts = ()
    repaired: Counts = ()

    def __post_init__(self) -> None:
        arrays = (self.ids, self.submit, self.run, self.processors, self.estimate)
        shapes = [np.shape(array) for array in arrays]
        if len(shapes[0]) != 1 or len(set(shapes)) != 1:
            raise InvalidProblemError("workload", f"its arrays have shapes {shapes}, must all be (jobs,)")
        _check_integers(self.ids, self.processors)
        order = np.lexsort((self.ids, self.submit))
        object.__setattr__(self, "ids", frozen_integers(np.asarray(self.ids)[order]))
        object.__setattr__(self, "processors", frozen_integers(np.asarray(self.processors)[order]))
        for name in ("submit", "run", "estimate"):
            object.__setattr__(self, name, _frozen_seconds(np.asarray(getattr(self, name))[order]))
        _check(self)

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.ids)

    def remarks(self) -> list[str]:
        """Say what was dropped and repaired, one line per reason."""
        kinds = (("dropped", self.dropped), ("repaired", self.repaired))
        return [f"{self.name}: jobs {kind}, {reason}: {jobs}" for kind, counts in kinds for reason, jobs in counts]

    def in_nodes(self, processors_per_node: int) -> "Workload":
        """Return the workload in whole nodes: each job's processors divided and rounded up, and the machine's down.

        Raises
        ------
        UsageError
            If the number of processors per node is not positive.
        """
        if processors_per_node < 1:
            raise UsageError(f"there are {processors_per_node} processors per node, must be at least 1")
        machine = None if self.machine_processors is None else self.machine_processors // processors_per_node
        return replace(self, processors=-(-self.processors // processors_per_node), machine_processors=machine)

    def fitting(self, size: int) -> "Workload":
        """Return the workload without the jobs that ask for more than ``size``; they are counted as dropped."""
        return self._only(self.processors <= size, OVERSIZED)

    def first(self, jobs: int) -> "Workload":
        """Return the workload without all but the first jobs submitted; the others are counted as dropped.

        Raises
        ------
        UsageError
            If the number of jobs is negative.
        """
        if jobs < 0:
            raise UsageError(f"the number of jobs is {jobs}, must not be negative")
        return self._only(np.arange(len(self)) < jobs, SURPLUS)

    def _only(self, keep: NDArray[np.bool_], reason: str) -> "Workload":
        """Return the workload without some jobs, which are counted as dropped for a reason."""
        return replace(
            self,
            ids=self.ids[keep],
            submit=self.submit[keep],
            run=self.run[keep],
            processors=self.processors[keep],
            estimate=self.estimate[keep],
            dropped=_with_count(self.dropped, reason, int((~keep).sum())),
        )


def _with_count(counts: Counts, reason: str, jobs: int) -> Counts:
    """Add a number of jobs to those counted for a reason; a reason without jobs is not listed."""
    totals = dict(counts)
    totals[reason] = totals.get(reason, 0) + jobs
    return tuple((reason, total) for reason, total in totals.items() if total)


def _frozen_seconds(values: ArrayLike) -> FloatArray:
    """Return a read-only copy of ``values`` as 64-bit floats."""
    array = np.array(values, dtype=np.float64, copy=True)
    array.setflags(write=False)
    return array


def _check_integers(*arrays: ArrayLike) -> None:
    """Raise `InvalidProblemError` for an array of anything but integers."""
    for array in map(np.asarray, arrays):
        if array.size and array.dtype.kind not in "iu":
            raise InvalidProblemError("workload", f"ids and processors have dtype {array.dtype}, must be integers")


def _check(workload: Workload) -> None:
    """Raise `InvalidProblemError` for the first job whose values are out of range, or that is given twice."""
    rules: list[tuple[str, IntArray | FloatArray, bool]] = [
        ("submit time", workload.submit, False),
        ("run time", workload.run, True),
        ("estimate", workload.estimate, True),
        ("number of processors", workload.processors, True),
    ]
    for what, values, positive in rules:
        wrong = ~np.isfinite(values) | (values <= 0 if positive else values < 0)
        if wrong.any():
            job = int(np.argmax(wrong))
            right = "positive" if positive else "not negative"
            raise InvalidProblemError(f"job {workload.ids[job]}", f"its {what} is {values[job]}, must be {right}")
    distinct, counts = np.unique(workload.ids, return_counts=True)
    if len(distinct) < len(workload):
        raise InvalidProblemError(f"job {distinct[np.argmax(counts > 1)]}", "is given twice")
