"""The terminal that a command prints to: how wide it is, and text that fits it."""

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping

NARROWEST = 20
"""Columns below which text is not made narrower."""


def screen_width() -> int | None:
    """Return the columns of the terminal, or what ``COLUMNS`` says; None where lines may be as long as they like."""
    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return max(NARROWEST, shutil.get_terminal_size().columns) if is_known else None


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
    below = len(head) if width - len(head) >= NARROWEST else 4
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=" " * below, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )
    return wrapper.fill(f"{head}{text}") if text else head.rstrip()
