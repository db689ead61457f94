"""Resources of Flux: JSON graphs (JGF), recipes for their generation (GRUG), resource sets (R) and their status.

In flux-sched's subsystem ``containment`` a cluster contains racks or other groups, these contain nodes, and nodes
contain sockets, cores, GPUs and memory. A resource set of version 1 (RFC 20) lists ranks with their cores and GPUs; it
may have a graph under ``scheduling``.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasPath, Field

from allocopt.cluster.cluster import Cluster, ClusterNode, NodeUse
from allocopt.cluster.conf_lines import names_in
from allocopt.cluster.hostlist import HostlistExpander
from allocopt.cluster.named import NamedTree, placed_tree
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import FileModel, validated

if TYPE_CHECKING:
    import networkx as nx

MOST_DEEP, MOST_MADE = 64, 1_000_000  # largest depth of a vertex; largest number of vertices from a recipe
_MIB = {"": 1.0, "KB": 1 / 1024, "MB": 1.0, "MIB": 1.0, "GB": 1024.0, "GIB": 1024.0, "TB": 1024.0**2}


# Other keys of a vertex are ignored, because they do not affect which jobs fit where.
class _Metadata(FileModel, extra="ignore"):
    type: str
    size: Annotated[float, Field(ge=0, lt=2**40)] = 1
    unit: str = ""
    path: Annotated[str, Field(validation_alias=AliasPath("paths", "containment"))] = ""
    status: int | str = 0
    rank: int = -1
    properties: dict[str, Any] | list[str] | None = None

    @property
    def is_up(self) -> bool:
        # In flux-sched's resource_data.hpp, UP is 0 and DOWN is 1.
        return str(self.status).upper() in ("0", "UP")


class _Vertex(FileModel, extra="ignore"):
    metadata: _Metadata


class _JsonGraph(FileModel, extra="ignore"):
    vertices: Annotated[list[_Vertex], Field(min_length=1, validation_alias=AliasPath("graph", "nodes"))]


@dataclass(frozen=True, slots=True)
class _Piece:
    # A vertex, with its path of names from the cluster downwards and its place in the file.
    path: tuple[str, ...]
    kind: str
    amount: float
    place: str
    is_up: bool = True
    rank: int = -1
    features: frozenset[str] = frozenset()


_Ranks = Annotated[str | int, Field(union_mode="left_to_right")]


class _Row(FileModel, extra="ignore"):
    rank: _Ranks
    children: Annotated[dict[str, _Ranks], Field(default_factory=dict)]


class _Execution(FileModel, extra="ignore"):
    rows: Annotated[list[_Row], Field(validation_alias="R_lite")]
    nodelist: Annotated[list[str], Field(default_factory=list)]
    properties: Annotated[dict[str, _Ranks] | None, Field()] = None


class _ResourceSet(FileModel, extra="ignore"):
    execution: _Execution
    scheduling: dict[str, Any] | None = None

    def nodes(self, place: str) -> dict[int, ClusterNode]:
        """Return the nodes by their ranks, with the properties as features."""
        names: list[str] = []
        for hostlist in self.execution.nodelist:
            names += names_in(place, "nodelist", hostlist, HostlistExpander())
        ranks = [rank for row in self.execution.rows for rank in _ids(row.rank, place, "rank")]
        if len(set(ranks)) < len(ranks) or (names and len(names) != len(ranks)):
            raise bad_file(place, f"has {len(ranks)} ranks and {len(names)} node names, must have one name per rank")
        order = {rank: number for number, rank in enumerate(sorted(ranks))}
        features: dict[int, set[str]] = {rank: set() for rank in ranks}
        for name, told in (self.execution.properties or {}).items():
            for rank in _ids(told, place, f"properties.{name}"):
                features.get(rank, set()).add(name)
        found = {}
        for row in self.execution.rows:
            held = {kind: len(_ids(told, place, f"children.{kind}")) for kind, told in row.children.items()}
            gpus = {"": held["gpu"]} if held.get("gpu") else {}
            for rank in _ids(row.rank, place, "rank"):
                name = names[order[rank]] if names else f"rank{rank}"
                node = ClusterNode(name, held.get("core", 1), None, gpus, frozenset(features[rank]))
                found[rank] = node
        return dict(sorted(found.items()))


_MOST_RANKS = 10_000_000


def _ids(told: str | int, place: str, key: str) -> list[int]:
    # Return the numbers of an idset such as 0-3,7.
    found: list[int] = []
    for part in str(told).strip("[]").split(",") if str(told) else []:
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part, re.ASCII)
        last = int(match[2] or match[1]) if match else -1
        if match is None or last < int(match[1]) or last - int(match[1]) + len(found) > _MOST_RANKS:
            raise bad_file(place, key, f"is {shown(told)}, must be a set of numbers such as 0-3,7")
        found += range(int(match[1]), last + 1)
    return found


def flux_cluster(objects: Sequence[tuple[Path, Mapping[str, Any]]]) -> Cluster:
    """Return the cluster that the first object describes; the later objects are the resource sets of running jobs.

    An object is a JSON graph, a resource set, or what ``flux resource status`` and ``flux resource list`` can read from
    a file: resource sets, with the ranks that are offline, drained, excluded or allocated. Raises `BadFileError` that
    names the place.
    """
    (path, first), *allocations = objects
    resources, *in_use = _resource_sets(first, path)
    away = _away(first, path)
    for place, one in allocations:
        in_use += _resource_sets(one, place)
    graph = resources.get("scheduling") if "graph" not in resources else resources
    if graph and isinstance(graph, dict) and "graph" in graph:
        found, ranks = graph_cluster(graph, path)
        nodes = {node.name: node for node in found.nodes}
        topology: NamedTree | None = found.topology
        remarks = found.remarks
    else:
        listed = validated(_ResourceSet, resources, path).nodes(str(path))
        ranks = {rank: node.name for rank, node in listed.items()}
        nodes = {node.name: node for node in listed.values()}
        topology, remarks = None, ()
        if len(nodes) < len(listed):
            raise bad_file(path, "names a node twice")
    for rank, why in away.items():
        if rank in ranks:
            name = ranks[rank]
            nodes[name] = replace(nodes[name], away=tuple(dict.fromkeys((*nodes[name].away, *why))))
    missing = 0
    for held in in_use:
        for rank, node in validated(_ResourceSet, held, path).nodes(str(path)).items():
            # If an allocation and the graph name a node differently, the rank identifies it.
            name = node.name if node.name in nodes else ranks.get(rank, "")
            missing += name not in nodes
            if name in nodes:
                before = nodes[name].use
                gpus = Counter(before.gpus) + Counter(node.gpus)
                nodes[name] = replace(nodes[name], use=NodeUse(before.cores + node.cores, 0, dict(gpus)))
    told = [f"allocated nodes that are not in the cluster, ignored: {missing}"] if missing else []
    return Cluster.of(nodes.values(), topology, remarks=[*remarks, *told])


def _resource_sets(obj: Mapping[str, Any], path: Path) -> list[Mapping[str, Any]]:
    # Return the resource set of the cluster and, if it is given, that of the allocated resources.
    if "graph" in obj or "execution" in obj:
        return [obj]
    resources = obj.get("R") or obj.get("all")
    if not isinstance(resources, dict):
        raise bad_file(path, "has no key R or all, must be a graph, a resource set, or a resource status of Flux")
    allocated = obj.get("allocated")
    return [resources, allocated] if isinstance(allocated, dict) and "execution" in allocated else [resources]


def _away(obj: Mapping[str, Any], path: Path) -> dict[int, tuple[str, ...]]:
    """Return the ranks that take no jobs, and all reasons why."""
    found: dict[int, tuple[str, ...]] = {}

    def add(ranks: Iterable[int], why: str) -> None:
        for rank in ranks:
            found[rank] = (*found.get(rank, ()), why)

    for key, why in (("offline", "offline"), ("exclude", "excluded"), ("torpid", "not responding")):
        if isinstance(told := obj.get(key), str | int) and told != "":
            add(_ids(told, str(path), key), why)
    drained = obj.get("drain")
    for told in drained if isinstance(drained, dict) else ():
        add(_ids(told, str(path), "drain"), "drained")
    down = obj.get("down")
    if isinstance(down, dict) and "execution" in down:
        add(validated(_ResourceSet, down, path).nodes(str(path)), "down")
    return found


def graph_cluster(obj: object, path: Path) -> tuple[Cluster, dict[int, str]]:
    """Return the cluster of a JSON graph, and its node names by rank. Nodes below a vertex that is down are down."""

    def pieces() -> Iterator[_Piece]:
        for number, vertex in enumerate(validated(_JsonGraph, obj, path).vertices):
            about, place = vertex.metadata, f"graph.nodes[{number}]"
            if not about.path.startswith("/"):
                raise bad_file(path, place, "has no containment path, such as /cluster0/rack0/node0")
            if about.path.count("/") > MOST_DEEP:
                raise bad_file(path, place, f"its containment path has more than {MOST_DEEP} names")
            amount = about.size * _unit(about.unit, path, place)
            at = tuple(about.path.strip("/").split("/"))
            yield _Piece(
                at, about.type, amount, place, about.is_up, about.rank, features=frozenset(about.properties or ())
            )

    return _cluster(pieces(), path)


def grug_cluster(recipe: "nx.DiGraph[Any]", path: Path) -> Cluster:
    """Return the cluster that a recipe generates. Raises `BadFileError` if it generates none."""
    made = 0

    def count(value: object, key: str, place: str) -> int:
        if not re.fullmatch(r"\d{1,12}", str(value), re.ASCII):
            raise bad_file(path, place, f"{key} is {shown(value)}, must be a whole number >= 0")
        return int(str(value))

    def grown(vertex: str, above: tuple[str, ...], number: int, times: float, *, is_inside: bool) -> Iterator[_Piece]:
        nonlocal made
        about, place = recipe.nodes[vertex], f"node {shown(vertex)}"
        kind, at = str(about.get("type", vertex)), (*above, f"{about.get('basename', vertex)}{number}")
        amount = times * count(about.get("size", 1), "size", place) * _unit(str(about.get("unit", "")), path, place)
        yield _Piece(at, kind, amount, place)
        # Vertices above nodes are made one by one; those inside a node are counted.
        is_inside = is_inside or kind == "node"
        for _, child, link in recipe.out_edges(vertex, data=True):
            is_made = link.get("gen_method", "MULTIPLY") == "MULTIPLY"
            scale = count(link.get("multi_scale", 1), "multi_scale", place) if is_made else 0
            copies = min(scale, 1) if is_inside else scale
            made += copies
            if len(at) > MOST_DEEP or made > MOST_MADE:
                raise bad_file(path, place, f"makes more than {MOST_MADE} vertices or {MOST_DEEP} levels")
            for copy in range(copies):
                yield from grown(child, at, copy, times * scale if is_inside else times, is_inside=is_inside)

    roots = [vertex for vertex in recipe if recipe.in_degree(vertex) == 0]
    return _cluster((piece for root in roots for piece in grown(root, (), 0, 1.0, is_inside=False)), path)[0]


def _cluster(pieces: Iterable[_Piece], path: Path) -> tuple[Cluster, dict[int, str]]:
    found = list(pieces)
    held: dict[tuple[str, ...], Counter[str]] = {}
    features: dict[tuple[str, ...], frozenset[str]] = {}
    for piece in found:
        if piece.kind == "node":
            if piece.path in held:
                raise bad_file(path, piece.place, f"node {shown('/'.join(piece.path))} is given twice")
            held[piece.path] = Counter()
            features[piece.path] = piece.features
    if not held:
        raise bad_file(path, "holds no vertex of type node")
    down = {piece.path for piece in found if not piece.is_up}
    for piece in found:
        # Cores and GPUs that are down do not count.
        for depth in range(len(piece.path), 0, -1) if piece.is_up else ():
            if piece.path[:depth] in held and piece.kind != "node":
                held[piece.path[:depth]][piece.kind] += piece.amount  # type: ignore[assignment]
                break
    # Nodes of different racks may have the same name.
    counts = Counter(at[-1] for at in held)
    names = {at: at[-1] if counts[at[-1]] == 1 else ".".join(at) for at in held}
    nodes = []
    for at, has in held.items():
        gpus = {"": round(has["gpu"])} if has["gpu"] else {}
        away = ("down",) if any(at[:depth] in down for depth in range(1, len(at) + 1)) else ()
        memory = round(has["memory"]) or None
        nodes.append(ClusterNode(names[at], has["core"] or 1, memory, gpus, features[at], away=away))
    # A node next to racks gets a rack of its own.
    deepest = max(map(len, held))
    tree = placed_tree({names[at]: at[:-1] + at[-2:-1] * (deepest - len(at)) for at in held})
    others = Counter(piece.kind for piece in found if piece.kind not in _KINDS and piece.path not in _above(held))
    told = ", ".join(f"{shown(kind)} {count}" for kind, count in sorted(others.items()))
    remarks = [f"vertices that are not modelled, ignored: {told}"] if told else []
    ranks = {piece.rank: names[piece.path] for piece in found if piece.kind == "node" and piece.rank >= 0}
    return Cluster.of(nodes, tree, remarks=remarks), ranks


_KINDS = frozenset(("cluster", "rack", "node", "socket", "core", "gpu", "memory", "pu", "numanode", "l3cache"))


def _above(held: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    return {at[:depth] for at in held for depth in range(1, len(at))}


def _unit(unit: str, path: Path, place: str) -> float:
    if unit.upper() not in _MIB:
        raise bad_file(path, place, f"unit is {shown(unit)}, must be one of {', '.join(filter(None, _MIB))}")
    return _MIB[unit.upper()]
