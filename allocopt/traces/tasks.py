"""Jobs of parallel tasks, with what these compute, read and write."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import InvalidProblemError
from allocopt.traces.workload import Workload

_WHOLE = ("nodes", "tasks")
_POSITIVE = ("instructions", "ipc", "estimate")
_OTHERS = ("submit", "memory_mb", "volume_mb")
# What is positive lies between, what is not negative is at most the latter, so that times and energies are numbers.
_LEAST, _MOST = 1e-15, 1e21
_LAST_NUMBER = re.compile(r"[0-9]{1,18}$")


@dataclass(frozen=True, slots=True, eq=False)
class TaskWorkload:
    """Jobs whose tasks each need a core; kept sorted by submit time, then as given.

    Arrays have shape ``(n,)``. Raises `InvalidProblemError`, which names the job, if a value is out of its range.
    """

    name: str
    # Distinct names of the jobs.
    names: tuple[str, ...]
    # Submit times in seconds, not negative.
    submit: FloatArray
    # Different nodes that the tasks of a job are put on, at least 1, and its tasks, at least one for each of these; all
    # nodes but the last get equally many.
    nodes: IntArray
    tasks: IntArray
    # Instructions that each task executes, and instructions per cycle of one that runs alone, both positive.
    instructions: FloatArray
    ipc: FloatArray
    # Memory that each task takes, and data that it reads from and writes to memory, in MB.
    memory_mb: FloatArray
    volume_mb: FloatArray
    # Run time in seconds as the user estimated it, positive.
    estimate: FloatArray
    # What each job runs, for reports; empty where it is not known.
    applications: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        n = len(self.names)
        for column in (*_WHOLE, *_POSITIVE, *_OTHERS):
            if np.shape(getattr(self, column)) != (n,):
                fault = f"{column} has shape {np.shape(getattr(self, column))}, must be ({n},)"
                raise InvalidProblemError("workload", fault)
        if len(set(self.names)) < n:
            twice = next(name for name, count in Counter(self.names).items() if count > 1)
            raise InvalidProblemError("workload", f"names a job twice: {twice!r}")
        if self.applications and len(self.applications) != n:
            raise InvalidProblemError("workload", f"has {len(self.applications)} applications for {n} jobs")
        order = np.argsort(self.submit, kind="stable")
        for column in (*_WHOLE, *_POSITIVE, *_OTHERS):
            kind = np.int64 if column in _WHOLE else np.float64
            values = np.asarray(getattr(self, column))[order].astype(kind)
            values.setflags(write=False)
            object.__setattr__(self, column, values)
        object.__setattr__(self, "names", tuple(self.names[row] for row in order.tolist()))
        if self.applications:
            object.__setattr__(self, "applications", tuple(self.applications[row] for row in order.tolist()))
        positive, not_negative = f"positive number, from {_LEAST:g} to", "number, not negative, at most"
        for columns, least, words in ((_POSITIVE, _LEAST, positive), (_OTHERS, 0, not_negative)):
            for column in columns:
                values = getattr(self, column)
                self._check(column, (values >= least) & (values <= _MOST), f"a {words} {_MOST:g}")
        # Each may be in range where the quotient is not.
        work = self.work
        right = f"such that its billions of cycles are from {_LEAST:g} to {_MOST:g}"
        self._check("instructions", (work >= _LEAST) & (work <= _MOST), right)
        self._check("nodes", self.nodes >= 1, "at least 1")
        self._check("tasks", self.tasks >= self.nodes, "at least one for each of its nodes")
        filled = (self.nodes - 1) * self.per_node < self.tasks
        self._check("tasks", filled, "so many that its last node gets one, the others being filled alike")

    def _check(self, column: str, holds: np.ndarray, right: str) -> None:
        if not holds.all():
            job = int(np.argmin(holds))
            fault = f"{column} is {getattr(self, column)[job]:g}, must be {right}"
            raise InvalidProblemError(f"job {self.names[job]!r}", fault)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def per_node(self) -> IntArray:
        """Tasks on each node of a job but its last, shape ``(n,)``."""
        return np.asarray(-(-self.tasks // self.nodes), dtype=np.int64)

    @property
    def work(self) -> FloatArray:
        """Billions of cycles that each task takes alone on a core of one operation per cycle, shape ``(n,)``."""
        with np.errstate(over="ignore"):
            return np.asarray(self.instructions / self.ipc / 1e9, dtype=np.float64)

    def first(self, jobs: int) -> "TaskWorkload":
        """Return the workload of the first jobs submitted."""
        columns = {column: getattr(self, column)[:jobs] for column in (*_WHOLE, *_POSITIVE, *_OTHERS)}
        return replace(self, names=self.names[:jobs], applications=self.applications[:jobs], **columns)

    def numbers(self) -> IntArray:
        """Return a number for each job: that at the end of its name where these rise, else its place, from 1."""
        found = [_LAST_NUMBER.search(name) for name in self.names]
        if all(found):
            numbers = np.array([int(one.group()) for one in found if one is not None], dtype=np.int64)
            if (np.diff(numbers) > 0).all():
                return numbers
        return np.arange(1, len(self) + 1)

    def workload_at(self, core_speed: float) -> Workload:
        """Return the jobs with run times alone on cores of so many billions of cycles per second."""
        return Workload(self.name, self.numbers(), self.submit, self.work / core_speed, self.tasks, self.estimate)

    def workload(self, start: FloatArray, end: FloatArray) -> Workload:
        """Return the jobs with the run times of a simulation: start and end in seconds, shape ``(n,)``."""
        return Workload(self.name, self.numbers(), self.submit, end - start, self.tasks, self.estimate)
