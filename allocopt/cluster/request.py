"""Requests of jobs: tasks with resources each, on nodes of a partition, under a constraint."""

import hashlib
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import CORES, GPUS, MEMORY, THOUSANDTHS, Cluster, Partition
from allocopt.cluster.hostlist import HostlistError, expand_hostlist
from allocopt.cluster.unserved import (
    OVERSIZED,
    OverLimitError,
    UnservedError,
    brief,
    closed_partition,
    no_feature,
    no_gpus,
    over_every_node,
    unknown_partition,
    unmodelled,
)
from allocopt.errors import InvalidProblemError
from allocopt.files.faults import shown

_TOKEN = re.compile(r"\s*([&,|()\[\]]|!?[^\s&,|()\[\]!*]+(?:\*\d+)?)")
# Limits of a constraint: alternatives (each a set of features), words and signs, nested brackets.
_MOST_ALTERNATIVES, _MOST_TOKENS, _MOST_NESTED = 1000, 2000, 50
COUNTED_NODES = "a constraint that counts nodes"
"""Name of the demand of a constraint such as ``rack1*2``, which is not modelled."""
_MOST = 2**41  # largest amount of a resource; every node has less than 2^40


@dataclass(frozen=True, slots=True)
class Constraint:
    """Features that the nodes of a job must have, as in ``sbatch --constraint``.

    As in Slurm, ``|`` binds as tightly as ``&``, both apply from left to right, and parentheses group. A list in
    brackets, ``[rack1|rack2]``, means that all nodes of the job have the same feature of the list (sbatch(1), matching
    OR). ``groups`` are alternatives, and all nodes must meet the same one. A group is a set of feature sets: a node
    meets it if it has all features of at least one set.
    """

    text: str
    groups: tuple[frozenset[frozenset[str]], ...]

    @classmethod
    def parse(cls, text: str) -> "Constraint":
        """Parse an expression. Raises `UnservedError` if it is invalid or counts nodes (``a*2``)."""
        stripped = text.strip().strip("\"'")
        tokens = _TOKEN.findall(stripped)
        reason = f"constraint {brief(text)} is not understood"
        try:
            if odd := _TOKEN.sub("", stripped).strip():
                raise ValueError(f"holds {shown(odd)}")
            if counted := next((token for token in tokens if "*" in token), None):
                reason = unmodelled([COUNTED_NODES])
                raise ValueError(f"counts nodes in {shown(counted)}, which is not modelled")
            if len(tokens) > _MOST_TOKENS:
                raise ValueError(f"has {len(tokens)} words and signs, must have at most {_MOST_TOKENS}")
            groups, rest = _parsed(tokens, 0)
            if rest:
                raise ValueError(f"has {shown(rest[0])} after its end")
        except ValueError as error:
            raise UnservedError("constraint", f"{shown(text)} {error}", reason) from None
        return cls(text, tuple(groups))

    @property
    def features(self) -> frozenset[str]:
        """All features in the expression."""
        return frozenset(feature for group in self.groups for needed in group for feature in needed)

    def holds(self, features: Collection[str]) -> tuple[bool, ...]:
        """Return for each group whether a node with the given features meets it."""
        return tuple(any(needed <= set(features) for needed in group) for group in self.groups)


def _parsed(tokens: list[str], depth: int) -> tuple[list[frozenset[frozenset[str]]], list[str]]:
    groups, tokens = _operand(tokens, depth)
    while tokens and tokens[0] in "&,|":
        sign, *tokens = tokens
        other, tokens = _operand(tokens, depth)
        if sign != "|":
            groups = [frozenset(one | two for one in mine for two in theirs) for mine in groups for theirs in other]
        elif len(groups) == len(other) == 1:
            groups = [groups[0] | other[0]]
        else:
            raise ValueError("combines a list in brackets with |; only & is allowed beside such a list")
        if sum(map(len, groups)) > _MOST_ALTERNATIVES:
            raise ValueError(f"has more than {_MOST_ALTERNATIVES} alternatives")
    return groups, tokens


