"""Cells for tests of those who run them: they answer, refuse, or end their worker."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from allocopt.errors import UsageError
from allocopt.experiments.cells import Cell, Grid, Task

COLUMNS = ("instance", "seed", "status", "value", "error")


@dataclass(frozen=True, slots=True)
class AnsweringTask(Task):
    """Answers with its input and seed."""

    columns: ClassVar[Sequence[str]] = COLUMNS

    instance: str
    seed: int

    def run(self, given: int) -> dict[str, Any]:
        return {"status": "done", "value": given + self.seed}


@dataclass(frozen=True, slots=True)
class RefusingTask(AnsweringTask):
    """Cannot be run."""

    def run(self, given: int) -> dict[str, Any]:
        raise UsageError("cannot be run")


@dataclass(frozen=True, slots=True)
class DyingTask(AnsweringTask):
    """Ends its worker the first times that it is run, in one way or the other; each time leaves a letter in a file."""

    file: str
    deaths: int
    way: str = "signal"

    def run(self, given: int) -> dict[str, Any]:
        with Path(self.file).open("a", encoding="utf-8") as file:
            file.write("x")
        if Path(self.file).stat().st_size > self.deaths:
            return AnsweringTask.run(self, given)
        if self.way == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.way == "exit":
            os._exit(7)
        raise ValueError("a fault of the program")


@dataclass(frozen=True, slots=True)
class HangingTask(AnsweringTask):
    """Does not answer."""

    @property
    def deadline_s(self) -> float:
        return 0.1

    def run(self, given: int) -> dict[str, Any]:
        time.sleep(600.0)
        return AnsweringTask.run(self, given)


@dataclass(frozen=True, slots=True)
class ThreadsTask(AnsweringTask):
    """Tells with how many threads its worker may compute, and whether its parent lives."""

    def run(self, given: int) -> dict[str, Any]:
        return {"status": "done", "value": os.environ["OMP_NUM_THREADS"]}


_ran = []


@dataclass(frozen=True, slots=True)
class CountingTask(AnsweringTask):
    """Tells how many cells its process has run."""

    def run(self, given: int) -> dict[str, Any]:
        _ran.append(self)
        return {"status": "done", "value": len(_ran)}


def grid_of(*tasks: AnsweringTask, attempts: int = 3) -> Grid:
    """Make a grid whose inputs are the numbers behind the names of the instances."""
    inputs = {task.instance: int(task.instance[1:]) for task in tasks}
    return Grid(tuple(Cell(task, task.instance) for task in tasks), inputs, attempts)
