"""Windows with side constraints, and their optima by looking at all patterns of all jobs."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from support.counts import Pattern, leaf_groups, patterns
from support.windows import windows

from allocopt.cluster.topology import Topology
from allocopt.formulations.topology.free.pricing import Demand
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.problems.topology.side_constraints import Groups, Preference, Segments, SideConstraints
from allocopt.problems.topology.tables import encode, group_tree, job_classes


@st.composite
def placements(draw: st.DrawFn, topology: Topology, size: int) -> SideConstraints:
    """Any mixture of rules."""
    below = len(topology.hops) - 1
    levels = st.integers(1, below)

    def groups() -> tuple[Groups, ...]:
        level = draw(levels)
        n_groups = int(topology.groups_of(np.arange(topology.size))[level - 1].max()) + 1
        chosen = st.lists(st.integers(0, n_groups - 1), min_size=1, max_size=max(1, n_groups - 1), unique=True)
        return (Groups(level, tuple(draw(chosen))),)

    kinds = draw(st.sets(st.sampled_from(["only_in", "not_in", "within", "prefer", "segments"]), max_size=3))
    return SideConstraints(
        only_in=groups() if "only_in" in kinds else (),
        not_in=groups() if "not_in" in kinds else (),
        within=draw(levels) if "within" in kinds else None,
        prefer=Preference(draw(levels), draw(st.sampled_from([0.0, 100.0, 2500.0, 1e5])))
        if "prefer" in kinds
        else None,
        segments=draw(nested_segments(size, below)) if "segments" in kinds else (),
    )


@st.composite
def nested_segments(draw: st.DrawFn, size: int, below: int) -> tuple[Segments, ...]:
    """Segments of a job of so many nodes at one or more of the levels 1 to ``below``."""
    found = []
    for level in sorted(draw(st.sets(st.integers(1, below), min_size=1)), reverse=True):
        size = draw(st.sampled_from([part for part in range(1, size + 1) if size % part == 0]))
        found.append(Segments(size, level))
    return tuple(found)


@st.composite
def ruled_windows(
    draw: st.DrawFn,
    most_idle: int = 8,
    most_jobs: int = 3,
    topologies: st.SearchStrategy[Topology] | None = None,
    weights: st.SearchStrategy[float] = st.sampled_from([0.0, 0.0, 0.5, 2.0]),  # noqa: B008 (immutable)
) -> TopologyProblem:
    """Tiny windows of jobs with rules."""
    problem = draw(windows(most_idle=most_idle, most_jobs=most_jobs, topologies=topologies))
    if len(problem.topology.hops) == 1:
        return replace(problem, fragmentation_weight=draw(weights))
    jobs = []
    for job in problem.jobs:
        rules = draw(st.none() | placements(problem.topology, job.nodes))
        jobs.append(Job(job.id, job.nodes, rules))
    return replace(problem, jobs=tuple(jobs), fragmentation_weight=draw(weights))


def hop_cost_of_pattern(problem: TopologyProblem, pattern: Pattern) -> float:
    """Hop cost of a job, by its nodes of each leaf."""
    encoding = encode(problem)
    n = sum(pattern)
    if n == 0:
        return 0.0
    _, groups = leaf_groups(encoding)
    hops = encoding.top * n * n - encoding.bottom * n
    for weight, level in zip(encoding.weights, groups, strict=True):
        hops -= weight * (np.bincount(level, pattern) ** 2).sum()
    return float(encoding.scale * hops / n)


def keeps(problem: TopologyProblem, job: Job, pattern: Pattern) -> bool:
    """Whether a pattern keeps to the rules of a job, read from their definitions."""
    rules = job.placement
    if rules is None:
        return True
    above = [groups_above(problem, leaf) for leaf in range(len(pattern))]
    used = [leaf for leaf, nodes in enumerate(pattern) if nodes > 0]
    for leaf in used:
        if rules.only_in and not any(above[leaf][named.level - 1] in named.groups for named in rules.only_in):
            return False
        if any(above[leaf][named.level - 1] in named.groups for named in rules.not_in):
            return False
    if rules.within is not None and len({above[leaf][rules.within - 1] for leaf in used}) > 1:
        return False
    return comes_in(above, pattern, rules.segments)


def comes_in(above: list[list[int]], pattern: Pattern, segments: tuple[Segments, ...]) -> bool:
    """Whether nodes can be divided into the first segments, and each of these into the others; tries all ways."""
    if not segments or not any(pattern):
        return True
    first, *rest = segments
    leaf = next(leaf for leaf, nodes in enumerate(pattern) if nodes)
    groups = [of_leaf[first.level - 1] for of_leaf in above]
    # Some part has a node of this leaf.
    inside = [nodes if group == groups[leaf] else 0 for nodes, group in zip(pattern, groups, strict=True)]
    for part in patterns(np.array(inside), first.nodes):
        left = tuple(nodes - taken for nodes, taken in zip(pattern, part, strict=True))
        if part[leaf] and comes_in(above, part, tuple(rest)) and comes_in(above, left, segments):
            return True
    return False


def pays(problem: TopologyProblem, job: Job, pattern: Pattern) -> float:
    """Penalty of a pattern."""
    if job.placement is None or job.placement.prefer is None:
        return 0.0
    level = job.placement.prefer.level
    met = {groups_above(problem, leaf)[level - 1] for leaf, nodes in enumerate(pattern) if nodes > 0}
    return job.placement.prefer.penalty if len(met) > 1 else 0.0


def groups_above(problem: TopologyProblem, leaf: int) -> list[int]:
    """Return the groups, by their numbers in the cluster, in which a leaf with idle nodes lies."""
    levels = problem.topology.groups_of(problem.idle_nodes)
    number = np.unique(levels[0])[leaf]
    position = int(np.flatnonzero(levels[0] == number)[0])
    return [int(level[position]) for level in levels]


def ruled_optimum(problem: TopologyProblem) -> float | None:
    """Least cost of all allocations that keep to the rules, None if there is none."""
    idle, _ = leaf_groups(encode(problem))
    every = [
        [
            (pattern, hop_cost_of_pattern(problem, pattern) + pays(problem, job, pattern))
            for pattern in patterns(idle, job.nodes)
            if keeps(problem, job, pattern)
        ]
        for job in problem.jobs
    ]
    known: dict[tuple[int, Pattern], float] = {}

    def least(job: int, left: Pattern) -> float:
        if job == len(every):
            return problem.fragmentation_weight * hop_cost_of_pattern(problem, left)
        if (job, left) not in known:
            known[job, left] = min(
                (
                    cost + least(job + 1, tuple(nodes - taken for nodes, taken in zip(left, pattern, strict=True)))
                    for pattern, cost in every[job]
                    if all(taken <= nodes for taken, nodes in zip(pattern, left, strict=True))
                ),
                default=np.inf,
            )
        return known[job, left]

    best = least(0, tuple(idle.tolist()))
    return None if best == np.inf else best


def demand_of(problem: TopologyProblem) -> Demand:
    """Return the demand of a window."""
    encoding = encode(problem)
    return Demand(*job_classes(problem, encoding, group_tree(encoding), leftover_is_job=True))
