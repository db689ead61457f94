"""Clusters: nodes and their names, topologies, platforms."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocopt.cluster.graphml import graph_of, tree_of_graph
    from allocopt.cluster.hostlist import expand_hostlist, fold_hostlist
    from allocopt.cluster.named import NamedTree
    from allocopt.cluster.platform import Part, Platform
    from allocopt.cluster.topology import FatTree, Tree

_HOMES = {
    "FatTree": "allocopt.cluster.topology",
    "NamedTree": "allocopt.cluster.named",
    "Part": "allocopt.cluster.platform",
    "Platform": "allocopt.cluster.platform",
    "Tree": "allocopt.cluster.topology",
    "expand_hostlist": "allocopt.cluster.hostlist",
    "fold_hostlist": "allocopt.cluster.hostlist",
    "graph_of": "allocopt.cluster.graphml",
    "tree_of_graph": "allocopt.cluster.graphml",
}

__all__ = [
    "FatTree",
    "NamedTree",
    "Part",
    "Platform",
    "Tree",
    "expand_hostlist",
    "fold_hostlist",
    "graph_of",
    "tree_of_graph",
]


def __getattr__(name: str) -> Any:
    """Import a name from its home: networkx, which graphs need, takes a while."""
    if name not in _HOMES:
        raise AttributeError(f"module 'allocopt.cluster' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
