"""Lines of Slurm's files: ``Key=value`` pairs, keys in any case, comments, lines that go on, other files."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from allocopt.cluster.hostlist import HostlistError, HostlistExpander
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text

MOST_INCLUDED = 10  # files that include each other beyond which they are refused
MOST_FILES, MOST_CHARACTERS = 1000, 100_000_000
"""Includes of one file, those of its includes among them, and characters of all together, that are read."""

_SPELLED = {
    key.lower(): key
    for key in (
        "NodeName PartitionName SwitchName Nodes Switches LinkSpeed Level BlockName BlockIndex BlockSize BlockSizes"
        " AggregatedBlock"
    ).split()
}
# A value in quotes may hold anything; a bare one ends at a space and is no key of a pair that follows an empty one.
_PAIR = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=\s*(?:\"([^\"]*)\"|(?![A-Za-z_]\w*\s*=)([^\s\"]*))(?=\s|$)")
# In Slurm's files a backslash takes the meaning away from the character behind it.
_COMMENT = re.compile(r"(?<!\\)#.*")


def names_in(path: Path, place: str, hostlist: str | None, expander: HostlistExpander) -> tuple[str, ...]:
    """Expand a hostlist of a file, None for an empty one; raise `BadFileError` that names the place."""
    try:
        return tuple(expander.expand(hostlist or ""))
    except HostlistError as error:
        raise bad_file(path, place, str(error)) from None


@dataclass(frozen=True, slots=True)
class ConfLine:
    """Pairs of a line, by their keys in lower case; errors name file and line."""

    path: Path
    number: int
    values: Mapping[str, str]

    @classmethod
    def of(cls, path: Path, number: int, text: str) -> "ConfLine":
        """Take a line apart; raise `BadFileError` if it is not all pairs, or has a key twice."""
        line, at = cls(path, number, values := {}), 0
        text = text.rstrip()
        while at < len(text):
            match = _PAIR.match(text, at)
            if match is None:
                fault = "is not Key=value; a list goes on over lines with a backslash at the end"
                raise line.error(f"{shown(text[at:].strip())} {fault}")
            key = match[1].lower()
            if key in values:
                raise line.error(f"key {match[1]} is given twice")
            values[key] = match[3] if match[2] is None else match[2]
            at = match.end()
        return line

    @property
    def place(self) -> str:
        """The line's number in words."""
        return f"line {self.number}"

    def error(self, fault: str) -> BadFileError:
        """Make the error that names file, line and fault."""
        return bad_file(self.path, self.place, fault)

    @staticmethod
    def spelled(key: str) -> str:
        """Return a key as Slurm's manual spells it, if it is one whose value is read as a list."""
        return _SPELLED.get(key, key)

    def names(self, key: str, expander: HostlistExpander) -> tuple[str, ...]:
        """Expand the hostlist of a key, an empty one if the key is not there."""
        return names_in(self.path, f"{self.place}: {self.spelled(key)}", self.values.get(key), expander)

    def sizes(self, key: str) -> list[int]:
        """Return the numbers of nodes of a key, none if it is not there."""
        parts = [part.strip() for part in self.values[key].split(",")] if key in self.values else []
        if not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
            raise self.error(f"{self.spelled(key)} is {shown(self.values[key])}, must be numbers of nodes such as 4,16")
        return [int(part) for part in parts]


@dataclass(slots=True)
class ConfReader:
    """Reads a file and those that it includes, within limits for all together."""

    first: Path
    files: int = 0
    characters: int = 0

    def lines(self, path: Path, text: str, only: str | tuple[str, ...] = "", above: int = 0) -> Iterator[ConfLine]:
        """Yield the lines of a text, those of included files in place, whose first key begins with one of ``only``."""
        self.files, self.characters = self.files + 1, self.characters + len(text)
        if self.files > MOST_FILES or self.characters > MOST_CHARACTERS:
            fault = f"what is included has more than {MOST_FILES} files or {MOST_CHARACTERS} characters"
            raise bad_file(self.first, fault)
        for number, line in _logical_lines(text):
            words = line.split(maxsplit=1)
            if len(words) == 2 and words[0].lower() == "include" and not words[1].startswith("="):
                found = path.parent / words[1].rstrip()
                # A name that no file can have is that of none.
                if not os.path.isfile(found):
                    raise bad_file(path, f"line {number}", f"includes {shown(words[1].rstrip())}, which is not there")
                if above == MOST_INCLUDED:
                    raise bad_file(path, f"line {number}", f"more than {MOST_INCLUDED} files include each other")
                yield from self.lines(found, read_text(found), only, above + 1)
            elif words and words[0].lower().startswith(only):
                yield ConfLine.of(path, number, line)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
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
