"""The workload: jobs of a trace or a generator, in the order of their submission."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.unserved import OVERSIZED, counted, reasons_in_words
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.notebook import html_table

Counts = tuple[tuple[str, int], ...]
"""Numbers of jobs by reason."""

SURPLUS = "beyond the requested number of jobs"
PRECEDING_LOST = "preceding job not in the trace"

# Values for no preceding job, an unknown user and an unknown application, as in SWF.
NO_JOB = UNKNOWN_USER = UNKNOWN_EXECUTABLE = -1

_INTEGERS = ("ids", "processors", "users", "preceding", "executables")
_SECONDS = ("submit", "run", "estimate", "think_s", "recorded_start")
_OBJECTS = ("names", "requests", "recorded_nodes", "user_names", "accounts")
COLUMNS = (*_INTEGERS, *_SECONDS, *_OBJECTS)
"""Names of the arrays that hold a value for every job."""
_UNKNOWN = {
    "users": UNKNOWN_USER,
    "preceding": NO_JOB,
    "think_s": 0.0,
    "executables": UNKNOWN_EXECUTABLE,
    "names": "",
    "requests": None,
    "recorded_start": np.nan,
    "recorded_nodes": "",
    "user_names": "",
    "accounts": "",
}


def _none_known() -> NDArray[Any]:
    return np.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Jobs with their submit times, run times and sizes; kept sorted by submit time, then id.

    Arrays have shape ``(n,)``; an empty array means that the value is unknown for every job. Raises
    `InvalidProblemError`, which names the job, if a value is not as described below.

    Parameters
    ----------
    ids, names
        Distinct numbers of the jobs, and their ids as in the trace, empty if the id is the number.
    submit, run, estimate
        Submit times, not negative; run times and the users' estimates of them, positive. All in seconds.
    processors, machine_processors
        Processors that each job occupies, at least 1, and those of the trace's own machine, None if unknown. They are
        whole nodes if the trace counts nodes.
    dropped, repaired
        Numbers of jobs by reason: jobs that were left out, and jobs with values that were filled in or ignored.
    users, executables
        Numbers of each job's user and application, -1 if unknown.
    preceding, think_s
        Number of the job that has to end before this one can be submitted, -1 for none; and the seconds from that end
        to the submission, not negative, 0 if there is no such job.
    requests
        The jobs' requests for a cluster's nodes, None if unknown.
    recorded_start, recorded_nodes
        Start of each job in the trace, in seconds as ``submit``, NaN if unknown; and the hostlist of its nodes.
    user_names, accounts
        Each job's user as in the trace, empty if that is the number; and its account, empty if unknown.
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
    users: IntArray = field(default_factory=_none_known)
    preceding: IntArray = field(default_factory=_none_known)
    think_s: FloatArray = field(default_factory=_none_known)
    executables: IntArray = field(default_factory=_none_known)
    names: NDArray[np.object_] = field(default_factory=_none_known)
    requests: NDArray[np.object_] = field(default_factory=_none_known)
    recorded_start: FloatArray = field(default_factory=_none_known)
    recorded_nodes: NDArray[np.object_] = field(default_factory=_none_known)
    user_names: NDArray[np.object_] = field(default_factory=_none_known)
    accounts: NDArray[np.object_] = field(default_factory=_none_known)

    def __post_init__(self) -> None:
        for name, value in _UNKNOWN.items():
            if not np.size(getattr(self, name)):
                object.__setattr__(self, name, np.full(np.shape(self.ids), value))
        shapes = [np.shape(getattr(self, name)) for name in COLUMNS]
        if len(shapes[0]) != 1 or len(set(shapes)) != 1:
            raise InvalidProblemError("workload", f"its arrays have shapes {shapes}, must all be (jobs,)")
        for name in _INTEGERS:
            # Refuse even whole floats: beyond 2^53 two different ids would be equal.
            array = np.asarray(getattr(self, name))
            if array.size and array.dtype.kind not in "iu":
                raise InvalidProblemError("workload", f"its {name} have dtype {array.dtype}, must be integers")
        order = np.lexsort((self.ids, self.submit))
        for name in COLUMNS:
            kind = np.int64 if name in _INTEGERS else np.float64 if name in _SECONDS else np.object_
            values = np.asarray(getattr(self, name))[order].astype(kind)
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        self._check()

    def _check(self) -> None:
        recorded = np.where(np.isnan(self.recorded_start), 0.0, self.recorded_start)
        rules: list[tuple[str, IntArray | FloatArray, BoolArray, str]] = [
            ("submit time", self.submit, self.submit >= 0, "not negative"),
            ("run time", self.run, self.run > 0, "positive"),
            ("estimate", self.estimate, self.estimate > 0, "positive"),
            ("number of processors", self.processors, self.processors > 0, "positive"),
            ("user", self.users, self.users >= UNKNOWN_USER, "-1 or more"),
            ("executable", self.executables, self.executables >= UNKNOWN_EXECUTABLE, "-1 or more"),
            ("think time", self.think_s, self.think_s >= 0, "not negative"),
            ("recorded start", recorded, ~np.isinf(recorded), "finite"),
        ]
        for what, values, right, must in rules:
            # NaN fails every comparison: report it as not finite, and not as out of range.
            finite = np.isfinite(values)
            for job in np.flatnonzero(~(right & finite))[:1].tolist():
                must = must if finite[job] else "finite"
                raise InvalidProblemError(f"job {self.ids[job]}", f"its {what} is {values[job]}, must be {must}")
        distinct, counts = np.unique(self.ids, return_counts=True)
        if len(distinct) < len(self):
            raise InvalidProblemError(f"job {distinct[np.argmax(counts > 1)]}", "is given twice")
        ids, preceding, waits_for = self.ids, self.preceding, Precedence(self.ids, self.preceding, self.think_s)
        for job in np.flatnonzero((preceding == NO_JOB) & (self.think_s > 0))[:1].tolist():
            fault = f"it has a think time of {self.think_s[job]} s, but no preceding job"
            raise InvalidProblemError(f"job {ids[job]}", fault)
        for job in np.flatnonzero((preceding != NO_JOB) & (waits_for.rows() < 0))[:1].tolist():
            raise InvalidProblemError(f"job {ids[job]}", f"its preceding job is {preceding[job]}, there is no such job")
        for job in waits_for.rows_on_cycles()[:1].tolist():
            fault = f"its preceding job is {preceding[job]}, so that it would have to end before it starts"
            raise InvalidProblemError(f"job {ids[job]}", fault)

    def __len__(self) -> int:
        return len(self.ids)

    def _repr_html_(self) -> str:
        has_jobs = len(self) > 0
        facts = (
            ("jobs", len(self)),
            ("jobs dropped", sum(jobs for _, jobs in self.dropped)),
            ("processors of the machine", self.machine_processors),
            ("largest job, processors", int(self.processors.max()) if has_jobs else None),
            ("mean run s", float(self.run.mean()) if has_jobs else None),
            ("days from first to last submission", float(np.ptp(self.submit)) / 86_400 if has_jobs else None),
            ("users", len(set(self.user_labels) - {""})),
        )
        return html_table(f"Workload {self.name}", facts)

    @property
    def user_labels(self) -> list[str]:
        """Name of each job's user, or else the user's number; empty if neither is known."""
        users = zip(self.user_names, self.users.tolist(), strict=True)
        return [name or ("" if number == UNKNOWN_USER else str(number)) for name, number in users]

    def preceding_rows(self) -> IntArray:
        """Return the row of each job's preceding job, -1 if it has none, shape ``(n,)``."""
        return Precedence(self.ids, self.preceding, self.think_s).rows()

    def remarks(self, size: int | None = None) -> list[str]:
        """Return a line per reason for dropped and repaired jobs, and one if the trace's machine has another size."""
        kinds = (("dropped", self.dropped), ("repaired", self.repaired))
        lines = [f"{self.name}: jobs {kind}, {reason}: {jobs}" for kind, counts in kinds for reason, jobs in counts]
        if None in (size, self.machine_processors) or size == self.machine_processors:
            return lines
        return [*lines, f"{self.name}: the trace's own machine has size {self.machine_processors}, this one {size}"]

    def dropped_in_words(self) -> str:
        """Return a line with the number of dropped jobs, in total and by reason; empty if none was dropped."""
        if not self.dropped:
            return ""
        lost = sum(jobs for _, jobs in self.dropped)
        return f"{self.name}: {lost:,} of {len(self) + lost:,} jobs dropped ({reasons_in_words(self.dropped)})"

    def in_nodes(self, processors_per_node: int) -> "Workload":
        """Return the workload in whole nodes; jobs' numbers of nodes are rounded up, the machine's is rounded down."""
        if processors_per_node < 1:
            raise UsageError(f"there are {processors_per_node} processors per node, must be at least 1")
        machine = None if self.machine_processors is None else self.machine_processors // processors_per_node
        return replace(self, processors=-(-self.processors // processors_per_node), machine_processors=machine)

    def killed_at_limit(self) -> "Workload":
        """Return the workload with run times cut at the estimates."""
        return replace(self, run=np.minimum(self.run, self.estimate))

    def with_exact_estimates(self) -> "Workload":
        """Return the workload with the run times as estimates."""
        return replace(self, estimate=self.run)

    def without_dependencies(self) -> "Workload":
        """Return the workload without preceding jobs and think times."""
        nothing = np.full(len(self), NO_JOB)
        repaired = tuple(count for count in self.repaired if count[0] != PRECEDING_LOST)
        return replace(self, preceding=nothing, think_s=np.zeros(len(self)), repaired=repaired)

    def fitting(self, size: int) -> "Workload":
        """Return the workload without the jobs that ask for more than ``size``; they are counted as dropped."""
        return self.keeping(self.processors <= size, OVERSIZED)

    def first(self, jobs: int) -> "Workload":
        """Return the first jobs submitted; the others are counted as dropped. A negative number is a `UsageError`."""
        if jobs < 0:
            raise UsageError(f"the number of jobs is {jobs}, must not be negative")
        return self.keeping(np.arange(len(self)) < jobs, SURPLUS)

    def subset(self, rows: IntArray | slice, begin_s: float = 0.0, name: str | None = None) -> "Workload":
        """Return some jobs; their times count from ``begin_s``, and they do not wait for jobs that are left out.

        ``begin_s``, in seconds, is at most their first submit time. ``name`` is that of the new workload, by default
        the name of this one.
        """
        kept, _ = self._rows(rows)
        shifted = {column: kept[column] - begin_s for column in ("submit", "recorded_start")}
        return replace(self, **{**kept, **shifted, "name": name or self.name})

    def stretch(self, first: int, jobs: int) -> "Workload":
        """Return consecutive jobs, the first submitted at time 0."""
        return self.subset(slice(first, first + jobs), float(self.submit[first]))

    def keeping(self, keep: BoolArray, reason: str) -> "Workload":
        """Return the jobs where ``keep``, shape ``(n,)``, is true; the others are counted as dropped for ``reason``."""
        return self.without(["" if kept else reason for kept in keep.tolist()])

    def without(self, reasons: Sequence[str]) -> "Workload":
        """Return the jobs whose reason is empty; the others are counted as dropped, each for its own reason.

        ``reasons`` has one text for every job, in the order of the workload.
        """
        kept, lost = self._rows(np.array([not reason for reason in reasons], dtype=np.bool_))
        dropped = self.dropped
        for reason, jobs in counted(reasons):
            dropped = _with_count(dropped, reason, jobs)
        return replace(self, **kept, dropped=dropped, repaired=_with_count(self.repaired, PRECEDING_LOST, lost))

    def _rows(self, rows: NDArray[np.generic] | slice) -> tuple[dict[str, Any], int]:
        # The columns of some jobs, and how many of these wait for a job that is not among them.
        kept = {name: getattr(self, name)[rows] for name in COLUMNS}
        found, lost = Precedence(kept["ids"], kept["preceding"], kept["think_s"]).without_lost()
        return {**kept, **found._asdict()}, lost


class Precedence(NamedTuple):
    """Jobs, the preceding job of each (-1 for none), and the think times in seconds; arrays of shape ``(n,)``."""

    ids: IntArray
    preceding: IntArray
    think_s: FloatArray

    def rows(self) -> IntArray:
        """Return the row of each job's preceding job, -1 if it has none or that is missing, shape ``(n,)``."""
        # One binary search for all: real traces have hundreds of thousands of jobs, and only a few wait for others.
        ids, follows = self.ids, np.flatnonzero(self.preceding != NO_JOB)
        rows = np.full(len(self.preceding), -1)
        if len(follows) and len(ids):
            order = np.argsort(ids)
            wanted = self.preceding[follows]
            found = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
            rows[follows] = np.where(ids[found] == wanted, found, -1)
        return rows

    def without_lost(self) -> tuple["Precedence", int]:
        """Return the precedence without preceding jobs that are missing, and how many these were."""
        lost = (self.preceding != NO_JOB) & (self.rows() < 0)
        kept = Precedence(self.ids, np.where(lost, NO_JOB, self.preceding), np.where(lost, 0.0, self.think_s))
        return kept, int(lost.sum())

    def of(self, rows: IntArray) -> "Precedence":
        """Return the precedence of some jobs."""
        return Precedence(self.ids[rows], self.preceding[rows], self.think_s[rows])

    def rows_on_cycles(self) -> IntArray:
        """Return the rows, in order, of jobs that would have to end before they can start."""
        jobs = len(self.ids)
        # An extra last row, its own successor, ends every chain. Each round doubles the steps taken along the chains.
        # After at least as many steps as there are jobs, a chain that has not reached the extra row is on a cycle, and
        # every row of a cycle has been reached.
        after = np.append(self.rows(), jobs)
        after[after < 0] = jobs
        for _ in range(jobs.bit_length() if (after < jobs).any() else 0):
            after = after[after]
        return np.unique(after[after < jobs])


def _with_count(counts: Counts, reason: str, jobs: int) -> Counts:
    # A reason without jobs is not listed.
    totals = dict(counts)
    totals[reason] = totals.get(reason, 0) + jobs
    return tuple((reason, total) for reason, total in totals.items() if total)
