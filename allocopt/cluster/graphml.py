"""Clusters as graphs of networkx and as GraphML files: links between nodes and switches.

A graph without cycles is a tree of switches. A graph with cycles, such as a fat tree with several spines, is read as a
tree if the hops between its nodes, counted in the graph, are those of a tree.
"""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

import networkx as nx
import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.named import NamedTree, Switch, placed_tree, tree_of_switches
from allocopt.errors import InvalidProblemError
from allocopt.files.faults import bad_file
from allocopt.files.reading import read_text

if TYPE_CHECKING:
    from allocopt.cluster.cluster import Cluster

    Graph = nx.Graph[Any]
else:
    Graph = nx.Graph

_KIND_KEYS = ("kind", "type", "role")  # attributes with the kind of a vertex; our own files use the first
_HOSTS, _SWITCHES = {"node", "host", "server", "compute"}, {"switch", "router", "leaf", "spine", "core"}
_RECIPE = {"gen_method", "multi_scale"}  # default attributes of the links of a recipe of Flux
_MOST_COUNTED = 5000  # largest number of nodes of a graph with cycles


def read_graphml(path: Path) -> "NamedTree | Cluster":
    """Read a network as in `tree_of_graph`, or the cluster of a recipe of Flux; errors as in `read_topology`."""
    text = read_text(path)
    try:
        # networkx warns of undeclared ports and keys, which do not affect how nodes are connected.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = nx.parse_graphml(text)
    except (ParseError, nx.NetworkXError, KeyError, ValueError) as error:
        raise bad_file(path, f"is not GraphML: {error}") from None
    if _RECIPE <= graph.graph.get("edge_default", {}).keys():
        from allocopt.cluster.flux import grug_cluster

        return grug_cluster(nx.DiGraph(graph), path)
    return tree_of_graph(graph)


def tree_of_graph(graph: Graph) -> NamedTree:
    """Return the tree of a network, which is an undirected or directed graph.

    The attribute ``kind`` (or ``type``, ``role``) of a vertex says whether it is a node or a switch; if no vertex is
    called a node, those with one link are nodes. The name of a vertex is its attribute ``name``; without this
    attribute, the vertex itself. The root is the vertex whose attribute ``root`` is true. By default, it is a vertex
    without incoming links in a directed graph, and the center of an undirected graph. Raises `InvalidProblemError` if
    there are no nodes, a name is given twice, or the hops between the nodes are not those of a tree.
    """
    names = {vertex: str(data.get("name", vertex)) for vertex, data in graph.nodes(data=True)}
    named: Graph = nx.relabel_nodes(graph, names)
    if named.number_of_nodes() < graph.number_of_nodes():
        raise InvalidProblemError("", "two vertices have the same name")
    # Directions and parallel links do not affect distances.
    links: Graph = nx.Graph(named)
    links.remove_edges_from(list(nx.selfloop_edges(links)))
    kinds = {
        vertex: next((str(data[key]).lower() for key in _KIND_KEYS if key in data), "")
        for vertex, data in links.nodes(data=True)
    }
    hosts = [vertex for vertex, kind in kinds.items() if kind in _HOSTS]
    hosts = hosts or [vertex for vertex, kind in kinds.items() if links.degree[vertex] == 1 and kind not in _SWITCHES]
    if not hosts:
        raise InvalidProblemError(
            "",
            "has no nodes; a node is a vertex whose attribute kind is node or, if no vertex has that attribute, "
            "one with a single link",
        )
    # Remove switches that lead to no node: they would only move the center of the graph.
    held = {*hosts, *(vertex for vertex, is_root in links.nodes(data="root") if is_root)}
    ends = [vertex for vertex in links if vertex not in held and links.degree[vertex] == 1]
    while ends:
        vertex = ends.pop()
        (other,) = links[vertex] or (vertex,)
        if other not in held:
            links.remove_node(vertex)
            ends += [other] if other in links and links.degree[other] == 1 else []
    if nx.is_forest(links) and all(links.degree[host] <= 1 for host in hosts):
        return tree_of_switches(list(_switches(named, links, set(hosts))))
    if len(hosts) > _MOST_COUNTED:
        raise InvalidProblemError("", f"has cycles and {len(hosts)} nodes, must have at most {_MOST_COUNTED}")
    from scipy.sparse.csgraph import dijkstra

    position = {vertex: index for index, vertex in enumerate(links)}
    matrix = nx.to_scipy_sparse_array(links, weight=None, format="csr")
    rows = [position[host] for host in hosts]
    apart = dijkstra(matrix, directed=False, indices=rows, unweighted=True)[:, rows]
    if np.isinf(apart).any():
        first, second = np.argwhere(np.isinf(apart))[0]
        raise InvalidProblemError("", f"nodes {hosts[first]!r} and {hosts[second]!r} are not connected")
    hops: IntArray = apart.astype(np.int64)
    # The hops are those of a tree if being at most h hops apart is an equivalence relation for each h (ultrametric).
    steps = [int(step) for step in np.unique(hops) if step > 0]
    # A group is identified by its first node.
    firsts_of = [np.argmax(hops <= step, axis=1) for step in steps]
    for step, row in zip(steps, firsts_of, strict=True):
        # Nodes within a distance of the same node must be within this distance of each other.
        wrong = np.argwhere((hops <= step) != (row[:, None] == row[None, :]))
        if len(wrong):
            first, second = wrong[0]
            other = min(int(row[first]), int(row[second]))
            a, b, c = hosts[first], hosts[second], hosts[other]
            found = f"{a} - {b} {hops[first, second]}, {a} - {c} {hops[first, other]}, {b} - {c} {hops[second, other]}"
            raise InvalidProblemError("", f"the hops between nodes are not those of a tree: {found}")
    levels = [[f"level {level} of {hosts[first]}" for first in row] for level, row in enumerate(firsts_of[:-1], 1)]
    made = placed_tree({host: tuple(level[node] for level in reversed(levels)) for node, host in enumerate(hosts)})
    return replace(made, tree=replace(made.tree, hops=tuple(steps or (2,))))


