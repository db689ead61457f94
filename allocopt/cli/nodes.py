"""Lists of nodes on the command line."""

import re

from allocopt.cluster.topology import LARGEST_CLUSTER
from allocopt.errors import UsageError

_RANGE = re.compile(r"\s*(\d{1,18})(?:\s*-\s*(\d{1,18}))?\s*")


def parse_nodes(text: str) -> list[int]:
    """Turn numbers and ranges such as ``3,7-9`` into node numbers; an empty text holds none.

    Raises
    ------
    UsageError
        If a part is neither a number nor a range that does not fall, or a number is larger than any cluster.
    """
    nodes: list[int] = []
    for part in text.split(",") if text.strip() else []:
        match = _RANGE.fullmatch(part)
        if match is None:
            raise UsageError(f"nodes {text!r} hold {part!r}, must be numbers and ranges such as 3,7-9")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < LARGEST_CLUSTER:
            raise UsageError(f"nodes {text!r} hold {part!r}, must rise within 0..{LARGEST_CLUSTER - 1}")
        nodes.extend(range(first, last + 1))
    return nodes
