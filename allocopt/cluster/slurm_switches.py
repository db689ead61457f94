"""Switches and blocks of Slurm's topologies before they become a tree: adds nodes to switches, and joins blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from allocopt.cluster.affiliations import Affiliations
from allocopt.cluster.named import NamedTree, Switch, tree_of_switches
from allocopt.errors import BadFileError

_LEVELS = frozenset(1 << level for level in range(16))  # numbers of blocks that Slurm can join


@dataclass(frozen=True, slots=True)
class Described:
    """A topology of a file: its switches, including those that join blocks, or its rings or toruses."""

    kind: str
    switches: tuple[Switch, ...]
    block_sizes: tuple[int, ...] = ()

    def tree(self) -> NamedTree:
        """Return the tree of these switches."""
        made = tree_of_switches(self.switches)
        if self.kind in ("tree", "block"):
            return replace(made, block_sizes=self.block_sizes)
        beside = f"Slurm gives a job nodes that are side by side in a {self.kind}, which is not modelled"
        return replace(made, is_beside=True, remarks=(*made.remarks, beside))

    @property
    def nodes(self) -> set[str]:
        """Names of the nodes of all switches."""
        return {node for switch in self.switches for node in switch.nodes}


def joined(switches: Sequence[Switch], site: Affiliations, topology: str) -> list[Switch]:
    """Return switches or blocks with the nodes whose lines in slurm.conf name them; missing switches are created.

    The line of a node overrides the file of the topology (slurm.conf(5), Topology of a node).
    """
    paths = {path: nodes for (name, path), nodes in site.units.items() if name == topology}
    if not paths:
        return list(switches)
    moved = {node for nodes in paths.values() for node in nodes}
    known = {one.name: replace(one, nodes=tuple(node for node in one.nodes if node not in moved)) for one in switches}
    for path, nodes in paths.items():
        for name in path:
            known.setdefault(name, Switch(name, place=f"Topology={topology}:{':'.join(path)}"))
        for above, below in pairwise(path):
            if below not in known[above].switches:
                known[above] = replace(known[above], switches=(*known[above].switches, below))
        known[path[-1]] = replace(known[path[-1]], nodes=(*known[path[-1]].nodes, *nodes))
    return list(known.values())


def joined_blocks(blocks: Sequence[Switch], sizes: Sequence[int], error: Callable[[str], BadFileError]) -> Described:
    """Return blocks and the groups that join them; sizes are in nodes, the size of a block first (topology.conf(5)).

    ``error`` makes the error for invalid sizes.
    """
    if not sizes:
        # Slurm's default is the size of the first block with nodes, and 2, 4, 8 and 16 times this size.
        base = next((len(block.nodes) for block in blocks if block.nodes), 1)
        sizes = [base << level for level in range(5) if 1 << level < 2 * len(blocks)]
    ratios = [size / sizes[0] if sizes[0] > 0 else 0.0 for size in sizes]
    if not all(ratio in _LEVELS for ratio in ratios) or sorted(set(sizes)) != list(sizes):
        given = ",".join(map(str, sizes))
        raise error(f"is {given}, must be rising sizes, each a power of two (at most 2^15) times the first")
    # Slurm joins neighbours in the order of the file. Its groups have no names; ours state size and number.
    switches, joined = list(blocks), [block.name for block in blocks]
    for below, size in pairwise(sizes):
        step = size // below
        groups = [tuple(joined[at : at + step]) for at in range(0, len(joined), step)]
        joined = [f"{size}-node block {number}" for number in range(1, len(groups) + 1)]
        switches += (Switch(name, switches=group) for name, group in zip(joined, groups, strict=True))
    switches += [Switch("all blocks", switches=tuple(joined))] if len(joined) > 1 else []
    return Described("block", tuple(switches), tuple(sizes))
