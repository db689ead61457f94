"""Clusters: nodes and their names, topologies, platforms."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocopt.cluster.graphml import graph_of, tree_of_graph
    from allocopt.cluster.hostlist import expand_hostlist, fold_hostlist
    from allocopt.cluster.named import NamedTree
    from allocopt.cluster.platform import Part, Platform
    from allocopt.cluster.topology import FatTree, Tree

_NAMES = {
    "graphml": ("graph_of", "tree_of_graph"),
    "hostlist": ("expand_hostlist", "fold_hostlist"),
    "named": ("NamedTree",),
    "platform": ("Part", "Platform"),
    "topology": ("FatTree", "Tree"),
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
    """Import a name from its module: networkx, which graphs need, takes a while."""
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"allocopt.cluster.{module}"), name)
    raise AttributeError(f"module 'allocopt.cluster' has no attribute {name!r}")
