"""Cells of a grid: what each of them is told apart by, and what runs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from allocopt.files.writing import compact_json

FAILED = "failed"
"""Status of a cell that could not be run."""

NAMES = ("instance", "trace", "strategy", "solver", "policy", "backfill", "allocator")
"""What people tell cells apart by, beside the seed."""


class Task(Protocol):
    """What is to be done with an input; it is sent to another process, the input with it."""

    @property
    def columns(self) -> Sequence[str]:
        """Columns of its row."""

    @property
    def deadline_s(self) -> float | None:
        """Seconds after which nobody waits for it any more; None for no end."""

    def asked(self) -> dict[str, Any]:
        """Return what is asked for, by column."""

    def run(self, given: Any) -> dict[str, Any]:
        """Do it; return what was measured, by column."""


@dataclass(frozen=True)
class Cell:
    """One solve or simulation of a grid.

    Parameters
    ----------
    task
        What is to be done.
    source
        Digest of the content of its input.
    """

    task: Task
    source: str

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What its row depends on: the content of the input and all settings."""
        return {**self.task.asked(), "content": self.source}

    @cached_property
    def key(self) -> str:
        """Digest of the identity."""
        return digest(self.identity)

    @property
    def label(self) -> str:
        """Name for messages."""
        return label_of(self.identity)

    def row(self, measured: Mapping[str, Any]) -> dict[str, Any]:
        """Join what was asked for and what was measured, in the order of the columns."""
        known = {**self.task.asked(), **measured}
        return {column: known.get(column) for column in self.task.columns}

    def is_row(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is one that this program could have written for the cell, which had a result."""
        asked = self.task.asked()
        is_whole = row.keys() == set(self.task.columns) and row["status"] not in (None, FAILED)
        return is_whole and all(row[name] == value for name, value in asked.items() if name in row)

    def failed(self, reason: str) -> dict[str, Any]:
        """Return the row of a cell that could not be run."""
        return self.row({"status": FAILED, "error": reason})


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a sweep, each once, in their order.

    Parameters
    ----------
    cells
        The cells.
    inputs
        Instances or traces, by the digests of their contents.
    attempts
        How often a cell is tried whose worker dies.
    files
        All that was read, each once.
    """

    cells: tuple[Cell, ...]
    inputs: Mapping[str, Any]
    attempts: int
    files: tuple[Path, ...] = ()

    def finished(self, rows: Mapping[str, Mapping[str, Any]]) -> set[str]:
        """Keys of the cells that have a row, one that this program could have written."""
        return {cell.key for cell in self.cells if cell.key in rows and cell.is_row(rows[cell.key])}


def digest(value: object) -> str:
    """Digest of a JSON value."""
    return sha256(compact_json(value).encode()).hexdigest()[:24]


def label_of(identity: Mapping[str, Any]) -> str:
    """Name a cell by what stands in its row."""
    parts = (
        identity.get(name) for name in ("instance", "trace", "strategy", "solver", "policy", "backfill", "allocator")
    )
    return f"{' '.join(str(part) for part in parts if part)} seed {identity.get('seed')}"
