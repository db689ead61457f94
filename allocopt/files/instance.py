"""Instance files: problems as JSON, one in a ``.json`` file, one a line in a ``.jsonl`` file, ``.gz`` or not."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from allocopt.cluster.topology import FatTree, Topology
from allocopt.cluster.tree import Tree
from allocopt.errors import InvalidProblemError
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import INSTANCE_FORMAT, VERSION, FatTreeModel, InstanceModel, TreeModel
from allocopt.files.placement import keys_of, placement_of, short_number
from allocopt.files.reading import parse_json, read_text
from allocopt.files.validation import check_header, validated
from allocopt.files.writing import compact_json, json_by_line, write_text
from allocopt.problems.topology import Job, TopologyProblem

FUTURE_KINDS = ("knapsack", "coallocation")
"""Kinds that the format knows and this version of the package does not."""


def read_problems(path: Path | str) -> list[TopologyProblem]:
    """Read every problem of an instance file.

    Parameters
    ----------
    path
        One instance, or one a line if the name ends in ``.jsonl`` or ``.jsonl.gz``; blank lines are skipped.

    Raises
    ------
    BadFileError
        If the file cannot be read or anything in it is wrong; it names file, place and fault.
    """
    path = Path(path)
    text = read_text(path)
    if not _holds_several(path):
        return [problem_from_object(parse_json(text, path), path)]
    problems: list[TopologyProblem] = []
    lines: dict[str, int] = {}
    for number, line in _filled_lines(text):
        where = f"{path}: line {number}"
        problem = problem_from_object(parse_json(line, path, first_line=number), where)
        if problem.name in lines:
            raise bad_file(where, "name", f"is {shown(problem.name)}, which line {lines[problem.name]} has already")
        lines[problem.name] = number
        problems.append(problem)
    if not problems:
        raise bad_file(path, "is empty, must hold one instance a line")
    return problems


def write_problems(path: Path | str, problems: Sequence[TopologyProblem]) -> None:
    """Write problems into one instance file; several need a name that ends in ``.jsonl`` or ``.jsonl.gz``.

    Raises
    ------
    BadFileError
        If the file cannot be written, or would not be read again: no problem, a name twice or no file name.
    """
    path = Path(path)
    objects = [object_from_problem(problem) for problem in problems]
    for problem, obj in zip(problems, objects, strict=True):
        validated(InstanceModel, obj, f"{path}: instance {shown(problem.name)}")
    names = [problem.name for problem in problems]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise bad_file(path, f"cannot hold two instances named {shown(twice)}")
    if _holds_several(path) and objects:
        write_text(path, "".join(f"{compact_json(obj)}\n" for obj in objects))
    elif len(objects) == 1:
        write_text(path, json_by_line(objects[0]))
    else:
        raise bad_file(
            path, f"cannot hold {len(objects)} instances; one goes into a .json file, more into a .jsonl file"
        )


def problem_from_object(obj: object, where: Path | str) -> TopologyProblem:
    """Make a problem of a parsed instance.

    Parameters
    ----------
    obj
        What `parse_json` returned.
    where
        The file, or ``FILE: line N``, for messages.

    Raises
    ------
    BadFileError
        If anything in it is wrong.
    """
    _check_kind(check_header(obj, where, INSTANCE_FORMAT), where)
    model = validated(InstanceModel, obj, where)
    try:
        return TopologyProblem(
            topology=_topology(model.topology),
            idle_nodes=np.array(model.idle_nodes, dtype=np.int64),
            jobs=tuple(Job(job.id, job.nodes, placement_of(job)) for job in model.jobs),
            hop_cost=model.hop_cost,
            name=model.name,
            fragmentation_weight=model.fragmentation_weight,
        )
    except InvalidProblemError as error:
        raise bad_file(where, error.place, error.fault) from None


def object_from_problem(problem: TopologyProblem) -> dict[str, object]:
    """Turn a problem into the object that stands in an instance file; the strategy is no part of it."""
    optional = {"fragmentation_weight": float(problem.fragmentation_weight)} if problem.fragmentation_weight else {}
    return {
        "format": INSTANCE_FORMAT,
        "version": VERSION,
        "kind": problem.kind,
        "name": problem.name,
        "topology": _topology_object(problem.topology),
        "idle_nodes": problem.idle_nodes.tolist(),
        "jobs": [{"id": job.id, "nodes": int(job.nodes), **keys_of(job.placement)} for job in problem.jobs],
        "hop_cost": short_number(problem.hop_cost),
        **optional,
    }


def _holds_several(path: Path) -> bool:
    """Whether the name promises one instance a line."""
    return path.name.endswith((".jsonl", ".jsonl.gz"))


def _filled_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def _check_kind(header: dict[str, object], where: Path | str) -> None:
    """Refuse the kinds of problems that cannot be read."""
    if "kind" not in header:
        raise bad_file(where, "kind", "is missing, must be 'topology'")
    kind = header["kind"]
    if kind in FUTURE_KINDS:
        raise bad_file(where, "kind", f"is {kind!r}, which this version does not support yet; it reads 'topology'")
    if kind != TopologyProblem.kind:
        raise bad_file(where, "kind", f"is {shown(kind)}, must be 'topology'")


def _topology(model: FatTreeModel | TreeModel) -> Topology:
    """Make the cluster."""
    if isinstance(model, TreeModel):
        return Tree.from_levels(model.levels, model.hops, model.pairs)
    return FatTree(model.pods, model.leaves_per_pod, model.nodes_per_leaf, tuple(model.hops), model.pairs)


def _topology_object(topology: Topology) -> dict[str, object]:
    """Turn the cluster into the object that stands in an instance file."""
    options: dict[str, object] = {} if topology.pairs == "ordered" else {"pairs": topology.pairs}
    hops = [int(hop) for hop in topology.hops]
    if isinstance(topology, Tree):
        return {"kind": "tree", "levels": topology.to_levels(), "hops": hops, **options}
    if isinstance(topology, FatTree):
        shape = {field: int(getattr(topology, field)) for field in ("pods", "leaves_per_pod", "nodes_per_leaf")}
        if hops != [2, 4, 6]:
            options = {"hops": hops, **options}
        return {"kind": "fat-tree", **shape, **options}
    raise InvalidProblemError("topology", f"is a {type(topology).__name__}, which instance files cannot hold")
