"""How far a sweep is, on standard error: one line that is rewritten on a terminal, now and then a line elsewhere."""

import os
import time
from datetime import timedelta
from typing import TextIO

EVERY_S = 10.0
"""Seconds between two lines where they are kept, at least."""

WIDTH = 79
"""Columns of the line on a terminal, at most."""


class Progress:
    """Counts finished cells and tells how long the others will take.

    Parameters
    ----------
    total, done
        Number of cells, and of those that earlier runs have finished.
    out
        Where it is told.
    """

    def __init__(self, total: int, done: int, out: TextIO) -> None:
        self._total = total
        self._before = self._done = done
        self._failed = 0
        self._out = out
        self._is_terminal = out.isatty()
        self._begun = self._told = time.monotonic()

    def finished(self, *, failed: bool = False) -> None:
        """Count a cell."""
        self._done += 1
        self._failed += failed

    def remark(self, text: str) -> None:
        """Tell something that stays."""
        self._clear()
        print(f"allocopt: {text}", file=self._out, flush=True)

    def tell(self) -> None:
        """Tell how far it is, unless that was told a moment ago."""
        now = time.monotonic()
        if self._is_terminal:
            width = self._width()
            print(f"\r{self._line():{width}.{width}}", end="", file=self._out, flush=True)
        elif now - self._told >= EVERY_S:
            print(f"allocopt: {self._line()}", file=self._out, flush=True)
            self._told = now

    def close(self) -> None:
        """Tell the last count."""
        self._clear()
        print(f"allocopt: {self._line()}", file=self._out, flush=True)

    def _line(self) -> str:
        """Count, time gone and time left."""
        gone = time.monotonic() - self._begun
        now, left = self._done - self._before, self._total - self._done
        parts = [f"{self._done} of {self._total} cells"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        parts.append(f"{_shown(gone)} gone")
        if left:
            parts.append(f"about {_shown(gone * left / now)} left" if now else "time left not known yet")
        return ", ".join(parts)

    def _clear(self) -> None:
        """Make room for a line that stays."""
        if self._is_terminal:
            print("\r" + " " * self._width() + "\r", end="", file=self._out)

    def _width(self) -> int:
        """Columns that do not break the line; the terminal may have become another since."""
        try:
            columns = os.get_terminal_size(self._out.fileno()).columns
        except (OSError, ValueError):
            return WIDTH
        # Terminals that do not know say 0.
        return max(1, min(WIDTH, columns - 1)) if columns else WIDTH


def _shown(seconds: float) -> str:
    """Write a time as hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))
