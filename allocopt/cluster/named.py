"""Trees whose nodes have names."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from allocopt.cluster.hostlist import check_listable, fold_hostlist
from allocopt.cluster.topology import Topology
from allocopt.cluster.tree import Tree
from allocopt.errors import InvalidProblemError


@dataclass(frozen=True, slots=True, eq=False)
class NamedTree:
    """A cluster as its site describes it: a tree, and what its nodes are called.

    Parameters
    ----------
    tree
        The tree; its nodes are numbered so that those of a switch stand together.
    nodes
        Name of every node, by its number.
    remarks
        What of the description is odd and was decided, a line each.

    Raises
    ------
    InvalidProblemError
        If the number of names is not that of the nodes, or a name is given twice or cannot be printed on one line.
    """

    tree: Tree
    nodes: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    _numbers: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        numbers = {name: number for number, name in enumerate(self.nodes)}
        object.__setattr__(self, "_numbers", numbers)
        if len(self.nodes) != self.tree.size or len(numbers) < len(self.nodes):
            fault = f"{len(numbers)} distinct names are given to {self.tree.size} nodes, must be one each"
            raise InvalidProblemError("topology nodes", fault)
        # Whoever reads lines takes what stands behind a line's end for another one.
        broken = next((name for name in self.nodes if not name.isprintable()), None)
        if broken is not None:
            raise InvalidProblemError("topology nodes", f"node {broken!r} has a control character in its name")

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of nodes.

        Raises
        ------
        InvalidProblemError
            If there is no node of a name.
        """
        listed = list(names)
        unknown = [name for name in listed if name not in self._numbers]
        if unknown:
            raise InvalidProblemError("topology nodes", f"there is no node {unknown[0]!r}")
        return [self._numbers[name] for name in listed]

    def is_like(self, topology: Topology) -> bool:
        """Whether a topology has as many nodes, and puts the same neighbours by number into one group at each level."""
        if topology.size != self.tree.size:
            return False
        own, other = self.tree.groups, topology.groups_of(np.arange(topology.size))
        return own.shape == other.shape and np.array_equal(np.diff(own) != 0, np.diff(other) != 0)

    def hostlist(self, numbers: Iterable[int]) -> str:
        """Write nodes as one hostlist, in the order of their numbers.

        Raises
        ------
        HostlistError
            If a name would be read as something else there.
        """
        names = [self.nodes[number] for number in sorted(numbers)]
        for name in names:
            check_listable(name)
        return fold_hostlist(names)

    def summary(self) -> str:
        """Count nodes, groups per level and hops in a line."""
        levels = ", ".join(f"{len(names)} at level {level}" for level, names in enumerate(self.tree.names, 1))
        hops = ", ".join(map(str, self.tree.hops))
        return f"{self.tree.size} nodes; groups: {levels or 'one'}; hops {hops}"
