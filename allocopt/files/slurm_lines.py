"""Configuration files of Slurm: lines of ``Key=value``, keys in any case, comments, lines that go on, other files."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text

MOST_INCLUDED = 10
"""Files that include each other beyond which they are refused."""

_INCLUDE = re.compile(r"\s*include\s+(?!=)(\S.*?)\s*", re.IGNORECASE)
_PAIR = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=\s*(?:\"([^\"]*)\"|(?![A-Za-z_]\w*\s*=)([^\s\"]*))(?=\s|$)")
_COMMENT = re.compile(r"(?<!\\)#.*")


@dataclass(frozen=True, slots=True)
class SlurmLine:
    """A line with its continuations.

    Parameters
    ----------
    path, number
        The file, and the number of the (first) line in it.
    values
        What the keys stand for, the keys in small letters.
    """

    path: Path
    number: int
    values: Mapping[str, str]

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"line {self.number}"

    def error(self, fault: str) -> BadFileError:
        """Return an error that names the file and the line."""
        return bad_file(self.path, self.place, fault)


def slurm_lines(path: Path, only: str = "", above: int = 0) -> Iterator[SlurmLine]:
    """Yield the lines of a file that hold something; if a key is given in small letters, those that begin with it.

    A line ``Include FILE`` stands for the lines of that file; a relative path begins at the folder of the file.

    Parameters
    ----------
    path
        The file.
    only
        Key that lines must begin with, in small letters; empty for all lines.
    above
        Number of files that include this one.

    Raises
    ------
    BadFileError
        If a file cannot be read, a line is not made of ``Key=value``, a key stands twice in it, or more than
        `MOST_INCLUDED` files include each other.
    """
    for number, line in _joined(read_text(path)):
        included = _INCLUDE.fullmatch(line)
        if included is not None:
            yield from slurm_lines(_included(path, number, included[1], above), only, above + 1)
        elif line.strip() and line.strip().lower().startswith(only):
            yield SlurmLine(path, number, _values(path, number, line))


def _included(path: Path, number: int, name: str, above: int) -> Path:
    """Path of a file that a line includes."""
    found = path.parent / name
    if not found.is_file():
        raise bad_file(path, f"line {number}", f"includes {shown(name)}, which is not there")
    if above == MOST_INCLUDED:
        raise bad_file(path, f"line {number}", f"more than {MOST_INCLUDED} files include each other")
    return found


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments, each with those that it goes on with after a backslash, and its number."""
    first, held = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw).rstrip()
        goes_on = line.endswith("\\")
        # Indentation does not break a list in two.
        held += (line.lstrip() if held.endswith(",") else line).removesuffix("\\").rstrip(" " * goes_on)
        first = first or number
        if not goes_on:
            yield first, held
            first, held = 0, ""
    if held:
        yield first, held


def _values(path: Path, number: int, line: str) -> dict[str, str]:
    """Values of a line by key."""
    values: dict[str, str] = {}
    at = 0
    while line[at:].strip():
        match = _PAIR.match(line, at)
        if match is None:
            fault = (
                f"{shown(line[at:].strip())} is not Key=value; a list goes on over lines with a backslash at the end"
            )
            raise bad_file(path, f"line {number}", fault)
        key = match[1].lower()
        if key in values:
            raise bad_file(path, f"line {number}", f"key {match[1]} is given twice")
        values[key] = match[3] if match[2] is None else match[2]
        at = match.end()
    return values
