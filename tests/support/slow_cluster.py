"""Simple, slow reference for the simulation of jobs that share the nodes of a cluster.

Written from the documented rules: docs/clusters.md, docs/simulator.md for events and queue orders, and
docs/topologies.md for blocks. It has dictionaries, lists and searches from the beginning each time, and nothing of the
program's own way of doing it. Headings below are those of docs/clusters.md.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import ceil, inf
from typing import Any, NamedTuple, TypeVar

import numpy as np
from support.slow_scores import SlowScores, network_named

from allocopt.arrays import FloatArray
from allocopt.cluster import Request
from allocopt.cluster.cluster import Cluster, Partition
from allocopt.cluster.downtime import Downtime
from allocopt.cluster.hostlist import expand_hostlist
from allocopt.cluster.named import NamedTree
from allocopt.traces.workload import Workload

PERIOD = 30.0  # seconds between possible walks of conservative backfilling
DEPTH = 500  # reservations after which a walk ends
MINUTE = 60.0
THOUSANDTHS = 1000

Amounts = tuple[tuple[str, int], ...]
"""Amounts by resource: ``cores`` and ``gpus`` in thousandths, ``gpus:TYPE`` too, ``memory`` in MiB."""

T = TypeVar("T")

Tasks = dict[int, int]
"""Tasks of a job by the number of the node."""


# What a job asks for


@dataclass(frozen=True)
class Ask:
    """What a job asks for, in numbers: tasks, from least to most nodes, amounts, sets of nodes and limits of groups."""

    partition: int
    tasks: int
    least: int
    most: int
    most_on_node: int
    of_node: Amounts
    of_task: Amounts
    is_exclusive: bool
    sets: tuple[tuple[int, ...], ...]
    limits: tuple[int, ...]  # groups that it may span by level, the leaves' first; 0 for any number


@dataclass(frozen=True)
class SlowJob:
    """A job: its place in the order of submission, its times, and what it asks for."""

    number: int
    submit: float
    run: float
    estimate: float
    ask: Ask
    preceding: int = -1  # number of the job that has to end first
    think: float = 0.0  # seconds from its end until this one joins the queue
    user: int = -1  # -1 where unknown: all such jobs count as one user's
    request: Request | None = None  # as it is written


def partitions_of(cluster: Cluster) -> tuple[Partition, ...]:
    """Return the partitions, of which the first is the default; without any there is one of all nodes."""
    return cluster.partitions or (Partition("", cluster.topology.nodes),)


def is_only_topology(cluster: Cluster) -> bool:
    """Whether nothing is known of the nodes but how they are connected."""
    plain = all(
        node.cores == 1 and node.memory_mib is None and not node.gpus and not node.features and node.weight == 1
        for node in cluster.nodes
    )
    return cluster.is_exclusive and not cluster.partitions and plain


def request_of(cluster: Cluster, request: Request | None, processors: int) -> Request:
    """Return the request, or for a job without one a core for each processor, or a whole node for each."""
    if is_only_topology(cluster) or (request is None and cluster.is_exclusive):
        return Request(tasks=processors, least_nodes=processors, most_nodes=processors)
    return request or Request(tasks=processors)


def nodes_and_tasks(request: Request) -> tuple[int, int, int, int]:
    """Return T, l, u and p: the tasks, the least and the most nodes, and the most tasks on a node."""
    tasks = max(request.tasks or request.least_nodes, request.least_nodes)
    per_node = request.tasks_per_node
    if per_node is None:
        least = request.least_nodes
        most = tasks if request.most_nodes is None else request.most_nodes
    else:
        least = max(request.least_nodes, ceil(tasks / per_node))
        most = least if request.most_nodes is None else max(request.most_nodes, least)
    return tasks, least, min(most, tasks), min(per_node or tasks, tasks - least + 1)


def gpu_amounts(gpus: Iterable[tuple[str, float]]) -> dict[str, int]:
    """Count GPUs in thousandths: one of a type is one of that type, and one of any."""
    found: Counter[str] = Counter()
    for kind, number in gpus:
        thousandths = round(number * THOUSANDTHS)
        found["gpus"] += thousandths
        if kind:
            found[f"gpus:{kind}"] += thousandths
    return dict(found)


def amounts(request: Request, partition: Partition) -> tuple[dict[str, int], dict[str, int]]:
    """Return what each node of the job needs, and what each task needs besides."""
    of_node = gpu_amounts(request.gpus_per_node)
    of_task = {"cores": round(request.cores_per_task * THOUSANDTHS), **gpu_amounts(request.gpus_per_task)}
    per_node, per_core = request.memory_per_node_mib, request.memory_per_core_mib
    has_gpus = any(amount for name, amount in (*of_node.items(), *of_task.items()) if name == "gpus")
    if per_node is None and per_core is None and partition.memory_per_gpu_mib and has_gpus:
        for held, gpus in ((of_node, request.gpus_per_node), (of_task, request.gpus_per_task)):
            held["memory"] = round(partition.memory_per_gpu_mib * sum(number for _, number in gpus))
        return of_node, of_task
    if per_node is None and per_core is None:
        per_node, per_core = partition.memory_per_node_mib, partition.memory_per_core_mib
    if per_node is not None:
        of_node["memory"] = per_node
    elif per_core is not None:
        of_task["memory"] = round(per_core * request.cores_per_task)
    return of_node, of_task


def _tokens(constraint: str) -> list[str]:
    return re.findall(r"[\[\]()|&]|[^\[\]()|&\s]+", constraint)


def alternatives(constraint: str | None) -> list[str]:
    """Write the constraint once for each alternative: with one feature in place of each list in brackets.

    A list of several in brackets beside ``|`` is refused: then there is no alternative.
    """
    if constraint is None:
        return [""]
    parts = re.split(r"\[([^]]*)\]", constraint)
    lists = [sorted({one.strip() for one in inside.split("|")}, key=_features) for inside in parts[1::2]]
    for listed, before, after in zip(lists, parts[::2], parts[2::2], strict=False):
        if len(listed) > 1 and (before.rstrip().endswith("|") or after.lstrip().startswith("|")):
            return []
    return ["".join(_joined(parts[::2], [f"({one})" for one in chosen])) for chosen in product(*lists)]


def _features(of_list: str) -> list[str]:
    # An item of a list in brackets stands in the order of its features.
    return sorted(one.strip() for one in of_list.split("&"))


def _joined(outside: Sequence[str], chosen: Sequence[str]) -> Iterator[str]:
    for text, feature in zip(outside, [*chosen, ""], strict=True):
        yield text + feature


def holds(constraint: str, features: frozenset[str]) -> bool:
    """Whether a node with these features meets a constraint without brackets: ``|`` and ``&`` from left to right."""
    if not constraint:
        return True
    value, rest = _expression(_tokens(constraint), features)
    assert not rest
    return value


def _expression(tokens: list[str], features: frozenset[str]) -> tuple[bool, list[str]]:
    value, tokens = _operand(tokens, features)
    while tokens and tokens[0] in "|&":
        other, rest = _operand(tokens[1:], features)
        value = value or other if tokens[0] == "|" else value and other
        tokens = rest
    return value, tokens


def _operand(tokens: list[str], features: frozenset[str]) -> tuple[bool, list[str]]:
    if tokens[0] != "(":
        return tokens[0] in features, tokens[1:]
    value, rest = _expression(tokens[1:], features)
    assert rest[0] == ")"
    return value, rest[1:]


def sets_of(cluster: Cluster, request: Request, partition: Partition) -> tuple[tuple[int, ...], ...]:
    """Return the sets of nodes within one of which the job lies, in order."""
    excluded, required = set(expand_hostlist(request.excluded)), set(expand_hostlist(request.required))
    usable = [
        number
        for number, node in enumerate(cluster.nodes)
        if node.name in partition.nodes and node.name not in excluded and (not required or node.name in required)
    ]
    return tuple(
        tuple(number for number in usable if holds(constraint, cluster.nodes[number].features))
        for constraint in alternatives(request.constraint)
    )


def group_limits(topology: NamedTree, least: int) -> tuple[int, ...]:
    """Return how many groups a job may span by level: trees of a forest, blocks and what joins them."""
    limits = [0] * len(topology.tree.groups)
    if not topology.is_joined:
        limits[-1] = 1
    sizes = topology.block_sizes
    if sizes:
        # The smallest group that holds the job when it is planned with powers of two of blocks.
        planned = sizes[0]
        while planned < least:
            planned *= 2
        within = bisect_left(sizes, planned)
        if within < len(limits):
            limits[within] = 1
        # It spans no more of the next smaller groups than it fills.
        if 0 < within <= len(limits):
            fills = ceil(least / sizes[within - 1])
            if fills < len(topology.tree.names[within - 1]):
                limits[within - 1] = fills
    return tuple(limits)


def ask_of(cluster: Cluster, request: Request | None, processors: int) -> Ask:
    """Return what a job asks of the cluster."""
    whole = request_of(cluster, request, processors)
    partitions = partitions_of(cluster)
    number = next((at for at, one in enumerate(partitions) if one.name == whole.partition), 0)
    partition = partitions[number]
    tasks, least, most, most_on_node = nodes_and_tasks(whole)
    if least < partition.least_nodes <= most:
        least = partition.least_nodes
        most_on_node = min(whole.tasks_per_node or tasks, tasks - least + 1)
    if partition.most_nodes is not None and least <= partition.most_nodes:
        most = min(most, partition.most_nodes)
    of_node, of_task = amounts(whole, partition)
    has_gpus = bool(whole.gpus_per_node or whole.gpus_per_task)
    # A job that asks for 0 MiB has all the memory of its nodes, and so nobody beside it.
    has_all_memory = (
        whole.memory_per_node_mib == 0
        and not (has_gpus and partition.memory_per_gpu_mib)
        and any(node.memory_mib is not None for node in cluster.nodes)
    )
    return Ask(
        number,
        tasks,
        least,
        most,
        most_on_node,
        tuple(sorted(of_node.items())),
        tuple(sorted(of_task.items())),
        whole.is_exclusive or partition.is_exclusive or cluster.is_exclusive or has_all_memory,
        sets_of(cluster, whole, partition),
        group_limits(cluster.topology, least),
    )


def dropped_because(cluster: Cluster, job: SlowJob) -> str:
    """Return why a job is dropped, nothing if it is admitted."""
    partition = partitions_of(cluster)[job.ask.partition]
    if partition.most_nodes is not None and max(job.ask.least, partition.least_nodes) > partition.most_nodes:
        return "nodes"
    if job.ask.most < partition.least_nodes:
        return "nodes"
    if partition.most_seconds is not None and job.estimate > partition.most_seconds and job.estimate != job.run:
        return "seconds"
    machine = Machine(cluster)
    if Allocation(machine, "first", Counter()).find(job.ask, machine.rooms(job.ask, machine.left([]))) is None:
        return "room"
    return ""


# Room, and how nodes are chosen


class Holding(NamedTuple):
    """What holds something of nodes: an ask, and how many tasks on each."""

    ask: Ask
    tasks: Mapping[int, int]


class Left(NamedTuple):
    """What is left of the nodes: amounts by resource, how many jobs are there, and whether an exclusive one is."""

    amounts: list[dict[str, float]]
    jobs: list[int]
    exclusive: list[bool]


class Machine:
    """The nodes of a cluster, what each has, and the groups of each level."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.has: list[dict[str, float]] = []
        for node in cluster.nodes:
            memory = inf if node.memory_mib is None else node.memory_mib
            gpus: dict[str, int] = gpu_amounts(node.gpus.items())
            self.has.append({"cores": round(node.cores * THOUSANDTHS), "memory": memory, **gpus})
        self.group = [[int(one) for one in row] for row in cluster.topology.tree.groups]

    def left(self, holdings: Iterable[Holding]) -> Left:
        """Return what some jobs leave of the nodes."""
        left = Left([dict(has) for has in self.has], [0] * len(self.has), [False] * len(self.has))
        for ask, tasks in holdings:
            for node, number in tasks.items():
                free = left.amounts[node]
                for resource, amount in ask.of_node:
                    free[resource] = free.get(resource, 0) - amount
                for resource, amount in ask.of_task:
                    free[resource] = free.get(resource, 0) - amount * number
                assert min(free.values()) >= 0, "more is held than there is"
                left.jobs[node] += 1
                left.exclusive[node] |= ask.is_exclusive
                assert left.jobs[node] == 1 or not left.exclusive[node], "an exclusive job is not alone"
        return left

    def rooms(self, ask: Ask, left: Left) -> Tasks:
        """Return for how many tasks there is room on each node of the sets, without the nodes that have none."""
        nodes = sorted({node for one in ask.sets for node in one})
        return {node: room for node in nodes if (room := room_on(ask, node, left))}


