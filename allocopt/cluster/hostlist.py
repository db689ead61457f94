"""Hostlists: names of nodes in the short form of Slurm, such as ``n[001-003,7],login1``."""

import re
from collections.abc import Iterable
from itertools import groupby, product
from math import prod

from allocopt.cluster.topology import LARGEST_CLUSTER
from allocopt.errors import AllocoptError
from allocopt.files.faults import shown

MOST_DIGITS = 18  # digits of a number in a name above which it is text: 64 bits hold no more
LONGEST_NAME = 255  # characters of a name above which it is refused: no operating system takes a longer one
_ITEMS = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PARTS = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?", re.ASCII)
_NUMBERED = re.compile(rf"(.*?)([0-9]{{1,{MOST_DIGITS}}})", re.ASCII | re.DOTALL)
_ODD = re.compile(r"[\s=\"'\\]")
_NOT_LISTABLE = re.compile(r"[\s=\"'\\,\[\]#]")


class HostlistError(AllocoptError, ValueError):
    """A text that is no hostlist: what is wrong with it, in one line."""

    exit_code = 2


def expand_hostlist(text: str) -> list[str]:
    """Expand a hostlist to its names, in order; a name that is given twice comes twice.

    A name may hold several bracketed lists, whose first varies slowest. A range counts with the width of its lower
    end: ``n[08-10]`` is n08, n09 and n10. An empty place between commas is skipped, as Slurm does. Raises
    `HostlistError` if a bracket is not closed or empty, a range is no range or falls, a name holds a space or an equals
    sign, or there are more names than any cluster has nodes.
    """
    return HostlistExpander().expand(text)


class HostlistExpander:
    """Expands the hostlists of one description, which together name no more nodes than any cluster has."""

    def __init__(self) -> None:
        self._left = LARGEST_CLUSTER

    def expand(self, text: str) -> list[str]:
        """Expand a hostlist as `expand_hostlist` does; names of earlier calls count towards the limit."""
        # Lists do not nest, so that nothing may be left when neighbouring brackets are struck out.
        brackets = re.sub(r"[^\[\]]", "", text).replace("[]", " ").strip()
        if brackets:
            fault = "opened" if brackets[0] == "]" else "closed"
            raise HostlistError(f"{shown(text)} has a bracket that is not {fault}")
        items = [item.strip() for item in _ITEMS.findall(text) if item.strip()]
        # The names of all items are counted first; only then is any written out.
        choices = [[_choices(bracket, literal, item) for bracket, literal in _PARTS.findall(item)] for item in items]
        for item, parts in zip(items, choices, strict=True):
            self._left -= prod(sum(len(numbers) for numbers, _ in part) for part in parts if not isinstance(part, str))
            if self._left < 0:
                fault = f"stands for more than {LARGEST_CLUSTER} names together with what comes before it"
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
    """Raise `HostlistError` for a name that a hostlist cannot hold, for it would be read as something else."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or _NOT_LISTABLE.search(name):
        fault = f"must have 1 to {LONGEST_NAME} characters, and no space, comma, bracket, quote, =, # or backslash"
        raise HostlistError(f"the name {shown(name)} cannot stand in a hostlist: it {fault}")


def fold_hostlist(names: Iterable[str]) -> str:
    """Write names as one hostlist, ready for ``srun --nodelist``.

    Only a number at the end of a name is folded, which every release of Slurm reads. Prefixes keep the order in which
    they come first, the numbers of each rise; a name that is given twice stands once.
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
            # Numbers that fill the width by themselves continue the others: 08, 09, 10.
            widths[filled[0]] += widths.pop(1)
        for width, numbers in widths.items():
            ranges = []
            # In a run of successive numbers, number and index rise alike.
            for _, run in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
                held = [str(one).zfill(width) for _, one in run]
                ranges.append(held[0] if len(held) == 1 else f"{held[0]}-{held[-1]}")
            text = ",".join(ranges)
            parts.append(prefix + (text if len(numbers) == 1 else f"[{text}]"))
    return ",".join(parts)


def _choices(bracket: str, literal: str, item: str) -> str | list[tuple[range, int]]:
    # A literal text, or the ranges in brackets, each with the width of its numbers.
    if len(literal) > LONGEST_NAME:
        raise HostlistError(f"{shown(item)} is no name of a node: it has more than {LONGEST_NAME} characters")
    if odd := _ODD.search(literal):
        raise HostlistError(f"{shown(item)} is no name of a node: it holds {shown(odd[0])}")
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
            raise HostlistError(f"{shown(item)} has the range {part.strip()}, which falls")
        ranges.append((range(int(low), int(high) + 1), len(low)))
    return ranges
