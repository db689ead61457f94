"""Clusters: nodes and their names, topologies, platforms."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocopt.cluster.cluster import Cluster, ClusterNode, NodeUse, Partition, Reservation
    from allocopt.cluster.downtime import Downtime, read_downtimes
    from allocopt.cluster.graphml import graph_of, tree_of_graph
    from allocopt.cluster.hostlist import expand_hostlist, fold_hostlist
    from allocopt.cluster.named import NamedTree
    from allocopt.cluster.platform import Part, Platform
    from allocopt.cluster.reading import read_cluster
    from allocopt.cluster.request import Constraint, Request
    from allocopt.cluster.topology import FatTree, Tree

_MODULES = ("topology", "named", "hostlist", "cluster", "request", "platform", "reading", "downtime", "graphml")
__all__ = [
    "Cluster",
    "ClusterNode",
    "Constraint",
    "Downtime",
    "FatTree",
    "NamedTree",
    "NodeUse",
    "Part",
    "Partition",
    "Platform",
    "Request",
    "Reservation",
    "Tree",
    "expand_hostlist",
    "fold_hostlist",
    "graph_of",
    "read_cluster",
    "read_downtimes",
    "tree_of_graph",
]


def __getattr__(name: str) -> Any:
    """Import a name from its module; the module for graphs comes last, because networkx loads slowly."""
    for module in _MODULES if name in __all__ else ():
        found = import_module(f"allocopt.cluster.{module}")
        if hasattr(found, name):
            return getattr(found, name)
    raise AttributeError(f"module 'allocopt.cluster' has no attribute {name!r}")
