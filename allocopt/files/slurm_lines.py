"""Configuration files of Slurm: lines of ``Key=value``, keys in any case, comments, lines that go on, other files."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text

MOST_INCLUDED = 10
"""Files that include each other beyond which they are refused."""

MOST_FILES, MOST_CHARACTERS = 1000, 100_000_000
"""Includes of one file, those of its includes among them, and characters of all together, that are read."""

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


@dataclass(slots=True)
class _Read:
    """What has been read for one file."""

    files: int = 0
    characters: int = 0


def slurm_lines(path: Path, only: str = "") -> Iterator[SlurmLine]:
    """Yield the lines of a file that hold something; if a key is given in small letters, those that begin with it.

    A line ``Include FILE`` stands for the lines of that file; a relative path begins at the folder of the file.

    Parameters
    ----------
    path
        The file.
    only
        Key that lines must begin with, in small letters; empty for all lines.

    Raises
    ------
    BadFileError
        If a file cannot be read, a line is not made of ``Key=value``, a key stands twice in it, more than
        `MOST_INCLUDED` files include each other, or there are more than `MOST_FILES` includes or `MOST_CHARACTERS`.
    """
    yield from _lines_of(path, only, (), _Read())


def _lines_of(path: Path, only: str, above: tuple[Path, ...], read: _Read) -> Iterator[SlurmLine]:
    """Yield the lines of a file that others, from the first one down, include."""
    text = read_text(path)
    read.files, read.characters = read.files + 1, read.characters + len(text)
    if read.files > MOST_FILES or read.characters > MOST_CHARACTERS:
        fault = f"what is included has more than {MOST_FILES} files or {MOST_CHARACTERS} characters"
        raise bad_file(above[0] if above else path, fault)
    for number, line in _joined(text):
        words = line.split(maxsplit=1)
        if len(words) == 2 and words[0].lower() == "include" and not words[1].startswith("="):
            yield from _lines_of(_included(path, number, words[1].rstrip(), len(above)), only, (*above, path), read)
        elif words and words[0].lower().startswith(only):
            yield SlurmLine(path, number, _values(path, number, line))


def _included(path: Path, number: int, name: str, above: int) -> Path:
    """Path of a file that a line includes."""
    found = path.parent / name
    # A name that no file can have is that of none.
    if not os.path.isfile(found):
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
    line = line.rstrip()
    while at < len(line):
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