def room_on(ask: Ask, node: int, left: Left) -> int:
    """Return the room on a node: the most tasks for which the amounts are free."""
    if left.exclusive[node] or (ask.is_exclusive and left.jobs[node]):
        return 0
    free = dict(left.amounts[node])
    for resource, amount in ask.of_node:
        free[resource] = free.get(resource, 0) - amount
        if free[resource] < 0:
            return 0
    room = ask.most_on_node
    for resource, amount in ask.of_task:
        if amount and amount * room > free.get(resource, 0):
            room = int(free.get(resource, 0) // amount)
    return room


class Allocation:
    """The rule by which an allocator chooses nodes."""

    def __init__(self, machine: Machine, allocator: str, counts: Counter[str]) -> None:
        self.machine = machine
        self.allocator = allocator
        self.counts = counts
        self.cores: list[float] = [has["cores"] for has in machine.has]  # free cores, by which nodes are ordered

    def find(self, ask: Ask, rooms: Mapping[int, int], left: Left | None = None) -> Tasks | None:
        """Return the tasks on the nodes that the rule chooses, None if it finds none, where nodes have some room."""
        if left is not None:
            self.cores = [free["cores"] for free in left.amounts]
        for number, one in enumerate(ask.sets):
            found = self._in_set(ask, {node: rooms[node] for node in one if node in rooms})
            if found is not None:
                self.counts["nodes of a later set"] += number > 0
                return found
        return None

    def _in_set(self, ask: Ask, rooms: Tasks) -> Tasks | None:
        # 1. Where to look.
        within = next((level for level, limit in enumerate(ask.limits) if limit == 1), None)
        below = range(len(ask.limits) if within is None else within)
        if self.allocator == "lowest-switch" and not any(ask.limits[level] >= 2 for level in below):
            for level in below:
                found = self._group_by_group(ask, rooms, level)
                if found is not None:
                    self.counts["nodes below a lower switch"] += 1
                    return found
        if within is None:
            return self._limited(ask, rooms, below)
        return self._group_by_group(ask, rooms, within, below)

    def _group_by_group(self, ask: Ask, rooms: Tasks, level: int, limited: Sequence[int] = ()) -> Tasks | None:
        # 2. The groups of a level that have enough room, the one with the least first.
        groups = self._groups(rooms, level)
        enough = [one for one in groups.values() if sum(one.values()) >= ask.tasks and len(one) >= ask.least]
        enough.sort(key=lambda one: sum(one.values()))  # equal ones stay in the order of their numbers
        for tried, one in enumerate(enough):
            found = self._limited(ask, one, limited)
            if found is not None:
                self.counts["nodes of a group that was not tried first"] += tried > 0
                return found
        return None

    def _groups(self, rooms: Tasks, level: int) -> dict[int, Tasks]:
        groups: dict[int, Tasks] = {}
        for node, room in rooms.items():
            groups.setdefault(self.machine.group[level][node], {})[node] = room
        return dict(sorted(groups.items()))

    def _limited(self, ask: Ask, rooms: Tasks, below: Sequence[int]) -> Tasks | None:
        # 3. Limits below, from the highest level down.
        limited = rooms
        for level in reversed(below):
            most = ask.limits[level]
            if most >= 2:
                groups = list(self._groups(limited, level).values())
                groups.sort(key=lambda one: -sum(one.values()))
                self.counts[f"at most {min(most, 4)} groups"] += 1
                self.counts[f"at most {min(most, 4)} groups, nodes left out"] += len(groups) > most
                limited = {node: room for one in groups[:most] for node, room in one.items()}
        found = self._among(ask, limited)
        if found is None and limited != rooms and self._among(ask, rooms) is not None:
            self.counts["no nodes because of a limit of groups"] += 1
        return found

    def _among(self, ask: Ask, rooms: Tasks) -> Tasks | None:
        # 4. Among nodes: by the allocator's order, and if tasks are left, by room.
        if ask.most == 1:
            rooms = {node: room for node, room in rooms.items() if room >= ask.tasks}
        taken = taken_in_order(ask, rooms, sorted(rooms, key=self._key))
        if taken is None:
            taken = taken_in_order(ask, rooms, sorted(rooms, key=lambda node: (-rooms[node], node)))
            self.counts["nodes only in the order of their room"] += taken is not None
        return taken

    def _key(self, node: int) -> tuple[float, int]:
        if self.allocator == "first":
            return self.machine.cluster.nodes[node].weight, node
        return -self.cores[node] if self.allocator == "least-loaded" else self.cores[node], node


def taken_in_order(ask: Ask, rooms: Mapping[int, int], order: Sequence[int]) -> Tasks | None:
    """Take nodes in an order, and leave a task for each that is still needed; None if tasks are left in the end."""
    taken: Tasks = {}
    remaining = ask.tasks
    for node in order:
        if not remaining or len(taken) == ask.most:
            break
        needed_after = max(ask.least - len(taken) - 1, 0)
        taken[node] = min(rooms[node], remaining - needed_after)
        remaining -= taken[node]
    return None if remaining or len(taken) < ask.least else taken


# The queue


@dataclass
class Running:
    """A job that runs on some nodes."""

    job: SlowJob
    start: float
    end: float
    tasks: Tasks
    order: int  # of its start
    planned: float  # run time that it was planned to have
    expected: float  # its end, as far as is known

    def expected_end(self, now: float) -> float:
        """Return the end that is expected, or now if that has passed."""
        return max(self.expected, now)

    @property
    def holding(self) -> Holding:
        """What it holds."""
        return Holding(self.job.ask, self.tasks)


@dataclass
class Reservation:
    """What the head of a partition gets: a time, nodes, and tasks on them."""

    job: SlowJob
    time: float
    tasks: Tasks
    stale: str = ""  # why it has to be made anew


class Plan(NamedTuple):
    """What a walk found for a job: from begin on; its nodes are reserved from a to b."""

    begin: float
    a: float
    b: float
    tasks: Tasks


@dataclass(frozen=True)
class Order:
    """An order of jobs: by ``arrival``, ``fixed`` or ``ageing`` values, the ``share`` of the user, or ``score``."""

    kind: str
    values: Sequence[float]  # by the number of the job; only of fixed and ageing ones
    network: FloatArray | None = None  # of scores


@dataclass
class Pass:
    """What a pass has seen so far."""

    looked_at: set[int] = field(default_factory=set)
    failed: set[tuple[Ask, float, int]] = field(default_factory=set)  # what is alike of jobs that found no room
    stopped: set[int] = field(default_factory=set)  # partitions of these jobs
    made: dict[int, Reservation] = field(default_factory=dict)  # or kept, by partition


class Down(NamedTuple):
    """A time in which a node takes no jobs."""

    node: int
    begin: float
    end: float
    is_announced: bool


@dataclass
class SlowCluster:
    """Simulation of jobs on a cluster; after `run` the jobs that ran, by number."""

    cluster: Cluster
    jobs: Sequence[SlowJob]
    order: Order
    backfill: str = "none"
    backfill_order: Order | None = None
    allocator: str = "first"
    kill_at_limit: bool = True
    is_sequential: bool = False
    depth: int = DEPTH
    downtimes: Sequence[Downtime] = ()
    predicts: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    ran: dict[int, Running] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.machine = Machine(self.cluster)
        self.allocation = Allocation(self.machine, self.allocator, self.counts)
        self.now = -inf
        self.absent = list(self.jobs)
        self.waiting: list[SlowJob] = []
        self.running: list[Running] = []
        self.joined: dict[int, float] = {}  # when jobs joined the queue, in that order
        self.reservations: dict[int, Reservation] = {}
        self.next_walk = inf
        self.last_order: list[int] = []  # jobs in the order of the queue at the pass before
        self.begun = 0
        self.known, self.score = self._nothing_known(), dict[int, float]()
        names = [node.name for node in self.cluster.nodes]
        self.down = [
            Down(names.index(name), one.begin_s, one.end_s, one.is_announced)
            for one in self.downtimes
            for name in one.nodes
        ]

    def run(self) -> dict[int, Running]:
        """Run all jobs."""
        while self.absent or self.running or self.next_walk < inf or (self.waiting and self._changes() < inf):
            ends = [one.end for one in self.running]
            next_event = min([*ends, *map(self._arrival, self.absent), self._changes()], default=inf)
            if self.next_walk < next_event:
                self.now = self.next_walk
                self._walk()
                continue
            self.now = next_event
            if self.is_sequential:
                self._one_at_a_time()
            else:
                self._together()
        assert not self.waiting, "jobs wait for ever"
        return self.ran

    # Scores (docs/simulator.md)

    def _nothing_known(self) -> SlowScores:
        has: Counter[str] = Counter()
        for node in self.machine.has:
            has.update(node)
        asked = [self._asked(job.ask) for job in self.jobs]
        total = {one: amount for one, amount in has.items() if 0 < amount < inf}
        return SlowScores(asked, total, [job.estimate for job in self.jobs], [job.user for job in self.jobs])

    def _asked(self, ask: Ask) -> dict[str, float]:
        """Return what a job asks for with the fewest nodes; alone at least all of the smallest nodes it may get."""
        asked: Counter[str] = Counter()
        for resource, amount in ask.of_node:
            asked[resource] += amount * ask.least
        for resource, amount in ask.of_task:
            asked[resource] += amount * ask.tasks
        found: dict[str, float] = dict(asked)
        nodes = {node for one in ask.sets for node in one}
        if ask.is_exclusive:
            for resource in {one for node in nodes for one in self.machine.has[node]}:
                smallest = min(self.machine.has[node].get(resource, 0) for node in nodes)
                found[resource] = max(found.get(resource, 0), smallest * ask.least)
        return found

    def _compute_scores(self, order: Order) -> None:
        """Compute the scores of the waiting jobs, which stay as they are for a part of a pass."""
        if order.network is not None:
            joined = {job.number: self.joined[job.number] for job in self.waiting}
            running = [one.job.number for one in self.running]
            self.score = self.known.scores(order.network, self.now, joined, running)

    def _first_of_each_user(self, order: Order, jobs: list[SlowJob]) -> list[SlowJob]:
        """Return for a scored order the first of one user's jobs with the same request and limit; else all."""
        orders = [self.order] if self.backfill_order is None else [self.order, self.backfill_order]
        waits = any(job.preceding >= 0 for job in self.jobs) or any(not one.is_announced for one in self.down)
        if order.kind != "score" or (self.backfill_order is not None and waits):
            return jobs
        first: dict[Any, SlowJob] = {}
        for job in sorted(jobs, key=lambda one: (self.joined[one.number], one.number)):
            values = tuple(one.values[job.number] for one in orders) if len(orders) > 1 else ()
            first.setdefault((job.request, job.ask, job.estimate, job.user, values), job)
        return list(first.values())

    # Events

    def _together(self) -> None:
        """Take all ends, then all submissions, then make one pass."""
        self._end([one for one in self.running if one.end == self.now])
        self._change()
        for job in self._arriving():
            self._join(job)
        self._correct()
        self._pass_and_walk()

    def _one_at_a_time(self) -> None:
        """Take one event at a time, changes of nodes before arrivals before ends, and make a pass after each."""
        if self._change():
            self._correct()
            self._pass_and_walk()
        # In the order of their starts.
        ends = [one for one in self.running if one.end == self.now]
        # Jobs that end exactly on their estimate end together before any other event, and count to the first one.
        together = [one for one in ends if one.start + one.planned == self.now]
        others = [one for one in ends if one not in together]
        self._end(together)
        passes = 0
        while together or others or self._arriving():
            arriving = self._arriving()
            if arriving:
                self.counts["arrivals before ends of the same time"] += bool(ends)
                self._join(arriving[0])
            elif others and not (together and ends.index(together[0]) < ends.index(others[0])):
                self.counts["ends on the estimate that count to another end"] += bool(together)
                self._end([others.pop(0)])
            together = []
            self._correct()
            before = len(self.ran)
            self._pass_and_walk()
            passes += 1
            started = list(self.ran.values())[before:]
            self.counts["starts in a later pass of the same time"] += len(started) if passes > 1 else 0

    # Downtimes

    def _changes(self) -> float:
        """Return when a node fails or comes back next."""
        ends = [one.end for one in self.down]
        failures = [one.begin for one in self.down if not one.is_announced]
        return min((time for time in [*ends, *failures] if time > self.now), default=inf)

    def _change(self) -> bool:
        """Let nodes fail and come back now; return whether any does."""
        failing = {one.node for one in self.down if one.begin == self.now and not one.is_announced}
        if not failing and not any(one.end == self.now for one in self.down):
            return False
        stopped = [one for one in self.running if one.end > self.now and not failing.isdisjoint(one.tasks)]
        for one in sorted(stopped, key=lambda one: one.job.number):
            self.running.remove(one)
            del self.ran[one.job.number]
            del self.joined[one.job.number]
            self.waiting.append(one.job)
            self.joined[one.job.number] = self.now
            self.counts["jobs stopped by a failure"] += 1
        for reservation in self.reservations.values():
            reservation.stale = reservation.stale or "a node failed or came back"
        self.counts["times at which nodes fail or come back"] += 1
        return True

    def _known(self) -> list["Down"]:
        return [one for one in self.down if one.is_announced or one.begin <= self.now]

    def _up(self, job: SlowJob, rooms: Tasks, since: float) -> Tasks:
        """Leave out the nodes that a downtime closes to a job that starts on them at some time."""
        closed = {
            one.node
            for one in self._known()
            if since < one.end and (one.begin <= since or one.begin < since + job.estimate)
        }
        self.counts["rooms that a downtime closed"] += len(closed & rooms.keys())
        return {node: room for node, room in rooms.items() if node not in closed}

    def _arriving(self) -> list[SlowJob]:
        return [job for job in self.absent if self._arrival(job) == self.now]

    def _arrival(self, job: SlowJob) -> float:
        """Return when a job joins the queue, as far as that is known: infinity until its preceding job has ended."""
        if job.preceding < 0:
            return job.submit
        before = self.ran.get(job.preceding)
        return inf if before is None or before in self.running else max(job.submit, before.end + job.think)

    def _join(self, job: SlowJob) -> None:
        self.absent.remove(job)
        self.waiting.append(job)
        self.joined[job.number] = self.now

    def _end(self, ended: Sequence[Running]) -> None:
        for one in sorted(ended, key=lambda one: one.start + one.planned != self.now):
            self.known.ended(one.job.number, self.now - one.start)
        for one in ended:
            self.running.remove(one)
            for reservation in self.reservations.values():
                if any(node in some for node in one.tasks for some in reservation.job.ask.sets):
                    reservation.stale = reservation.stale or "a job ended"

    # Predicted run times (docs/simulator.md)

    def _plan_of(self, job: SlowJob) -> float:
        """Return how long a waiting job is planned to run."""
        return self.known.predicted(job.number) if self.predicts else job.estimate

    def _correct(self) -> None:
        """Expect those to run for their estimates that have run for as long as was predicted."""
        for one in self.running if self.predicts else ():
            if one.expected <= self.now < one.start + one.job.estimate:
                one.expected = one.start + one.job.estimate
                self.counts["predictions corrected"] += 1
                for reservation in self.reservations.values():
                    reservation.stale = reservation.stale or "a job runs longer than predicted"

    def _left_now(self) -> Left:
        return self.machine.left(one.holding for one in self.running)

    def _expected_end(self, one: Running) -> float:
        return one.expected_end(self.now)

    # The order of the queue

    def _in_turn(self, order: Order, without: Iterable[int] = ()) -> Iterator[SlowJob]:
        """Return waiting jobs one after the other: each time the first of those that are left, as things are then."""
        gone = set(without)
        while left := [job for job in self.waiting if job.number not in gone]:
            job = min(self._first_of_each_user(order, left), key=self._place(order))
            gone.add(job.number)
            yield job

    def _place(self, order: Order) -> Callable[[SlowJob], tuple[float, float, int]]:
        """Return the place of a job in an order: by tier, then by the order, then by submission."""
        partitions = partitions_of(self.cluster)
        shares = self._shares()
        by_order = {
            "arrival": lambda job: list(self.joined).index(job.number),
            "fixed": lambda job: order.values[job.number],
            "ageing": lambda job: -(order.values[job.number] * (self.now - self.joined[job.number])),
            "share": lambda job: shares.get(job.user, 0.0),
            "score": lambda job: self.score[job.number],
        }[order.kind]
        return lambda job: (-partitions[job.ask.partition].tier, by_order(job), job.number)

    def _shares(self) -> dict[int, float]:
        """Return the largest share of a resource that the running jobs of each user hold."""
        has: Counter[str] = Counter()
        for node in self.machine.has:
            has.update(node)
        held: dict[int, Counter[str]] = {}
        for one in self.running:
            of_user = held.setdefault(one.job.user, Counter())
            for node, number in one.tasks.items():
                if one.job.ask.is_exclusive:
                    of_user.update(self.machine.has[node])
                    continue
                of_user.update(dict(one.job.ask.of_node))
                of_user.update({resource: amount * number for resource, amount in one.job.ask.of_task})
        # Nobody has a share of what there is enough of for all: memory, if that of a node is not known.
        limited = [resource for resource, amount in has.items() if 0 < amount < inf]
        return {user: max(of_user[one] / has[one] for one in limited) for user, of_user in held.items()}

    # A pass

    def _pass_and_walk(self) -> None:
        """Make the pass of an event, and the walk that follows it if one is due now."""
        self._pass()
        if self.backfill == "conservative":
            # At the first multiple of the period that is not before the event.
            self.next_walk = ceil(self.now / PERIOD) * PERIOD
            if self.next_walk == self.now:
                self._walk()

    def _pass(self) -> None:
        """Start jobs that find room, as far as the kind of backfilling lets them."""
        self._compute_scores(self.order)
        self._count_changes_of_order()
        seen = Pass()
        if self.backfill in ("none", "conservative"):
            self._look(seen, self.order, is_until_one_fails=True)
        elif self.backfill_order is None:
            self._look(seen, self.order)
        else:
            self._look(seen, self.order, is_until_one_fails=True)
            self._compute_scores(self.backfill_order)
            self._look(seen, self.backfill_order)
        self.counts["reservations given up: others came before"] += sum(
            1
            for at, one in self.reservations.items()
            if one.job in self.waiting and (at not in seen.made or seen.made[at].job is not one.job)
        )
        self.reservations = seen.made

    def _look(self, seen: Pass, order: Order, *, is_until_one_fails: bool = False) -> None:
        """Look at waiting jobs in an order; in each partition only until one finds no room, if that is asked for."""
        before = self._in_order(order, seen.looked_at)
        for place, job in enumerate(self._in_turn(order, seen.looked_at)):
            if is_until_one_fails and job.ask.partition in seen.stopped:
                continue
            seen.looked_at.add(job.number)
            alike = job.ask, job.estimate, job.user if self.predicts else 0
            if alike in seen.failed:
                self.counts["jobs not looked at: same as one that found none"] += 1
                continue
            left = self._left_now()
            found = self.allocation.find(job.ask, self._rooms_beside(job, left, seen.made.values()), left)
            if found is not None:
                self._count_start(job, found, seen)
                self._count_order(order, job, before, place)
                self._start(job, found, seen.made.values())
                continue
            seen.failed.add(alike)
            seen.stopped.add(job.ask.partition)
            if self.backfill == "easy" and job.ask.partition not in seen.made:
                seen.made[job.ask.partition] = self._kept_or_made(job)
                self.counts["reservations beside one of another partition"] += len(seen.made) > 1

    def _start(self, job: SlowJob, tasks: Tasks, made: Iterable[Reservation] = ()) -> None:
        self.waiting.remove(job)
        self.known.started(self.now - self.joined[job.number])
        runs = min(job.run, job.estimate) if self.kill_at_limit else job.run
        planned = self._plan_of(job)
        one = Running(job, self.now, self.now + runs, tasks, self.begun, planned, self.now + planned)
        self.begun += 1
        self.running.append(one)
        self.ran[job.number] = one
        for reservation in [*self.reservations.values(), *made]:
            if one.expected_end(self.now) > reservation.time and not reservation.tasks.keys().isdisjoint(tasks):
                reservation.stale = reservation.stale or "a job started"
        self.counts["starts"] += 1
        self.counts["starts of exclusive jobs"] += job.ask.is_exclusive

    # What is counted

    def _in_order(self, order: Order, without: Iterable[int] = ()) -> list[SlowJob]:
        """Return waiting jobs in an order as it is now."""
        if order.kind == "score":
            return list(self._in_turn(order, without))
        return sorted((job for job in self.waiting if job.number not in set(without)), key=self._place(order))

    def _count_changes_of_order(self) -> None:
        queue = [job.number for job in self._in_order(self.order)]
        before = [number for number in self.last_order if number in queue]
        changed = before != [number for number in queue if number in before]
        self.counts[f"passes with waiting jobs in another order than before, by {self.order.kind}"] += changed
        self.last_order = queue

    def _count_start(self, job: SlowJob, found: Tasks, seen: Pass) -> None:
        if job.ask.partition in seen.stopped and self.backfill == "first-fit":
            self.counts["starts by first-fit past a job without room"] += 1
        elif job.ask.partition in seen.stopped:
            self.counts["starts by backfilling"] += 1
            later = [one for one in seen.made.values() if self.now + self._plan_of(job) > one.time]
            would_be_late = any(self.now + job.estimate > one.time for one in seen.made.values())
            self.counts["starts by backfilling in time by prediction only"] += not later and would_be_late
            beside = any(one.tasks.keys() & found.keys() for one in later)
            self.counts["starts by backfilling on reserved nodes beside the head"] += beside
        elif seen.stopped:
            self.counts["starts while another partition waits"] += 1

    def _count_order(self, order: Order, job: SlowJob, before: Sequence[SlowJob], place: int) -> None:
        """Count what put a job first; ``before`` is the order before any job started, ``place`` that of the job."""
        tier = partitions_of(self.cluster)[job.ask.partition].tier
        behind = [one for one in before[place + 1 :] if partitions_of(self.cluster)[one.ask.partition].tier == tier]
        if order.kind == "ageing":
            values = order.values
            self.counts["starts before jobs that have waited longer, by a value"] += any(
                self.joined[one.number] < self.joined[job.number] for one in behind
            )
            self.counts["starts before jobs of a higher value, by age"] += any(
                values[one.number] > values[job.number] for one in behind
            )
        if order.kind == "share":
            self.counts["starts in another place than before the pass, by share"] += before[place] is not job
        if order is self.backfill_order:
            queue = [] if "score" in (self.order.kind, order.kind) else self._in_order(self.order)
            queue = [one for one in queue if one in before] or [job]
            first = next(one for one in queue if one is job or one in before[place:])
            self.counts[f"starts first in the order of backfilling only, by {order.kind}"] += first is not job

    # easy

    def _kept_or_made(self, job: SlowJob) -> Reservation:
        earlier = self.reservations.get(job.ask.partition)
        if earlier is not None and earlier.job is job:
            stale = "its time has come" if earlier.time <= self.now else earlier.stale
            if not stale:
                self.counts["reservations kept"] += 1
                return earlier
            self.counts[f"reservations made anew: {stale}"] += 1
        self.counts["reservations made"] += 1
        return self._reservation(job)

    def _reservation(self, job: SlowJob) -> Reservation:
        """Make a reservation as if there were no other."""
        opened = {one.end for one in self._known() if self.now < one.end < inf}
        for time in sorted(({self._expected_end(one) for one in self.running} or {self.now}) | opened):
            left = self.machine.left(one.holding for one in self.running if self._expected_end(one) > time)
            found = self.allocation.find(job.ask, self._up(job, self.machine.rooms(job.ask, left), time), left)
            if found is not None:
                self.counts["reservations for a time that is now"] += time == self.now
                self.counts["reservations for the end of a downtime"] += time in opened
                return Reservation(job, time, found)
        if self.down:
            self.counts["reservations for no known time"] += 1
            return Reservation(job, inf, {})
        raise AssertionError("no nodes for the head even if all jobs have ended")

    def _rooms_beside(self, job: SlowJob, left: Left, made: Iterable[Reservation]) -> Tasks:
        """Return the room on each node now, on reserved nodes no more than is left beside the reservations."""
        rooms = self._up(job, self.machine.rooms(job.ask, left), self.now)
        for reservation in made:
            if self.now + self._plan_of(job) <= reservation.time:
                continue
            later = [one.holding for one in self.running if self._expected_end(one) > reservation.time]
            beside = self.machine.left([*later, Holding(reservation.job.ask, reservation.tasks)])
            for node in reservation.tasks.keys() & rooms.keys():
                room = room_on(job.ask, node, beside)
                if room < rooms[node]:
                    self.counts["rooms that a reservation made smaller"] += 1
                    rooms[node] = room
        return {node: room for node, room in rooms.items() if room}

    # conservative

    def _walk(self) -> None:
        """Walk along the queue, start and reserve; find out when the next walk is due, for all that is known."""
        plans: list[Plan] = []
        self._compute_scores(self.order)
        for job in self._in_turn(self.order):
            if len(plans) >= self.depth:
                break
            plan = self._plan(job, plans)
            if plan is None:
                self.counts["jobs that a walk gave up"] += 1
            elif plan.begin == self.now:
                self.counts["starts by a walk"] += 1
                self.counts["starts by a walk beside reservations"] += bool(plans)
                self._start(job, plan.tasks)
            else:
                self.counts["reservations of a walk"] += 1
                plans.append(plan)
        earliest = min((plan.begin for plan in plans), default=inf)
        self.next_walk = earliest if earliest == inf else ceil(earliest / PERIOD) * PERIOD

    def _plan(self, job: SlowJob, plans: Sequence[Plan]) -> Plan | None:
        since = self.now
        while True:
            near = [plan for plan in plans if plan.b > since and plan.a <= since + job.estimate]
            down = [one for one in self._known() if one.end > since and one.begin <= since + job.estimate]
            opens = min([plan.b for plan in near] + [one.end for one in down], default=inf)
            closed = {node for plan in near for node in plan.tasks} | {one.node for one in down}
            left = self._left_now()
            tasks = self._not_closed(job.ask, left, closed)
            begin = self.now
            if tasks is None:
                found = self._look_ahead(job.ask, closed)
                if found is not None:
                    begin, tasks = max(found[0], self.now + 1), found[1]
            begin = max(begin, since)
            if tasks is None or begin > opens:
                if opens == inf:
                    return None
                self.counts["walks that look again after a reservation"] += 1
                since = opens
                continue
            if begin == self.now:
                return Plan(begin, begin, begin, tasks)
            a = begin // MINUTE * MINUTE
            b = max((begin + job.estimate) // MINUTE * MINUTE, a + MINUTE)
            overlaps = any(p.a < b and p.b > a and p.tasks.keys() & tasks.keys() for p in plans) or any(
                one.begin < b and one.end > a and one.node in tasks for one in self._known()
            )
            if begin > since and overlaps:
                self.counts["walks that look again because of an overlap"] += 1
                since = begin
                continue
            return Plan(begin, a, b, tasks)

    def _not_closed(self, ask: Ask, left: Left, closed: set[int]) -> Tasks | None:
        rooms = {node: room for node, room in self.machine.rooms(ask, left).items() if node not in closed}
        return self.allocation.find(ask, rooms, left)

    def _look_ahead(self, ask: Ask, closed: set[int]) -> tuple[float, Tasks] | None:
        """Take running jobs off the machine, window by window, until there are nodes; return the time and these."""
        usable = {node for one in ask.sets for node in one} - closed
        on_machine = sorted(
            self.running,
            key=lambda one: (one.expected, one.order),
        )
        window_end: float | None = None  # not known before the first relevant job
        width = PERIOD
        first = inf
        last_relevant: Running | None = None
        while on_machine:
            if window_end is not None:
                width *= 2
                while first + width < self._expected_end(on_machine[0]):
                    self.counts["windows left out"] += 1
                    width *= 2
                window_end = first + width
            is_relevant = False
            taken = 0
            while on_machine and (
                not taken
                or not is_relevant
                or (window_end is not None and self._expected_end(on_machine[0]) <= window_end)
            ):
                one = on_machine.pop(0)
                taken += 1
                is_relevant = not usable.isdisjoint(one.tasks)
                if is_relevant:
                    last_relevant = one
                    if window_end is None:
                        first = self._expected_end(one) // PERIOD * PERIOD + PERIOD
                        window_end = first + width
            self.counts["windows of several jobs"] += taken > 1
            left = self.machine.left(one.holding for one in on_machine)
            found = self._not_closed(ask, left, closed)
            if found is not None and last_relevant is not None:
                return self._expected_end(last_relevant), found
        return None


# Queue orders, as heuristics/scheduling/queue_orders.py defines them


def order_of(name: str, workload: Workload) -> Order:
    """Return a queue order by its name."""
    estimate = np.asarray(workload.estimate, dtype=np.float64)
    size = np.asarray(workload.processors, dtype=np.float64)
    logs = np.log10(np.maximum(workload.submit, 1.0))
    none = 0.0 * estimate
    if name.startswith("network"):
        return Order("score", none.tolist(), network_named(name))
    kind, values = {
        "fcfs": ("arrival", none),
        "drf": ("share", none),
        "sjf": ("fixed", estimate),
        "ljf": ("fixed", -estimate),
        "smallest-area": ("fixed", estimate * size),
        "largest": ("fixed", -size),
        "wfp3": ("ageing", np.cbrt(size) / estimate),
        "unicep": ("ageing", 1.0 / (np.maximum(np.log2(size), np.log2(1.0 + 1e-15)) * estimate)),
        "f1": ("fixed", np.log10(estimate) * size + 870.0 * logs),
        "f2": ("fixed", np.sqrt(estimate) * size + 25_600.0 * logs),
        "f3": ("fixed", estimate * size + 6_860_000.0 * logs),
        "f4": ("fixed", estimate * np.sqrt(size) + 530_000.0 * logs),
    }[name]
    return Order(kind, [float(value) for value in values])


def slow_jobs(workload: Workload, cluster: Cluster) -> list[SlowJob]:
    """Return the jobs of a workload, with what each asks for."""
    asked = list(workload.requests) if len(workload.requests) else [None] * len(workload)
    columns = (workload.submit, workload.run, workload.estimate, workload.processors)
    row_of = {number: row for row, number in enumerate(workload.ids.tolist())}
    before = [row_of.get(number, -1) for number in workload.preceding.tolist()]
    return [
        SlowJob(
            at,
            *(float(submit), float(run), float(estimate), ask_of(cluster, asked[at], int(processors))),
            *(before[at], float(workload.think_s[at]), int(workload.users[at])),
            request_of(cluster, asked[at], int(processors)),
        )
        for at, (submit, run, estimate, processors) in enumerate(zip(*columns, strict=True))
    ]


def simulate_slowly(
    workload: Workload,
    cluster: Cluster,
    policy: str,
    *,
    backfill_order: str | None = None,
    allocator: str = "first",
    kill_at_limit: bool = True,
    is_sequential: bool = False,
    depth: int = DEPTH,
    downtimes: Sequence[Downtime] = (),
    predicts: bool = False,
    counts: Counter[str] | None = None,
) -> list[Running]:
    """Simulate jobs that are all admitted under a policy such as ``sjf+easy``; return them in their order."""
    order, _, backfill = policy.partition("+")
    machine = SlowCluster(
        cluster,
        slow_jobs(workload, cluster),
        order_of(order, workload),
        backfill or "none",
        None if backfill_order is None else order_of(backfill_order, workload),
        allocator,
        kill_at_limit,
        is_sequential,
        depth,
        downtimes,
        predicts,
        counts=Counter() if counts is None else counts,
    )
    ran = machine.run()
    return [ran[number] for number in range(len(workload))]
