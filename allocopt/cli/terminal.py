"""Terminal output: the width, lists that fit it, and solvers' output kept off standard output."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout

_NARROWEST = 20
"""Smallest number of columns that text is wrapped to."""
_USUAL = 80  # columns


def screen_width() -> int | None:
    """Return the columns of the terminal, or those of ``COLUMNS``; None if lines may have any length."""
    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return max(_NARROWEST, shutil.get_terminal_size().columns) if is_known else None


def wrapped(sentences: Iterable[str]) -> str:
    """Return sentences on lines of their own, broken at the width of the screen, or at 80 columns without a screen."""
    from allocopt.report.words import filled

    width = screen_width() or _USUAL
    return "\n".join(filled(sentence, width) for sentence in sentences)


def print_remarks(remarks: Iterable[str]) -> None:
    """Print remarks on standard error, one per line."""
    for remark in remarks:
        print(f"allocopt: {remark}", file=sys.stderr)


def listed(texts: Mapping[str, str], indent: str = "") -> str:
    """Return indented names, each with its text beside it, wrapped to the screen."""
    width = screen_width()
    beside = max(map(len, texts), default=0) + len(indent) + 2
    entries = []
    for name, text in texts.items():
        head = f"{indent}{name}".ljust(beside)
        if width is not None and text:
            # Align further lines with the text, or only indent them if the screen is too narrow for that.
            below = " " * (beside if width - beside >= _NARROWEST else 4)
            wrapper = textwrap.TextWrapper(
                width, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
            )
            entries.append(wrapper.fill(f"{head}{text}"))
        else:
            entries.append(f"{head}{text}".rstrip())
    return "\n".join(entries)


@contextmanager
def prints_on_stderr() -> Iterator[None]:
    """Send output of a solver to standard error, from Python and from native code."""
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