def graph_of(cluster: NamedTree) -> Graph:
    """Return a cluster as a graph of networkx; vertices have the attributes ``kind`` and ``level`` (0 for nodes)."""
    # Names of vertices must be unique.
    used = set(cluster.nodes)
    vertices: list[list[str]] = []
    for level, names in enumerate(cluster.tree.names, 1):
        vertices.append([f"{name} (level {level})" if name in used else name for name in names])
        used.update(names)
    graph: Graph = nx.Graph()
    if cluster.is_joined:
        vertices.append([f"top of {len(cluster.nodes)} nodes"])
    for level, switches in enumerate(vertices, 1):
        graph.add_nodes_from(switches, kind="switch", level=level, **({"root": True} if level == len(vertices) else {}))
    graph.add_nodes_from(cluster.nodes, kind="node", level=0)
    for node, groups in zip(cluster.nodes, cluster.tree.groups.T.tolist(), strict=True):
        above = zip(vertices, [*groups, 0], strict=False)
        nx.add_path(graph, [node, *(switches[group] for switches, group in above)])
    return graph


def _switches(graph: Graph, links: Graph, hosts: set[str]) -> Iterator[Switch]:
    for vertices in nx.connected_components(links):
        part = links.subgraph(vertices)
        inner = [vertex for vertex in graph if vertex in part and vertex not in hosts]
        if not inner:
            raise InvalidProblemError("", f"node {next(iter(part))!r} is linked to no switch")
        roots = [vertex for vertex in inner if part.nodes[vertex].get("root")]
        if graph.is_directed():
            roots += [vertex for vertex in inner if graph.in_degree(vertex) == 0]  # type: ignore[attr-defined]
        roots = roots or [vertex for vertex in nx.center(part) if vertex not in hosts]
        for vertex, below in nx.bfs_successors(part, roots[0]):
            nodes = tuple(child for child in below if child in hosts)
            switches = tuple(child for child in below if child not in hosts)
            if nodes and switches:
                # Nodes beside switches get a leaf switch of their own.
                yield Switch(f"nodes of {vertex}", nodes)
                nodes, switches = (), (*switches, f"nodes of {vertex}")
            yield Switch(vertex, nodes, switches)
