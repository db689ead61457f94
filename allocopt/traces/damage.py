"""Rows of a trace that are dropped for a fault."""

from collections.abc import Callable, Sequence
from pathlib import Path

from allocopt.errors import BadFileError
from allocopt.traces.workload import Counts

_TOLD = 3


class Damage:
    """Rows of a file that were dropped for a fault: how many, and what the first ones had.

    Parameters
    ----------
    path
        The file.
    strict
        Whether the first fault refuses it.
    """

    def __init__(self, path: Path, *, strict: bool = False) -> None:
        self._path = path
        self._strict = strict
        self._rows = 0
        self._told: list[BadFileError] = []

    @property
    def first(self) -> BadFileError | None:
        """The first fault."""
        return self._told[0] if self._told else None

    def drop(self, rows: Sequence[int], error: Callable[[int], BadFileError]) -> None:
        """Count rows, with the error of each; raise the first one where the file is read strictly."""
        # A message may take a pass over the file: only those that are told are made.
        self._told += [error(row) for row in rows[: _TOLD - len(self._told)]]
        if self._strict and self._told:
            raise self._told[0]
        self._rows += len(rows)

    def counts(self) -> Counts:
        """Return the number of the rows by a reason that tells the first faults; nothing where there are none."""
        told = "; ".join(str(fault).removeprefix(f"{self._path}: ") for fault in self._told)
        more = "; ..." if self._rows > len(self._told) else ""
        return ((f"damaged ({told}{more})", self._rows),) if self._rows else ()
