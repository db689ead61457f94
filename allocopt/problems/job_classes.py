"""The classes of the jobs of a window: equal sizes and equal rules."""

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.classes import JobClasses
from allocopt.kernels.tree import GroupTree
from allocopt.problems.encoding import Encoding
from allocopt.problems.side import Placement, allowed_nodes, level_index
from allocopt.problems.topology import TopologyProblem

EVERYWHERE = Placement()


def job_classes(
    problem: TopologyProblem, encoding: Encoding, tree: GroupTree, leftover_is_job: bool = False
) -> tuple[JobClasses, IntArray]:
    """Return the classes, rising by size and the order in which their rules come first, and the class of every job.

    Parameters
    ----------
    problem, encoding, tree
        The window, its arrays and its groups.
    leftover_is_job
        Whether the nodes that are left over, where their fragmentation has a weight, are one more job: the last one, a
        class of its own. Otherwise their weight is a part of every table.
    """
    placements = [job.placement or EVERYWHERE for job in problem.jobs]
    first = {placement: index for index, placement in reversed(list(enumerate(placements)))}
    keys = np.array([problem.sizes, [first[placement] for placement in placements]])
    found, example, of_job = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    rules = [placements[index] for index in example]
    sizes, factor = found[0], np.ones(len(rules))
    of_job, leftover = of_job.reshape(-1).astype(np.int64), 0.0
    if problem.fragmentation_weight > 0 and problem.n_left > 0:
        if leftover_is_job:
            of_job, sizes = np.append(of_job, len(sizes)), np.append(sizes, problem.n_left)
            factor, rules = np.append(factor, problem.fragmentation_weight), [*rules, EVERYWHERE]
        else:
            leftover = problem.fragmentation_weight / problem.n_left
    area, is_open = _areas(problem, tree, rules)
    classes = JobClasses(
        sizes=np.ascontiguousarray(sizes),
        factor=factor,
        step=_steps(problem, rules, sizes),
        bonus=_bonuses(problem, encoding, rules),
        area=area,
        is_open=is_open,
        level=_levels(encoding, tree),
        leftover=leftover,
        ruled=int(problem.has_side_constraints),
    )
    return classes, of_job


def constant_hops(problem: TopologyProblem, encoding: Encoding) -> float:
    """Hops that an allocation costs, in units of the scale, before what it saves is taken off."""
    hops = float((encoding.top * encoding.sizes - encoding.bottom).sum())
    prefers = [job.placement.prefer for job in problem.jobs if job.placement is not None]
    hops += sum(prefer.penalty for prefer in prefers if prefer is not None) / encoding.scale
    if problem.fragmentation_weight > 0 and problem.n_left > 0:
        hops += problem.fragmentation_weight * (encoding.top * problem.n_left - encoding.bottom)
    return hops


def _steps(problem: TopologyProblem, rules: list[Placement], sizes: IntArray) -> IntArray:
    """Of what the nodes in a group are a multiple, by class and level."""
    step = np.ones((len(rules), len(problem.topology.hops)), dtype=np.int64)
    for r, placement in enumerate(rules):
        if placement.segments is not None:
            step[r, level_index(problem.topology, placement.segments.level)] = placement.segments.nodes
        if placement.within is not None:
            # All or none; the segments divide it.
            step[r, level_index(problem.topology, placement.within)] = sizes[r]
    return step


def _bonuses(problem: TopologyProblem, encoding: Encoding, rules: list[Placement]) -> FloatArray:
    """Return what a job saves within one group, in hops, by class and level."""
    bonus = np.zeros((len(rules), len(problem.topology.hops)))
    for r, placement in enumerate(rules):
        if placement.prefer is not None:
            bonus[r, level_index(problem.topology, placement.prefer.level)] = placement.prefer.penalty / encoding.scale
    return bonus


def _areas(problem: TopologyProblem, tree: GroupTree, rules: list[Placement]) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the area of every class, and the leaves of every area."""
    nodes = problem.idle_nodes[tree.leaf_positions[tree.leaf_first[:-1]]]
    known: dict[tuple[object, object], int] = {}
    rows: list[NDArray[np.bool_]] = []
    area = []
    for placement in rules:
        key = (placement.only_in, placement.not_in)
        if key not in known:
            known[key] = len(rows)
            rows.append(allowed_nodes(problem.topology, placement, nodes))
        area.append(known[key])
    return np.array(area, dtype=np.int64), np.array(rows)


def _levels(encoding: Encoding, tree: GroupTree) -> IntArray:
    """Level of every vertex."""
    counts = np.append(encoding.n_groups, 1)
    return np.repeat(np.arange(len(counts)), counts)