def _operand(tokens: list[str], depth: int) -> tuple[list[frozenset[frozenset[str]]], list[str]]:
    if not tokens:
        raise ValueError("ends where a feature is expected")
    first, *tokens = tokens
    if first in "([":
        if depth == _MOST_NESTED:
            raise ValueError(f"has more than {_MOST_NESTED} nested brackets")
        groups, tokens = _parsed(tokens, depth + 1)
        if tokens[:1] != [{"(": ")", "[": "]"}[first]]:
            raise ValueError(f"has a {first} that is not closed")
        if first == "[":
            # Each entry of the list is a group of its own: all nodes must meet the same one.
            groups = [frozenset({one}) for group in groups for one in sorted(group, key=sorted)]
        return groups, tokens[1:]
    if first in "&,|)]" or first.startswith("!"):
        raise ValueError(f"has {shown(first)} where a feature is expected")
    return [frozenset({frozenset({first})})], tokens


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a job, in the terms of ``sbatch``. Raises `InvalidProblemError` if a number is out of range.

    Without ``tasks`` a job has one task per node, and without ``most_nodes`` any number of nodes from ``least_nodes``
    on. A task has ``cores_per_task`` cores, a node at most ``tasks_per_node`` tasks. Memory in MiB is given per node (0
    means all memory of the node, ``--mem=0``) or per core of a task; otherwise the partition's default applies. GPUs
    are given by type, empty for any type, and may be fractions if they are shared. Without a partition the default one
    applies. Several partitions, separated by commas, are alternatives; a name that ends in ``*`` may be cut short. The
    constraint is an expression of features, see `Constraint`. ``excluded`` and ``required`` are hostlists: the job gets
    no excluded nodes and, unless ``required`` is empty, only required ones. An exclusive job shares its nodes with no
    other job. ``unmodelled`` names further demands, such as ``gres/shard``; no cluster serves a job that has any.
    """

    tasks: int | None = None
    least_nodes: int = 1
    most_nodes: int | None = None
    tasks_per_node: int | None = None
    cores_per_task: float = 1.0
    memory_per_node_mib: int | None = None
    memory_per_core_mib: int | None = None
    gpus_per_node: tuple[tuple[str, float], ...] = ()
    gpus_per_task: tuple[tuple[str, float], ...] = ()
    partition: str | None = None
    constraint: str | None = None
    excluded: str = ""
    required: str = ""
    is_exclusive: bool = False
    unmodelled: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("tasks", "least_nodes", "most_nodes", "tasks_per_node"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= 10**7:
                raise InvalidProblemError("request", f"{name} is {value}, must be from 1 to 10^7")
        if self.most_nodes is not None and self.most_nodes < self.least_nodes:
            fault = f"least_nodes is {self.least_nodes}, must be at most most_nodes, {self.most_nodes}"
            raise InvalidProblemError("request", fault)
        if not 0 <= self.cores_per_task <= 10**6:
            raise InvalidProblemError("request", f"cores_per_task is {self.cores_per_task}, must be from 0 to 10^6")
        for name in ("memory_per_node_mib", "memory_per_core_mib"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidProblemError("request", f"{name} is {value}, must not be negative")
        for name in ("gpus_per_node", "gpus_per_task"):
            for _, count in getattr(self, name):
                if not count >= 0:
                    raise InvalidProblemError("request", f"{name} is {count}, must not be negative")

    @classmethod
    def whole_nodes(cls, nodes: int) -> "Request":
        """Return the request for whole nodes, used exclusively."""
        return cls(None, nodes, nodes, cores_per_task=0, is_exclusive=True)

    def on(self, cluster: Cluster) -> "ClusterRequest":
        """Return the request in terms of a cluster. Raises `UnservedError` if the cluster can never serve it.

        If there are several partitions, each gives a set of nodes; see `_in_one_of`.
        """
        if self.unmodelled:
            raise UnservedError("request", unmodelled(self.unmodelled))
        if self.partition is not None and "," in self.partition:
            return self._in_one_of(self.partition.split(","), cluster)
        partition = _partition(self.partition, cluster)
        is_exclusive = self.is_exclusive or cluster.is_exclusive or (partition is not None and partition.is_exclusive)
        is_exclusive = is_exclusive or self._takes_all_memory(cluster, partition)
        masks = self._masks(cluster, partition)
        tasks = max(self.tasks or self.least_nodes, self.least_nodes)
        least, most = self.least_nodes, self.most_nodes or tasks
        if self.tasks_per_node is not None:
            least = max(least, -(-tasks // self.tasks_per_node))
            # As in Slurm, a node without room for ``tasks_per_node`` tasks gets none.
            most = least if self.most_nodes is None else max(most, least)
        most = min(most, tasks)
        if partition is not None:
            _check_limits(partition, max(least, partition.least_nodes), most)
            least = max(least, partition.least_nodes)
            most = min(most, partition.most_nodes or most)
        self._check_gpus(cluster, partition)
        per_task, per_node = (np.zeros(len(cluster.resources), dtype=np.int64) for _ in range(2))
        columns = {name: column for column, name in enumerate(cluster.resources)}
        cpus_per_core = _cpus_per_core(cluster, masks)
        cores = self._cores(cpus_per_core, tasks, least, most)
        per_task[columns[CORES]] = round(cores * THOUSANDTHS)
        per_node[columns[MEMORY]], per_task[columns[MEMORY]] = self._memory(partition, cores * cpus_per_core)
        for amounts, gpus in ((per_node, self.gpus_per_node), (per_task, self.gpus_per_task)):
            for kind, count in gpus:
                amounts[columns[GPUS]] += _amount(count * THOUSANDTHS)
                if kind:
                    amounts[columns[f"{GPUS}:{kind}"]] += _amount(count * THOUSANDTHS)
        most_tasks = min(self.tasks_per_node or tasks, tasks - least + 1)
        made = ClusterRequest(
            tasks, least, most, most_tasks, is_exclusive, per_task, per_node, masks,
            cluster.topology.most_groups(least), 0 if partition is None else cluster.partitions.index(partition),
        )  # fmt: skip
        if not made.fits(cluster):
            raise self._too_large(made, cluster, partition)
        return made

    def _in_one_of(self, partitions: Sequence[str], cluster: Cluster) -> "ClusterRequest":
        """Return the request in the first partition that can serve it.

        Its sets of nodes include those in other partitions in which it has the same needs.
        """
        made: list[ClusterRequest] = []
        errors: list[UnservedError] = []
        for name in partitions:
            try:
                made.append(replace(self, partition=name.strip()).on(cluster))
            except UnservedError as error:
                errors.append(error)
        if not made:
            raise errors[0]
        masks = [one.masks for one in made if one.needs_as_much_as(made[0])]
        return made[0]._replace(masks=np.concatenate(masks))

    def _takes_all_memory(self, cluster: Cluster, partition: Partition | None) -> bool:
        # If jobs share memory, no other job fits on the nodes of a job that takes all memory.
        has_gpus = bool(self.gpus_per_node or self.gpus_per_task)
        by_gpu = has_gpus and partition is not None and bool(partition.memory_per_gpu_mib)
        return self.memory_per_node_mib == 0 and not by_gpu and any(one.memory_mib is not None for one in cluster.nodes)

    def _cores(self, cpus_per_core: float, tasks: int, least: int, most: int) -> float:
        """Return the cores per task: a job gets whole cores on each node, and its tasks share their threads."""
        if cpus_per_core == 1:
            return self.cores_per_task
        on_node = self.tasks_per_node or (tasks // least if least == most and tasks % least == 0 else 0)
        if not on_node:
            return self.cores_per_task / cpus_per_core
        return math.ceil(on_node * self.cores_per_task / cpus_per_core) / on_node

    def _memory(self, partition: Partition | None, cpus: float) -> tuple[int, int]:
        """Return MiB of memory per node and per task of ``cpus`` CPUs: as requested, or the partition's default."""
        on_node, of_core = self.memory_per_node_mib, self.memory_per_core_mib
        if on_node is None and of_core is None and partition is not None:
            on_node, of_core = partition.memory_per_node_mib, partition.memory_per_core_mib
            of_gpu = partition.memory_per_gpu_mib or 0
            gpus_on_node = sum(count for _, count in self.gpus_per_node)
            gpus_of_task = sum(count for _, count in self.gpus_per_task)
            # The default per GPU overrides those per core and node (slurm.conf(5), DefMemPerGPU).
            if of_gpu and (gpus_on_node or gpus_of_task):
                return _amount(of_gpu * gpus_on_node), _amount(of_gpu * gpus_of_task)
        return _amount(on_node or 0), 0 if on_node is not None else _amount((of_core or 0) * cpus)

    def _check_gpus(self, cluster: Cluster, partition: Partition | None) -> None:
        if not (self.gpus_per_node or self.gpus_per_task):
            return
        # Look first for types that no node has, then for types that no node of the partition has.
        places = [("", cluster.capacity)]
        if partition is not None:
            places.append((f"of partition {brief(partition.name)}", cluster.capacity[cluster.members[partition.name]]))
        for where, capacity in places:
            there = [cluster.resources[column] for column in np.flatnonzero(capacity.sum(axis=0)).tolist()]
            for kind, count in (*self.gpus_per_node, *self.gpus_per_task):
                if count and (f"{GPUS}:{kind}" if kind else GPUS) not in there:
                    raise no_gpus(kind, where)

    def _too_large(self, made: "ClusterRequest", cluster: Cluster, partition: Partition | None) -> UnservedError:
        need = made.per_node + made.per_task * -(-made.tasks // made.most_nodes)
        # Report a missing type of GPU rather than GPUs in general: types have the last columns.
        for column in reversed(range(len(cluster.resources))):
            if need[column] > cluster.capacity[:, column].max(initial=0):
                return over_every_node(cluster.resources[column])
        # The sets of nodes get smaller: report the first one that has no room for the job.
        everywhere, anyhow = np.ones((1, cluster.size), dtype=np.bool_), (0,) * len(made.most_groups)
        listed = replace(self, excluded="", required="")
        sets = [(everywhere, OVERSIZED)]
        if partition is not None:
            of_partition = replace(listed, constraint=None)._masks(cluster, partition)
            sets.append((of_partition, f"larger than partition {brief(partition.name)}"))
        if self.constraint is not None:
            met = f"larger than the nodes that meet constraint {brief(self.constraint)}"
            sets.append((listed._masks(cluster, partition), met))
        listing = "requires" if self.required else "does not exclude"
        sets.append((made.masks, f"larger than the nodes that it {listing}"))
        too_few = (reason for masks, reason in sets if not made._replace(masks=masks, most_groups=anyhow).fits(cluster))
        groups = "blocks of the topology" if cluster.topology.is_joined else "trees of the topology"
        reason = next(too_few, f"larger than the {groups}")
        return UnservedError("request", f"asks for more than the nodes have: it is {reason}", reason)

    def _masks(self, cluster: Cluster, partition: Partition | None) -> BoolArray:
        masks = np.ones((1, cluster.size), dtype=np.bool_)
        if partition is not None:
            masks &= cluster.members[partition.name]
        if self.constraint is not None:
            masks = masks & self._meeting(cluster, partition)
        for name, verb in (("excluded", "excludes"), ("required", "requires")):
            if listed := getattr(self, name):
                held = np.isin(np.arange(cluster.size), _numbers(cluster, listed, verb))
                masks = masks & (held if name == "required" else ~held)
        return masks

    def _meeting(self, cluster: Cluster, partition: Partition | None) -> BoolArray:
        """Return which nodes meet each group of the constraint, shape ``(groups, nodes)``."""
        constraint = Constraint.parse(self.constraint or "")
        met = np.array([constraint.holds(node.features) for node in cluster.nodes], dtype=np.bool_).T
        places = [("", np.ones(cluster.size, dtype=np.bool_))]
        if partition is not None:
            places.append((f"of partition {brief(partition.name)}", cluster.members[partition.name]))
        for where, members in places:
            if not met[:, members].any():
                nodes = (node for node, is_one in zip(cluster.nodes, members.tolist(), strict=True) if is_one)
                there = {feature for node in nodes for feature in node.features}
                raise no_feature(constraint.text, constraint.features, there, where)
        return met


def _cpus_per_core(cluster: Cluster, masks: BoolArray) -> float:
    """Return the smallest number of CPUs per core among the nodes that a job may get."""
    chosen = cluster.cpus_per_core[masks.any(axis=0)]
    return float(chosen.min()) if len(chosen) else 1.0


def _partition(name: str | None, cluster: Cluster) -> Partition | None:
    """Return a partition by name. Raises `UnservedError` if it does not exist or starts no jobs."""
    names = [*(one.name for one in cluster.partitions), *cluster.closed]
    if name is not None and name.endswith("*"):
        begun = [one for one in names if one.startswith(name[:-1])]
        name = name[:-1]
        name = begun[0] if name not in names and len(begun) == 1 else name
    if name in cluster.closed:
        raise closed_partition(str(name), cluster.closed[str(name)])
    if cluster.partitions and name is not None and name not in names:
        raise unknown_partition(name, (one.name for one in cluster.partitions))
    return cluster.partition(name)


def _numbers(cluster: Cluster, listed: str, verb: str) -> list[int]:
    """Return the numbers of nodes in a hostlist that a job requires or excludes."""
    try:
        return cluster.topology.numbers(expand_hostlist(listed))
    except HostlistError as error:
        raise UnservedError("request", str(error), f"list of the nodes that it {verb} is not understood") from None
    except InvalidProblemError as error:
        reason = f"{verb} a node that is not in the cluster"
        raise UnservedError("request", f"{error.fault}, which it {verb}", reason) from None


def _check_limits(partition: Partition, least: int, most: int) -> None:
    """Raise `OverLimitError` if a job of ``least`` to ``most`` nodes breaks a limit of its partition."""
    if partition.most_nodes is not None and least > partition.most_nodes:
        fault = f"asks for {least} nodes, partition {partition.name} allows at most {partition.most_nodes}"
        raise OverLimitError("request", fault, f"over the node limit of partition {brief(partition.name)}")
    if most < partition.least_nodes:
        fault = f"asks for {most} nodes, partition {partition.name} requires at least {partition.least_nodes}"
        raise OverLimitError("request", fault, f"below the node minimum of partition {brief(partition.name)}")


def _amount(value: float) -> int:
    """Return an amount as a whole number, at most 2^41: this fits into 64 bits and is more than any node has."""
    return round(min(value, _MOST))


class ClusterRequest(NamedTuple):
    """The request of a job in terms of a cluster; amounts are counted as in `Cluster.capacity`."""

    tasks: int
    least_nodes: int
    most_nodes: int
    most_tasks: int  # largest number of tasks on a node
    is_exclusive: bool
    per_task: IntArray
    per_node: IntArray
    masks: BoolArray  # sets of nodes, shape ``(k, nodes)``; all nodes of the job are from one set
    most_groups: tuple[int, ...]  # see `NamedTree.most_groups`
    partition: int  # index of its partition
    # Segment sizes by level below the top, leaves first: in each group of a level, the number of the job's nodes is a
    # multiple of the level's size. 0 means any number. Each size divides those of the levels above. Empty without
    # segments.
    segments: tuple[int, ...] = ()

    @property
    def level(self) -> int:
        """Lowest level at which the job stays within one group, -1 for none."""
        return self.most_groups.index(1) if 1 in self.most_groups else -1

    @property
    def part(self) -> int:
        """Largest segment size, which divides the job's number of nodes; 1 without segments."""
        return max(self.segments, default=0) or 1

    def needs_as_much_as(self, other: "ClusterRequest") -> bool:
        """Return whether another request differs only in its sets of nodes and its partition."""
        same_amounts = np.array_equal(self.per_task, other.per_task) and np.array_equal(self.per_node, other.per_node)
        mine = self._replace(
            masks=other.masks, partition=other.partition, per_task=other.per_task, per_node=other.per_node
        )
        return same_amounts and mine == other

    def room(self, free: IntArray) -> IntArray:
        """Return how many of the tasks fit on each node, given free amounts, shape ``(nodes, resources)``."""
        left = free - self.per_node
        needed = np.where(self.per_task > 0, self.per_task, 1)
        tasks = np.where(self.per_task > 0, left // needed, self.most_tasks).min(axis=1)
        found: IntArray = np.clip(np.where((left < 0).any(axis=1), 0, tasks), 0, self.most_tasks)
        return found

    def use(self, tasks: IntArray) -> IntArray:
        """Return the amounts that the job takes of each node, given its tasks on each, shape ``(n, resources)``."""
        taken: IntArray = self.per_node + tasks[:, None] * self.per_task
        return taken

    def spread(self, free: IntArray, nodes: IntArray) -> IntArray:
        """Return the number of the job's tasks on each of ``nodes``, shape ``(k,)``; nodes are filled in this order.

        At least one task is left for each node that follows. The sum is below the job's tasks if there is too little
        room. ``free`` has the free amounts of all nodes of the cluster.
        """
        room, left = self.room(free), self.tasks
        tasks = np.zeros(len(nodes), dtype=np.int64)
        for at, node in enumerate(nodes.tolist()):
            tasks[at] = max(min(int(room[node]), left - (len(nodes) - 1 - at)), 0)
            left -= int(tasks[at])
        return tasks

    def takes_any(self, nodes: BoolArray, free: IntArray) -> bool:
        """Return whether the job is exclusive and can be served by every choice of ``least_nodes`` of some nodes.

        ``nodes`` is the mask of these nodes, shape ``(nodes,)``; ``free`` has the free amounts of all nodes.
        """
        room = self.room(free)[nodes] * self.masks[:, nodes]
        is_anywhere = not any(self.most_groups) and not any(self.segments)
        return self.is_exclusive and is_anywhere and bool((room * self.least_nodes >= self.tasks).all())

    def fits(self, cluster: Cluster) -> bool:
        """Return whether there is room for the request on the empty cluster."""
        shapes, shape_of = cluster.shapes
        room, groups = self.room(shapes)[shape_of], cluster.topology.tree.groups
        level = self.level
        members = [slice(None)] if level < 0 else [groups[level] == group for group in np.unique(groups[level])]
        for mask in self.masks:
            for held in members:
                inside = np.zeros_like(room)
                inside[held] = np.where(mask, room, 0)[held]
                # As in a simulation: if the job may not span all groups, it gets those with most room.
                for below in range(len(groups) if level < 0 else level)[::-1]:
                    if self.most_groups[below] > 0:
                        sums = np.bincount(groups[below], inside)
                        spanned = np.argsort(-sums, kind="stable")[: self.most_groups[below]]
                        inside[~np.isin(groups[below], spanned)] = 0
                tasks = np.sort(inside)[::-1][: self.most_nodes]
                if tasks.sum() >= self.tasks and np.count_nonzero(tasks) >= self.least_nodes:
                    return True
        return False


def mask_table(requests: Sequence[ClusterRequest]) -> tuple[BoolArray, IntArray]:
    """Return the sets of nodes of some requests as rows of one table, and the first row of each request.

    Requests with equal sets share rows, because thousands of rows for a large cluster would fill the memory.
    """
    found: dict[bytes, int] = {}
    first_of: dict[int, int] = {}
    rows: list[BoolArray] = []
    first = np.empty(len(requests), dtype=np.int64)
    height = 0
    for number, one in enumerate(requests):
        # Most requests share the same array object.
        row = first_of.get(id(one.masks))
        if row is None:
            row = found.setdefault(hashlib.sha256(np.ascontiguousarray(one.masks).data).digest(), height)
            first_of[id(one.masks)] = row
            if row == height:
                rows.append(one.masks)
                height += len(one.masks)
        first[number] = row
    # Masks of constraints may be stored by column, which kernels do not accept.
    return np.ascontiguousarray(np.concatenate(rows)), first
