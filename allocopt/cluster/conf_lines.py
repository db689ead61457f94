"""Reads lines of Slurm's configuration files (slurm.conf(5)).

Lines hold ``Key=value`` pairs, with keys in any case. There are comments, continued lines and included files.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from allocopt.cluster.hostlist import HostlistError, HostlistExpander
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text

NO_LIMIT = ("UNLIMITED", "INFINITE", "NONE", "N/A", "(NULL)", "UNKNOWN")
"""Words that stand for a missing value, or for no limit."""
MOST_INCLUDED = 10  # greatest depth of included files
MOST_FILES, MOST_CHARACTERS = 1000, 100_000_000
"""Largest number of files that one file includes, directly or not, and of characters in all of them."""

_SPELLED = {
    key.lower(): key
    for key in (
        "NodeName PartitionName SwitchName Nodes Switches LinkSpeed Level BlockName BlockIndex BlockSize BlockSizes"
        " AggregatedBlock"
    ).split()
}
# A value in quotes may hold anything. A bare value ends at a space; it is empty if a key follows.
_PAIR = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=\s*(?:\"([^\"]*)\"|(?![A-Za-z_]\w*\s*=)([^\s\"]*))(?=\s|$)")
_FIRST_WORD = re.compile(r"\s*([^\s=]*)")
# In Slurm's files a backslash escapes the next character.
_COMMENT = re.compile(r"(?<!\\)#.*")


def names_in(path: Path | str, place: str, hostlist: str | None, expander: HostlistExpander) -> tuple[str, ...]:
    """Return the names of a hostlist of a file; None counts as empty. Raises `BadFileError` that names the place."""
    try:
        return tuple(expander.expand(hostlist or ""))
    except HostlistError as error:
        raise bad_file(path, place, str(error)) from None


@dataclass(frozen=True, slots=True)
class ConfLine:
    """The values of a line by key; keys are in lower case. Errors name file and line."""

    path: Path
    place: str  # in the file, such as ``line 3``
    values: dict[str, str]
    expander: HostlistExpander  # shared by all lines, because it limits the number of nodes of all lines together
    is_printed: bool = False  # whether a running Slurm printed the line, which then overrides configuration files
    is_table: bool = False  # whether the line is a row of a table, which describes a node or partition only in part

    def error(self, fault: str) -> BadFileError:
        """Return the error that names file, line and fault."""
        return bad_file(self.path, self.place, fault)

    @staticmethod
    def spelled(key: str) -> str:
        """Return a key as Slurm's manual spells it, if the spelling is known."""
        return _SPELLED.get(key, key)

    def names(self, key: str) -> tuple[str, ...]:
        """Return the names in the hostlist of a key; a missing key counts as empty."""
        return names_in(self.path, f"{self.place}: {self.spelled(key)}", self.values.get(key), self.expander)

    def word(self, key: str, default: str) -> str:
        """Return the value of a key in capital letters."""
        return self.values.get(key, default).strip().upper()

    def whole(self, key: str, default: int = 0) -> int:
        """Return the whole number of a key, or the default if it is missing or means no limit."""
        text = self.values.get(key, "").strip()
        if not text or text.upper() in NO_LIMIT:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 13):
            raise self.error(f"{key} is {shown(text)}, must be a whole number")
        return int(text)

    def sizes(self, key: str) -> list[int]:
        """Return the value of a key, a list of numbers of nodes; a missing key counts as empty."""
        parts = [part.strip() for part in self.values[key].split(",")] if key in self.values else []
        if not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
            raise self.error(f"{self.spelled(key)} is {shown(self.values[key])}, must be numbers of nodes such as 4,16")
        return [int(part) for part in parts]


@dataclass(slots=True)
class ConfReader:
    """Reads a file and the files that it includes, within limits for all of them together."""

    first: Path
    expander: HostlistExpander = field(default_factory=HostlistExpander)
    files: int = 0
    characters: int = 0
    cluster_name: str = ""

    def lines(self, path: Path, text: str, strict: str | tuple[str, ...] = "", above: int = 0) -> Iterator[ConfLine]:
        """Yield the lines of a text, with the lines of included files in place.

        A line whose first key begins with one of ``strict`` must consist of pairs. In other lines only the leading
        pairs are read, because values of other settings may hold anything.
        """
        self.files += 1
        self.characters += len(text)
        if self.files > MOST_FILES or self.characters > MOST_CHARACTERS:
            fault = f"includes more than {MOST_FILES} files, or more than {MOST_CHARACTERS} characters in all of them"
            raise bad_file(self.first, fault)
        for number, line in _logical_lines(text):
            words = line.split(maxsplit=1)
            if len(words) == 2 and words[0].lower() == "include" and not words[1].startswith("="):
                yield from self._included(path, f"line {number}", words[1].rstrip(), strict, above)
            elif words:
                made = ConfLine(path, f"line {number}", {}, self.expander)
                self._fill(made, line.rstrip(), is_strict=words[0].lower().startswith(strict))
                self.cluster_name = made.values.get("clustername", self.cluster_name)
                if made.values:
                    yield made

    def _included(
        self, path: Path, place: str, name: str, strict: str | tuple[str, ...], above: int
    ) -> Iterator[ConfLine]:
        # ``%c`` stands for the name of the cluster (slurm.conf(5), include modifiers).
        name = name.replace("%c", self.cluster_name)
        found = path.parent / name
        # An impossible name counts as a missing file.
        if not os.path.isfile(found):
            raise bad_file(path, place, f"includes {shown(name)}, which does not exist")
        if above == MOST_INCLUDED:
            raise bad_file(path, place, f"includes files more than {MOST_INCLUDED} levels deep")
        yield from self.lines(found, read_text(found), strict, above + 1)

    @staticmethod
    def _fill(made: ConfLine, pairs: str, *, is_strict: bool) -> None:
        at = 0
        while at < len(pairs):
            match = _PAIR.match(pairs, at)
            if match is None:
                if not is_strict:
                    if not made.values:
                        made.values[_FIRST_WORD.match(pairs)[1].lower()] = ""  # type: ignore[index]
                    return
                fault = "is not Key=value; end a line with a backslash to continue a list on the next line"
                raise made.error(f"{shown(pairs[at:].strip())} {fault}")
            key = match[1].lower()
            if key in made.values and is_strict:
                raise made.error(f"key {match[1]} is given twice")
            made.values[key] = match[3] if match[2] is None else match[2]
            at = match.end()


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    first, held = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw).rstrip()
        goes_on = line.endswith("\\")
        # The indentation of a continued line does not split a list.
        held += (line.lstrip() if held.endswith(",") else line).removesuffix("\\").rstrip(" " * goes_on)
        first = first or number
        if not goes_on:
            yield first, held
            first, held = 0, ""
    if held:
        yield first, held
