"""How far a run is, on standard error: one line that is rewritten on a terminal, now and then a line elsewhere."""

import os
import time
from typing import TextIO

from allocopt.experiments.store import Status

_EVERY_S = 10.0  # Between two lines where they are kept, at least
_WIDTH = 79  # Columns of the line on a terminal, at most


class Progress:
    """Counts finished cells, ``done`` of them by earlier runs, and tells how long the others will take."""

    def __init__(self, total: int, done: int, out: TextIO, noun: str = "cells") -> None:
        self._total = total
        self._before = self._done = done
        self._failed = 0
        self._out = out
        self._noun = noun
        self._is_terminal = out.isatty()
        self._begun = self._told = time.monotonic()

    def finished(self, *, failed: bool = False) -> None:
        """Count a cell."""
        self._done += 1
        self._failed += failed

    def remark(self, text: str) -> None:
        """Print a line that stays."""
        self.clear()
        print(f"allocopt: {text}", file=self._out, flush=True)

    def tell(self) -> None:
        """Print how far the run is, unless that was printed a moment ago."""
        now = time.monotonic()
        if self._is_terminal:
            width = self._width()
            print(f"\r{self._line():{width}.{width}}", end="", file=self._out, flush=True)
        elif now - self._told >= _EVERY_S:
            self.remark(self._line())
            self._told = now

    def close(self) -> None:
        """Print the last count, unless the run was too short for anything to be printed."""
        if self._is_terminal or self._told > self._begun:
            self.remark(self._line())

    def clear(self) -> None:
        """Clear the line of the terminal for one that stays."""
        if self._is_terminal:
            print("\r" + " " * self._width() + "\r", end="", file=self._out, flush=True)

    def _line(self) -> str:
        gone_s = time.monotonic() - self._begun
        return Status(self._total, self._done, self._failed, 0, self._before, gone_s).line(self._noun)

    def _width(self) -> int:
        # The terminal may have become another since.
        try:
            columns = os.get_terminal_size(self._out.fileno()).columns
        except (OSError, ValueError):
            return _WIDTH
        # Terminals that do not know say 0.
        return max(1, min(_WIDTH, columns - 1)) if columns else _WIDTH
