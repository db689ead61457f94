"""The terminal: its width and text that fits it, and standard output, which belongs to the answers."""

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout

_NARROWEST = 20
"""Columns below which text is not made narrower."""


def screen_width() -> int | None:
    """Return the columns of the terminal, or what ``COLUMNS`` says; None where lines may be as long as they like."""
    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return max(_NARROWEST, shutil.get_terminal_size().columns) if is_known else None


def listed(texts: Mapping[str, str], indent: str = "") -> str:
    """Format names and what is said of each, on as many lines as it takes.

    Parameters
    ----------
    texts
        By name, a text of one line.
    indent
        What stands before every name.
    """
    width = screen_width()
    beside = max(map(len, texts), default=0) + len(indent) + 2
    return "\n".join(_entry(f"{indent}{name}".ljust(beside), text, width) for name, text in texts.items())


def _entry(head: str, text: str, width: int | None) -> str:
    """Format an entry: its text goes on below itself, or indented a little where the screen is too narrow for that."""
    if width is None:
        return f"{head}{text}".rstrip()
    below = len(head) if width - len(head) >= _NARROWEST else 4
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=" " * below, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )
    return wrapper.fill(f"{head}{text}") if text else head.rstrip()


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
