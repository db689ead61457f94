"""Dynamic classification: the type of an application of which it is not known, from its first runs (section 3.1)."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from allocopt.simulator.locality import PenaltyTable, WorkloadType
from allocopt.simulator.locality_fit import Measured

RUNS = 3
"""Runs after which an application is classified."""


@dataclass(slots=True)
class TypeClassifier:
    """Remembers how long applications took, and says which lines of a table they follow.

    Parameters
    ----------
    table
        The locality model, in seconds.
    runs
        Runs of an application before it is classified, at least 1.
    """

    table: PenaltyTable
    runs: int = RUNS
    _seen: dict[str, list[Measured]] = field(default_factory=lambda: defaultdict(list))

    def observe(self, application: str, run: Measured) -> None:
        """Take note of a run; the type that it says is not looked at."""
        self._seen[application].append(run)

    def type_of(self, application: str) -> WorkloadType:
        """Return the type whose lines leave the least squares of the penalties; unknown before enough runs."""
        seen = self._seen.get(application, [])
        if len(seen) < self.runs:
            return WorkloadType.UNKNOWN
        return min((WorkloadType.COMPUTE, WorkloadType.NETWORK), key=lambda kind: self._squares(kind, seen))

    def _squares(self, kind: WorkloadType, seen: list[Measured]) -> float:
        """Sum of the squares that a type's lines leave unexplained."""
        left = [
            run.service_s - run.requested_s - float(self.table.lines[kind, run.policy].at(np.array([run.gpus]))[0])
            for run in seen
        ]
        return float(np.square(left).sum())
