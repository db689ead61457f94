"""One cell, wherever it is run: the function that processes of this machine and of a Ray cluster share."""

from dataclasses import dataclass
from typing import Any

from allocopt.errors import AllocoptError
from allocopt.experiments.cells import Task
from allocopt.files.faults import printable


@dataclass(frozen=True, slots=True)
class Measured:
    """What a cell gave, by column."""

    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a cell cannot be run, however often it is tried."""

    reason: str


def run_task(task: Task, given: Any) -> Measured | Refused:
    """Run a cell."""
    try:
        return Measured(task.run(given))
    except AllocoptError as error:
        return Refused(printable(str(error)))
