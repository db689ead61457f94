"""Lists of nodes on the command line."""

import re
from typing import TYPE_CHECKING

from allocopt.cluster.topology import LARGEST_CLUSTER
from allocopt.errors import InvalidProblemError, UsageError

if TYPE_CHECKING:
    from allocopt.cluster.named import NamedTree

_NUMBERS = re.compile(r"[\s\d,-]*")
_RANGE = re.compile(r"\s*(\d{1,18})(?:\s*-\s*(\d{1,18}))?\s*")


def parse_nodes(text: str, cluster: "NamedTree | None" = None) -> list[int]:
    """Turn numbers and ranges such as ``3,7-9``, or a hostlist of names, into node numbers; an empty text holds none.

    Parameters
    ----------
    text
        The list. What is made of digits, commas and hyphens holds numbers, anything else names.
    cluster
        Where the nodes have names; None where they have none.

    Raises
    ------
    UsageError
        If a part is neither a number nor a range that does not fall, a number is larger than any cluster, there are
        more nodes than any cluster has, or there is no node of a name.
    """
    if cluster is not None and not _NUMBERS.fullmatch(text):
        from allocopt.cluster.hostlist import expand_hostlist

        try:
            return cluster.numbers(expand_hostlist(text))
        except InvalidProblemError as error:
            raise UsageError(f"nodes {text!r}: {error.fault}") from None
    ranges: list[range] = []
    for part in text.split(",") if text.strip() else []:
        match = _RANGE.fullmatch(part)
        if match is None:
            right = "must be numbers and ranges such as 3,7-9; names are those of a topology that is given"
            raise UsageError(f"nodes {text!r} hold {part!r}, {right}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < LARGEST_CLUSTER:
            raise UsageError(f"nodes {text!r} hold {part!r}, must rise within 0..{LARGEST_CLUSTER - 1}")
        ranges.append(range(first, last + 1))
    if sum(map(len, ranges)) > LARGEST_CLUSTER:
        raise UsageError(f"nodes {text!r} are more than {LARGEST_CLUSTER}")
    return [node for numbers in ranges for node in numbers]
