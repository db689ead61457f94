"""Hostlists: names of nodes in the short form of Slurm, such as ``n[001-003,7],login1``."""

import re
from collections.abc import Iterable
from itertools import groupby, product
from math import prod

from allocopt.cluster.topology import LARGEST_CLUSTER
from allocopt.errors import AllocoptError
from allocopt.files.faults import shown

MOST_DIGITS = 18  # largest number of digits of a number in a name; 64 bits hold no more
LONGEST_NAME = 255  # characters; no operating system takes a longer name
_ITEMS = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PARTS = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?", re.ASCII)
_NUMBERED = re.compile(rf"(.*?)([0-9]{{1,{MOST_DIGITS}}})", re.ASCII | re.DOTALL)
_ODD = re.compile(r"[\s=\"'\\]")
_NOT_LISTABLE = re.compile(r"[\s=\"'\\,\[\]#]")


class HostlistError(AllocoptError, ValueError):
    """A text is not a valid hostlist; the message states the fault in one line."""

    exit_code = 2


def expand_hostlist(text: str) -> list[str]:
    """Return the names of a hostlist, in order; repeated names are kept.

    A name may have several lists in brackets, of which the first varies slowest. The numbers of a range have the width
    of its lower end: ``n[08-10]`` is n08, n09 and n10. Empty entries between commas are skipped, as Slurm does. Raises
    `HostlistError` if a bracket is not closed or is empty, a range is invalid or descends, a name contains a space or
    an equals sign, or there are more names than any cluster has nodes.
    """
    return HostlistExpander().expand(text)


class HostlistExpander:
    """Expands the hostlists of one description, with a limit on the number of names of all of them."""

    def __init__(self) -> None:
        self._left = LARGEST_CLUSTER

    def expand(self, text: str) -> list[str]:
        """Return the names of a hostlist as `expand_hostlist` does; names of earlier calls count towards the limit."""
        # Lists do not nest: after adjacent pairs of brackets are removed, no bracket may be left.
        brackets = re.sub(r"[^\[\]]", "", text).replace("[]", " ").strip()
        if brackets:
            fault = "opened" if brackets[0] == "]" else "closed"
            raise HostlistError(f"{shown(text)} has a bracket that is not {fault}")
        items = [item.strip() for item in _ITEMS.findall(text) if item.strip()]
        # Names are counted before any is written out, because a short text can stand for very many.
        choices = [[_choices(bracket, literal, item) for bracket, literal in _PARTS.findall(item)] for item in items]
        for item, parts in zip(items, choices, strict=True):
            self._left -= prod(sum(len(numbers) for numbers, _ in part) for part in parts if not isinstance(part, str))
            if self._left < 0:
                fault = f"brings the number of names above {LARGEST_CLUSTER}"
                raise HostlistError(f"{shown(item)} {fault}")
        names: list[str] = []
        for parts in choices:
            written = [
                [part]
                if isinstance(part, str)
                else [str(one).zfill(width) for numbers, width in part for one in numbers]
                for part in parts
            ]
            names += map("".join, product(*written))
        return names


def check_listable(name: str) -> None:
    """Raise `HostlistError` for a name that would be misread in a hostlist."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or _NOT_LISTABLE.search(name):
        fault = f"must have 1 to {LONGEST_NAME} characters, and no space, comma, bracket, quote, =, # or backslash"
        raise HostlistError(f"the name {shown(name)} cannot stand in a hostlist: it {fault}")


def fold_hostlist(names: Iterable[str]) -> str:
    """Return names as one hostlist, ready for ``srun --nodelist``.

    Only a number at the end of a name is folded, which every release of Slurm reads. Prefixes are in the order of their
    first names, the numbers of each prefix are sorted, and repeated names are dropped.
    """
    numbered: dict[str, dict[str, None]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        prefix, digits = match.groups() if match else (name, "")
        numbered.setdefault(prefix, {})[digits] = None
    parts = []
    for prefix, digits in numbered.items():
        if "" in digits:
            parts.append(prefix)
        widths: dict[int, list[int]] = {}
        for number in filter(None, digits):
            widths.setdefault(len(number) if number[0] == "0" else 1, []).append(int(number))
        filled = [width for width in widths if width > 1]
        if len(filled) == 1 and 1 in widths and min(widths[1]) >= 10 ** (filled[0] - 1):
            # Numbers that have the full width without zeros continue the padded ones: 08, 09, 10.
            widths[filled[0]] += widths.pop(1)
        for width, numbers in widths.items():
            ranges = []
            # In a run of successive numbers, the difference of number and index is constant.
            for _, run in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
                held = [str(one).zfill(width) for _, one in run]
                ranges.append(held[0] if len(held) == 1 else f"{held[0]}-{held[-1]}")
            text = ",".join(ranges)
            parts.append(prefix + (text if len(numbers) == 1 else f"[{text}]"))
    return ",".join(parts)


def _choices(bracket: str, literal: str, item: str) -> str | list[tuple[range, int]]:
    # Return the literal text, or the ranges in brackets, each with the width of its numbers.
    if len(literal) > LONGEST_NAME:
        raise HostlistError(f"{shown(item)} is not a node name: it has more than {LONGEST_NAME} characters")
    if odd := _ODD.search(literal):
        raise HostlistError(f"{shown(item)} is not a node name: it contains {shown(odd[0])}")
    if literal:
        return literal
    ranges = []
    for part in bracket.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            fault = f"holds {shown(part)} in brackets, must be a number or a range such as 1-3"
            raise HostlistError(f"{shown(item)} {fault}")
        low, high = match[1], match[2] or match[1]
        if max(len(low), len(high)) > MOST_DIGITS:
            raise HostlistError(f"{shown(item)} has a number of more than {MOST_DIGITS} digits")
        if int(low) > int(high):
            raise HostlistError(f"{shown(item)} has the range {part.strip()}, which descends")
        ranges.append((range(int(low), int(high) + 1), len(low)))
    return ranges
