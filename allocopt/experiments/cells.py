"""Cells of a grid: what identifies each cell, and how it is run in this process or in another one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from allocopt.errors import AllocoptError
from allocopt.files.faults import printable
from allocopt.files.writing import compact_json

FAILED = "failed"
"""Status of a cell that could not be run."""

NAMES = ("instance", "trace", "strategy", "solver", "policy", "scheduler", "backfill", "allocator", "artifact", "piece")
"""Columns by which messages name a cell, in addition to its seed."""

Row = dict[str, Any]
"""A row by column; all values are JSON values."""


@dataclass(frozen=True, slots=True)
class Task(ABC):
    """Work to do with an input; its fields are the settings. Task and input are sent to other processes."""

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Columns of the row."""

    @property
    def deadline_s(self) -> float | None:
        """Seconds after which the worker of the cell is ended; None for no limit."""
        return None

    def asked(self) -> Row:
        """Return the settings by column."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @abstractmethod
    def run(self, given: Any) -> Row:
        """Return the measured values by column."""


@dataclass(frozen=True)
class Cell:
    """One row of a grid to measure: a task, and the digest of the content of its input."""

    task: Task
    source: str

    @cached_property
    def identity(self) -> Row:
        """Everything that the row depends on: the content of the input and all settings."""
        return {**self.task.asked(), "content": self.source}

    @cached_property
    def key(self) -> str:
        """Digest of the identity."""
        return digest(self.identity)

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.label_of(self.identity)

    @staticmethod
    def label_of(identity: Mapping[str, Any]) -> str:
        """Return the name for messages of the cell with this identity."""
        parts = [str(identity[name]) for name in NAMES if identity.get(name)]
        return " ".join([*parts, f"seed {identity['seed']}"] if "seed" in identity else parts)

    def row(self, measured: Mapping[str, Any]) -> Row:
        """Return settings and measured values in the order of the columns."""
        known = {**self.task.asked(), **measured}
        return {column: known.get(column) for column in self.task.columns}

    def is_row(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is complete for the cell, with the columns of this version of the package."""
        asked = self.task.asked()
        is_whole = row.keys() == set(self.task.columns) and row.get("status", "") is not None
        return is_whole and all(row[name] == value for name, value in asked.items() if name in row)


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells, each once, in the order of the rows of their table."""

    cells: tuple[Cell, ...]
    inputs: Mapping[str, Any]  # By the digests of their contents
    attempts: int = 3  # How often a cell is tried if its worker dies
    files: tuple[Path, ...] = ()  # All files that were read, each once

    def finished(self, rows: Mapping[str, Mapping[str, Any]]) -> set[str]:
        """Return the keys of the cells that have a complete row; see `Cell.is_row`."""
        return {cell.key for cell in self.cells if cell.key in rows and cell.is_row(rows[cell.key])}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a cell: its measured values, or the fault that prevented them."""

    measured: Row | None
    fault: str = ""
    is_lost: bool = False  # Its worker died, so that another attempt may succeed


def run_task(task: Task, given: Any) -> Answer:
    """Run a cell; processes of this machine and of a Ray cluster call this function."""
    try:
        return Answer(task.run(given))
    except AllocoptError as error:
        return Answer(None, printable(str(error)))


def digest(value: object) -> str:
    """Return the digest of a JSON value."""
    return sha256(compact_json(value).encode()).hexdigest()[:24]
