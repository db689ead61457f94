"""Hostlists: names of nodes in the short form of Slurm, such as ``n[001-003,7],login1``."""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from math import prod

from allocopt.cluster.topology import LARGEST_CLUSTER
from allocopt.errors import AllocoptError

MOST_DIGITS = 18
"""Digits of a number in a name above which it is text: 64 bits hold no more."""

LONGEST_SHOWN = 60
"""Characters of a faulty text that a message shows."""

_ITEMS = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PARTS = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?", re.ASCII)
_NUMBERED = re.compile(rf"(.*?)([0-9]{{1,{MOST_DIGITS}}})", re.ASCII | re.DOTALL)
_ODD = re.compile(r"[\s=\"'\\]")


class HostlistError(AllocoptError, ValueError):
    """A text that is no hostlist: what is wrong with it, in one line."""

    exit_code = 2


def expand_hostlist(text: str) -> list[str]:
    """Write a hostlist out, in its order; a name that is given twice comes twice.

    A name may hold several bracketed lists, whose first varies slowest. A range counts with the width of its lower
    end: ``n[08-10]`` is n08, n09 and n10. An empty place between commas is skipped, as Slurm does.

    Raises
    ------
    HostlistError
        If a bracket is not closed or empty, a range is no range or falls, a name holds a space or an equals sign, or
        there are more names than any cluster has nodes.
    """
    _check_brackets(text)
    names: list[str] = []
    for item in _ITEMS.findall(text):
        if not item.strip():
            continue
        choices = [_choices(bracket, literal, item) for bracket, literal in _PARTS.findall(item.strip())]
        if len(names) + prod(map(len, choices)) > LARGEST_CLUSTER:
            raise HostlistError(f"{_shown(item)} stands for more than {LARGEST_CLUSTER} names")
        names.extend(map("".join, product(*choices)))
    return names


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
    return ",".join(part for prefix, digits in numbered.items() for part in _folded(prefix, list(digits)))


def _shown(text: str) -> str:
    """Show a text in a message: short, and on one line."""
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}...")


def _check_brackets(text: str) -> None:
    """Raise `HostlistError` unless every bracket is closed before another one opens."""
    opened = False
    for character in text:
        if character in "[]":
            if opened == (character == "["):
                raise HostlistError(f"{_shown(text)} has a bracket that is not {'opened' if not opened else 'closed'}")
            opened = not opened
    if opened:
        raise HostlistError(f"{_shown(text)} has a bracket that is not closed")


def _choices(bracket: str, literal: str, item: str) -> list[str]:
    """Texts that a part of a name stands for."""
    if literal:
        if _ODD.search(literal):
            raise HostlistError(f"{_shown(item)} is no name of a node: it holds {_shown(_ODD.findall(literal)[0])}")
        return [literal]
    return [number for part in bracket.split(",") for number in _numbers(part, item)]


def _numbers(part: str, item: str) -> list[str]:
    """Numbers of one range, written out."""
    match = _RANGE.fullmatch(part)
    if match is None:
        raise HostlistError(f"{_shown(item)} holds {_shown(part)} in brackets, must be a number or a range such as 1-3")
    low, high = match[1], match[2] or match[1]
    if max(len(low), len(high)) > MOST_DIGITS:
        raise HostlistError(f"{_shown(item)} has a number of more than {MOST_DIGITS} digits")
    if int(low) > int(high):
        raise HostlistError(f"{_shown(item)} has the range {part.strip()}, which falls")
    if int(high) - int(low) >= LARGEST_CLUSTER:
        raise HostlistError(f"{_shown(item)} stands for more than {LARGEST_CLUSTER} names")
    return [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]


def _folded(prefix: str, digits: list[str]) -> Iterator[str]:
    """Parts of a hostlist for the names with one prefix."""
    if "" in digits:
        yield prefix
    for width, numbers in _by_width([number for number in digits if number]):
        ranges = list(_ranges(numbers, width))
        if len(numbers) == 1:
            yield prefix + ranges[0]
        else:
            yield f"{prefix}[{','.join(ranges)}]"


def _by_width(digits: list[str]) -> list[tuple[int, list[int]]]:
    """Numbers by the width to which they are filled with zeros, 1 for those that are not, rising."""
    widths: dict[int, list[int]] = {}
    for number in digits:
        widths.setdefault(len(number) if number[0] == "0" else 1, []).append(int(number))
    filled = [width for width in widths if width > 1]
    if len(filled) == 1 and 1 in widths and min(widths[1]) >= 10 ** (filled[0] - 1):
        # Numbers that fill the width by themselves continue the others: 08, 09, 10.
        widths[filled[0]] += widths.pop(1)
    return [(width, sorted(numbers)) for width, numbers in widths.items()]


def _ranges(numbers: list[int], width: int) -> Iterator[str]:
    """Rising numbers as numbers and ranges."""
    first = last = numbers[0]
    for number in [*numbers[1:], None]:
        if number == last + 1:
            last = number
            continue
        low, high = str(first).zfill(width), str(last).zfill(width)
        yield low if first == last else f"{low}-{high}"
        if number is not None:
            first = last = number
