"""Standard output belongs to the answers: what else is printed goes to standard error."""

import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TypeVar

Item = TypeVar("Item")


def prepare_streams() -> None:
    """Make the streams take whatever is printed, also where the caller closed them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # It takes the lowest free number, which is this one, so that no other file gets it.
            os.open(os.devnull, os.O_RDWR)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal's encoding does not have is escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stderr is None:
        # `print` would turn to standard output.
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)


@contextmanager
def prints_on_stderr() -> Iterator[None]:
    """Send what a solver prints to standard error, from Python and from native code."""
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def quietly(items: Iterable[Item]) -> Iterator[Item]:
    """Yield what comes; what is printed while the next one is made goes to standard error."""
    iterator = iter(items)
    while True:
        with prints_on_stderr():
            item = next(iterator, None)
        if item is None:
            return
        yield item
