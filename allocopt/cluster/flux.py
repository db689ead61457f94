"""Resource graphs of Flux: JSON graphs (JGF), and recipes for their generation (GRUG, ``.graphml``).

In flux-sched's subsystem ``containment`` a cluster contains racks or other groups, these contain nodes, and these
sockets, cores, GPUs and memory.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasPath, Field

from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.cluster.named import placed_tree
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import FileModel, validated

if TYPE_CHECKING:
    import networkx as nx

MOST_DEEP, MOST_MADE = 64, 1_000_000  # vertices below each other, and made of a recipe, beyond which a file is refused
_MIB = {"": 1.0, "KB": 1 / 1024, "MB": 1.0, "MIB": 1.0, "GB": 1024.0, "GIB": 1024.0, "TB": 1024.0**2}


# Vertices have many keys that say nothing of what fits where.
class _Metadata(FileModel, extra="ignore"):
    type: str
    size: Annotated[float, Field(ge=0, lt=2**40)] = 1
    unit: str = ""
    path: Annotated[str, Field(validation_alias=AliasPath("paths", "containment"))] = ""


class _Vertex(FileModel, extra="ignore"):
    metadata: _Metadata


class _JsonGraph(FileModel, extra="ignore"):
    vertices: Annotated[list[_Vertex], Field(min_length=1, validation_alias=AliasPath("graph", "nodes"))]


@dataclass(frozen=True, slots=True)
class _Piece:
    # What stands at a path of names from the cluster downwards; the place is where the file says so.
    path: tuple[str, ...]
    kind: str
    amount: float
    place: str


def flux_cluster(obj: object, path: Path) -> Cluster:
    """Return the cluster of a JSON graph; raise `BadFileError` that names the place."""

    def pieces() -> Iterator[_Piece]:
        for number, vertex in enumerate(validated(_JsonGraph, obj, path).vertices):
            about, place = vertex.metadata, f"graph.nodes[{number}]"
            if not about.path.startswith("/"):
                raise bad_file(path, place, "has no path of containment, must be such as /cluster0/rack0/node0")
            if about.path.count("/") > MOST_DEEP:
                raise bad_file(path, place, f"its path of containment has more than {MOST_DEEP} names")
            amount = about.size * _unit(about.unit, path, place)
            yield _Piece(tuple(about.path.strip("/").split("/")), about.type, amount, place)

    return _cluster(pieces(), path)


def grug_cluster(recipe: "nx.DiGraph[Any]", path: Path) -> Cluster:
    """Return the cluster that a recipe stands for; raise `BadFileError` where it makes none."""
    made = 0

    def count(value: object, key: str, place: str) -> int:
        if not re.fullmatch(r"\d{1,12}", str(value), re.ASCII):
            raise bad_file(path, place, f"{key} is {shown(value)}, must be a whole number, not negative")
        return int(str(value))

    def grown(vertex: str, above: tuple[str, ...], number: int, times: float, *, is_inside: bool) -> Iterator[_Piece]:
        nonlocal made
        about, place = recipe.nodes[vertex], f"node {shown(vertex)}"
        kind, at = str(about.get("type", vertex)), (*above, f"{about.get('basename', vertex)}{number}")
        amount = times * count(about.get("size", 1), "size", place) * _unit(str(about.get("unit", "")), path, place)
        yield _Piece(at, kind, amount, place)
        # What contains nodes is written out, what a node has is counted.
        is_inside = is_inside or kind == "node"
        for _, child, link in recipe.out_edges(vertex, data=True):
            is_made = link.get("gen_method", "MULTIPLY") == "MULTIPLY"
            scale = count(link.get("multi_scale", 1), "multi_scale", place) if is_made else 0
            copies = min(scale, 1) if is_inside else scale
            made += copies
            if len(at) > MOST_DEEP or made > MOST_MADE:
                raise bad_file(path, place, f"stands for more than {MOST_MADE} vertices or {MOST_DEEP} levels")
            for copy in range(copies):
                yield from grown(child, at, copy, times * scale if is_inside else times, is_inside=is_inside)

    roots = [vertex for vertex in recipe if recipe.in_degree(vertex) == 0]
    return _cluster((piece for root in roots for piece in grown(root, (), 0, 1.0, is_inside=False)), path)


def _cluster(pieces: Iterable[_Piece], path: Path) -> Cluster:
    found = list(pieces)
    held: dict[tuple[str, ...], Counter[str]] = {}
    for piece in found:
        if piece.kind == "node":
            if piece.path in held:
                raise bad_file(path, piece.place, f"node {shown('/'.join(piece.path))} is given twice")
            held[piece.path] = Counter()
    if not held:
        raise bad_file(path, "holds no vertex of type node")
    for piece in found:
        for depth in range(len(piece.path), 0, -1):
            if piece.path[:depth] in held and piece.kind != "node":
                held[piece.path[:depth]][piece.kind] += piece.amount  # type: ignore[assignment]
                break
    # Nodes of several racks may have one name.
    counts = Counter(at[-1] for at in held)
    names = {at: at[-1] if counts[at[-1]] == 1 else ".".join(at) for at in held}
    nodes = []
    for at, has in held.items():
        gpus = {"": round(has["gpu"])} if has["gpu"] else {}
        nodes.append(ClusterNode(names[at], has["core"] or 1, round(has["memory"]) or None, gpus))
    # A node beside racks is in one of its own.
    deepest = max(map(len, held))
    return Cluster.of(nodes, placed_tree({names[at]: at[:-1] + at[-2:-1] * (deepest - len(at)) for at in held}))


def _unit(unit: str, path: Path, place: str) -> float:
    if unit.upper() not in _MIB:
        raise bad_file(path, place, f"unit is {shown(unit)}, must be one of {', '.join(filter(None, _MIB))}")
    return _MIB[unit.upper()]
