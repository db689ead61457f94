"""InfiniBand fabrics as ``ibnetdiscover`` prints them: switches, channel adapters, and the links of their ports.

A host may have several adapters, each on another leaf switch (rails), and a leaf switch may have links to several
spines. The level of a switch is its distance from the nearest host. Two hosts meet at the lowest level such that the
switches up to this level connect them.
"""

import re
from dataclasses import replace
from pathlib import Path

import networkx as nx

from allocopt.cluster.named import NamedTree, placed_tree
from allocopt.files.faults import bad_file

_OWNER = re.compile(r'(Switch|Ca|Rt)\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"')
_PORT = re.compile(r'\[\d+\](?:\([0-9a-fA-F]+\))?\s+"([^"]+)"')
# The description of a host's adapter begins with the host's name, followed by the adapter's; other adapters name the
# vendor instead.
_HOST = re.compile(r"(\S+) (?:mlx|hca|ib|HCA|bnxt|irdma)\S*")


def ibnetdiscover_tree(text: str, path: Path) -> NamedTree:
    """Return the tree of the fabric in a file's text. Raises `BadFileError` for an invalid line, or without hosts."""
    fabric, unknown = _fabric(text, path)
    hosts = sorted(vertex for vertex, is_host in fabric.nodes(data="host") if is_host and fabric.degree[vertex])
    if not hosts:
        raise bad_file(path, 'holds no adapter of a host, such as "node1 mlx5_0", on a switch')
    heights = nx.multi_source_dijkstra_path_length(fabric, set(hosts), weight=None)
    levels: list[dict[str, int]] = []
    for height in range(1, int(max(heights.values())) + 1):
        near = fabric.subgraph(vertex for vertex, found in heights.items() if found <= height)
        of = {vertex: number for number, found in enumerate(nx.connected_components(near)) for vertex in found}
        numbers: dict[int, int] = {}
        level = {host: numbers.setdefault(of[host], len(numbers)) for host in hosts}
        # A level that joins the same hosts as the level below is skipped.
        if not levels or level != levels[-1]:
            levels.append(level)
    if len(set(levels[-1].values())) == 1 and len(levels) > 1:
        levels.pop()
    places = {
        host: tuple(f"level {rank} group {levels[rank - 1][host] + 1}" for rank in range(len(levels), 0, -1))
        for host in hosts
    }
    tree = placed_tree(places)
    left_out = (f"adapters that belong to no host, left out: {unknown}",) if unknown else ()
    return replace(tree, remarks=(*left_out, *tree.remarks))


def _fabric(text: str, path: Path) -> tuple["nx.Graph[str]", int]:
    # Parallel links do not change distances, and all adapters of a host count as the host.
    links: nx.Graph[str] = nx.Graph()
    names: dict[str, str] = {}
    unknown: set[str] = set()
    owner = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _OWNER.match(line):
            owner = match[2]
            host = _HOST.fullmatch(match[3])
            if host is not None:
                names[owner] = host[1]
            elif match[1] != "Switch":
                unknown.add(owner)
        elif match := _PORT.match(line):
            if not owner:
                raise bad_file(path, f"line {number}", "is a port without a switch or adapter above it")
            links.add_edge(owner, match[1])
        elif line.startswith("["):
            raise bad_file(path, f"line {number}", 'is not a port, must be a line such as [1] "S-0002c9"[2]')
    links.remove_nodes_from(unknown)
    fabric: nx.Graph[str] = nx.relabel_nodes(links, names)
    nx.set_node_attributes(fabric, dict.fromkeys(names.values(), True), "host")
    return fabric, len(unknown)
