"""Clusters and jobs at random, of every field that their formats have, and counts of what was drawn."""

import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from support.slow_cluster import Allocation, Machine, ask_of, is_only_topology, nodes_and_tasks, partitions_of

import allocopt
from allocopt.cluster import Request
from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.downtime import Downtime
from allocopt.cluster.named import NamedTree, Switch, tree_of_switches
from allocopt.traces.workload import UNKNOWN_USER, Workload

T = TypeVar("T")

FEATURES = ("w", "x", "y", "z")
GPU_TYPES = ("a", "b")
# What nodes have for GPUs: none, of no type, of one, of both, of one and no type.
NODE_GPUS: tuple[dict[str, int], ...] = ({}, {}, {"": 2}, {"a": 2}, {"a": 1, "b": 2}, {"a": 1, "": 1})
# Planned sizes of blocks and of what joins them; none is 1, 2, 4, 8 and 16 blocks.
BLOCK_SIZES = (
    *("1", "2", "4", "3", "2,4", "2,4", "4,16", "3,6,12", "3,6", "2,8"),
    *("1,2", "1,4", "1,8", "1,2,4", "2,4,8", "1,4,16"),
    None,
)


def _chance(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


def _one(rng: np.random.Generator, among: Sequence[T]) -> T:
    return among[int(rng.integers(len(among)))]


def _some(rng: np.random.Generator, among: Sequence[T], least: int, most: int) -> list[T]:
    number = min(int(rng.integers(least, most + 1)), len(among))
    return [among[int(at)] for at in sorted(rng.choice(len(among), number, replace=False))]


def _node(rng: np.random.Generator, name: str, kinds: Sequence[Mapping[str, Any]]) -> ClusterNode:
    features = frozenset(_some(rng, FEATURES, 0, 3))
    return ClusterNode(name, features=features, weight=int(rng.integers(1, 4)), **_one(rng, kinds))


def _kinds(rng: np.random.Generator) -> list[dict[str, Any]]:
    # The sorts of nodes of one cluster.
    has_memory, has_gpus = _chance(rng, 0.6), _chance(rng, 0.5)
    return [
        {
            "cores": _one(rng, (1, 2, 2, 3, 4, 4, 8, 8, 16, 1.5)),
            "memory_mib": _one(rng, (None, 1000, 2000, 4000)) if has_memory else None,
            "gpus": dict(_one(rng, NODE_GPUS)) if has_gpus else {},
        }
        for _ in range(int(rng.integers(1, 4)))
    ]


def _partitions(rng: np.random.Generator, names: Sequence[str], at_least: int) -> tuple[Partition, ...]:
    found = []
    for number in range(int(rng.integers(at_least, 5))):
        nodes = list(names) if _chance(rng, 0.4) else _some(rng, names, 1, len(names))
        memory = _one(rng, ("none", "none", "none", "core", "core", "node", "node", "both"))
        found.append(
            Partition(
                f"p{number}",
                tuple(nodes),
                most_seconds=float(_one(rng, (100, 300, 600))) if _chance(rng, 0.2) else None,
                most_nodes=int(rng.integers(1, 4)) if _chance(rng, 0.2) else None,
                memory_per_core_mib=int(_one(rng, (200, 333, 501, 900))) if memory in ("core", "both") else None,
                memory_per_node_mib=int(_one(rng, (300, 900))) if memory in ("node", "both") else None,
                is_exclusive=_chance(rng, 0.12),
                tier=int(rng.integers(1, 4)) if _chance(rng, 0.6) else 1,
                least_nodes=int(rng.integers(2, 4)) if _chance(rng, 0.1) else 1,
                memory_per_gpu_mib=int(_one(rng, (150, 400))) if _chance(rng, 0.15) else None,
            )
        )
    return tuple(found)


def _switches(rng: np.random.Generator, names: list[str], is_forest: bool) -> NamedTree:
    """Join nodes by switches: leaves of unequal size, up to three levels above them, of unequal depth sometimes."""
    cuts = sorted({0, len(names), *(int(one) for one in rng.integers(1, len(names) + 1, rng.integers(0, 5)))})
    leaves = [Switch(f"s{at}", tuple(names[a:b])) for at, (a, b) in enumerate(pairwise(cuts))]
    switches, level = list(leaves), [leaf.name for leaf in leaves]
    for _ in range(int(rng.integers(0, 3))):
        if len(level) < 2:
            break
        bounds = sorted({0, len(level), *(int(one) for one in rng.integers(1, len(level), rng.integers(1, 3)))})
        above: list[str] = []
        for a, b in pairwise(bounds):
            if b - a == 1 and _chance(rng, 0.5):
                above.append(level[a])  # it hangs from a level above the next one
                continue
            switches.append(Switch(f"s{len(switches)}", (), tuple(level[a:b])))
            above.append(switches[-1].name)
        level = above
    if not is_forest and len(level) > 1:
        switches.append(Switch("top", (), tuple(level)))
    elif is_forest and len(level) > 2 and _chance(rng, 0.3):
        switches.append(Switch("some", (), tuple(level[:2])))
    return tree_of_switches(switches)


def random_blocks(rng: np.random.Generator) -> NamedTree:
    """Read blocks from a topology.conf file: of one planned size or several, the last block smaller sometimes."""
    sizes = _one(rng, BLOCK_SIZES)
    planned = 2 if sizes is None else int(sizes.split(",")[0])
    size = planned if _chance(rng, 0.8) else planned + int(rng.integers(1, 3))
    most_blocks = max(int(_one(rng, (12, 16, 24))) // size, 2)
    number = int(rng.integers(1 if _chance(rng, 0.1) else 2, most_blocks + 1))
    lines, first = [], 1
    for block in range(number):
        here = int(rng.integers(1, size + 1)) if block == number - 1 and _chance(rng, 0.3) else size
        lines.append(f"BlockName=b{block} Nodes=n[{first}-{first + here - 1}]")
        first += here
    if sizes is not None:
        lines.append(f"BlockSizes={sizes}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "topology.conf"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return allocopt.read_topology(path)


def _described(rng: np.random.Generator, topology: NamedTree) -> Cluster:
    if _chance(rng, 0.1):
        return Cluster.whole_nodes(topology)
    kinds = _kinds(rng)
    nodes = [_node(rng, name, kinds) for name in topology.nodes]
    if _chance(rng, 0.35):
        # Uneven numbers of nodes are left in each group.
        nodes = _some(rng, nodes, max(len(nodes) * 2 // 3, 1), len(nodes))
    names = [node.name for node in nodes]
    partitions = _partitions(rng, names, int(rng.integers(0, 2)))
    return Cluster.of(nodes, topology, partitions, is_exclusive=_chance(rng, 0.08))


def random_block_cluster(rng: np.random.Generator) -> Cluster:
    """Return a cluster on blocks."""
    return _described(rng, random_blocks(rng))


def random_cluster(rng: np.random.Generator) -> Cluster:
    """Return a cluster on a tree, a forest, blocks, or nothing that connects its nodes."""
    kind = _one(rng, ("flat", "tree", "tree", "tree", "forest", "forest", "blocks", "blocks"))
    if kind == "blocks":
        return random_block_cluster(rng)
    size = int(rng.integers(*_one(rng, ((1, 5), (3, 8), (3, 13), (3, 13), (12, 30)))))
    names = [f"n{number}" for number in rng.permutation(size)]
    if kind != "flat":
        return _described(rng, _switches(rng, names, kind == "forest"))
    kinds = _kinds(rng)
    nodes = [_node(rng, name, kinds) for name in names]
    return Cluster.of(nodes, None, _partitions(rng, names, 0), is_exclusive=_chance(rng, 0.08))


# Jobs at random


def random_constraint(rng: np.random.Generator) -> str:
    """Return an expression of features, with each of its operators, parentheses and lists in brackets."""
    a, b, c = (_one(rng, FEATURES) for _ in range(3))
    drawn = rng.permutation(FEATURES)[: int(rng.integers(2, 4))]
    listed = "|".join(_one(rng, FEATURES) if _chance(rng, 0.1) else one for one in drawn)
    forms = (
        *(a, a, f"{a}&{b}", f"{a}|{b}", f"{a}|{b}", f"{a}|{b}&{c}", f"{a}&{b}|{c}", f"{a}&({b}|{c})", f"({a}|{b})&{c}"),
        *(f"[{listed}]", f"[{listed}]", f"[{listed}]", f"{a}&[{listed}]", f"[{listed}]&{a}", f"({a}|{b})&[{listed}]"),
        *(f"{a}|[{listed}]", f"[{a}|{b}]&[{listed}]", f"[{a}&{b}|{listed}]"),
    )
    return _one(rng, forms)


def _gpus_asked(rng: np.random.Generator, fraction: bool) -> tuple[tuple[str, float], ...]:
    kinds = _some(rng, ("", *GPU_TYPES), 1, 2 if _chance(rng, 0.2) else 1)
    return tuple((kind, float(_one(rng, (0.5, 0.25, 1.5) if fraction else (1, 1, 2)))) for kind in kinds)


def _nodes_and_tasks_asked(rng: np.random.Generator, size: int) -> dict[str, Any]:
    # The numbers of nodes and tasks, of each sort of job.
    few = min(size, 4)
    least = int(rng.integers(1, few + 1)) if _chance(rng, 0.7) else int(rng.integers(1, size + 1))
    tasks, more = int(rng.integers(1, 9)), int(rng.integers(0, 3))
    per_node, more_tasks = int(rng.integers(1, 5)), int(rng.integers(5, 9))
    shapes: tuple[dict[str, Any], ...] = (
        {},
        {"tasks": tasks},
        {"tasks": tasks, "most_nodes": int(rng.integers(1, few + 1))},
        {"least_nodes": least},
        {"least_nodes": least, "most_nodes": least + more},
        {"least_nodes": size},
        {"tasks": tasks, "least_nodes": least},
        {"tasks": tasks, "least_nodes": least, "most_nodes": least + more},
        {"tasks": tasks, "tasks_per_node": per_node},
        {"tasks": tasks, "tasks_per_node": per_node, "most_nodes": int(rng.integers(1, size + 1))},
        {"tasks": tasks, "tasks_per_node": per_node, "least_nodes": least, "most_nodes": least + more},
        # Packed on one node.
        {"tasks": int(rng.integers(1, 5)), "most_nodes": 1},
        # More tasks than nodes.
        {"tasks": more_tasks, "least_nodes": 2, "most_nodes": 2 + more % 2, "is_exclusive": _chance(rng, 0.6)},
    )
    return dict(_one(rng, shapes))


def _amounts_asked(rng: np.random.Generator, has_gpus: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if _chance(rng, 0.3):
        fields["cores_per_task"] = float(_one(rng, (0.5, 1.5, 2, 2, 3, 0.3334, 0.0625, 0)))
    sort = _one(rng, ("none", "none", "none", "node", "core", "both"))
    if sort in ("node", "both"):
        fields["memory_per_node_mib"] = int(_one(rng, (0, 100, 500, 999, 1500)))
    if sort in ("core", "both"):
        fields["memory_per_core_mib"] = int(_one(rng, (101, 250, 333, 500, 1001)))
    if has_gpus and _chance(rng, 0.5):
        sort = _one(rng, ("node", "task", "both"))
        if sort != "task":
            fields["gpus_per_node"] = _gpus_asked(rng, _chance(rng, 0.1))
        if sort != "node":
            fields["gpus_per_task"] = _gpus_asked(rng, _chance(rng, 0.3))
    return fields


def _hostlist(rng: np.random.Generator, names: Sequence[str]) -> str:
    # Names are a letter and a number.
    return ",".join(names) if _chance(rng, 0.5) else f"n[{','.join(name[1:] for name in names)}]"


def random_request(rng: np.random.Generator, cluster: Cluster) -> Request | None:
    """Return what a job asks for, any of its fields; None for nothing but processors."""
    if _chance(rng, 0.08):
        return None
    size, names = cluster.size, [node.name for node in cluster.nodes]
    fields = _nodes_and_tasks_asked(rng, size)
    fields |= _amounts_asked(rng, any(node.gpus for node in cluster.nodes))
    if cluster.partitions and _chance(rng, 0.8):
        fields["partition"] = _one(rng, cluster.partitions).name
    if _chance(rng, 0.2):
        fields["constraint"] = random_constraint(rng)
    if _chance(rng, 0.12):
        fields["excluded"] = _hostlist(rng, _some(rng, names, 1, 2))
    if _chance(rng, 0.1):
        fields["required"] = _hostlist(rng, _some(rng, names, max(size // 2, 1), size))
    if _chance(rng, 0.12):
        fields["is_exclusive"] = True
    return Request(**fields)


def _request_that_fits(rng: np.random.Generator, cluster: Cluster) -> Request | None:
    # Most jobs are to run; one that fits no empty cluster is dropped.
    machine = Machine(cluster)
    for _ in range(6):
        request = random_request(rng, cluster)
        ask = ask_of(cluster, request, 2)
        limit = partitions_of(cluster)[ask.partition].most_nodes or inf
        found = Allocation(machine, "first", Counter()).find(ask, machine.rooms(ask, machine.left([])))
        if (found is not None and ask.least <= limit) or _chance(rng, 0.03):
            break
    return request


def random_jobs(rng: np.random.Generator, cluster: Cluster, number: int) -> Workload:
    """Return jobs that come faster than the cluster serves them, many at equal times; some ask for the same."""
    unit = float(_one(rng, (1, 10, 30, 60, 60, 7, 0.5)))
    gap = float(_one(rng, (0, 0.5, 1, 1, 2, 4)))
    variety = float(_one(rng, (0.2, 0.6, 1)))
    patterns = [_request_that_fits(rng, cluster) for _ in range(max(int(number * variety), 2))]
    requests = np.empty(number, dtype=object)
    submit, run, estimate, processors = (np.zeros(number) for _ in range(4))
    now = float(_one(rng, (0, 0, 1, 10_000_000, 12_345)))
    early = rng.random()  # whether jobs end before their estimates more often
    for at in range(number):
        if _chance(rng, 0.6):
            now += float(rng.integers(0, 4)) * gap * unit
        submit[at] = now
        estimate[at] = float(rng.integers(1, 13)) * unit
        if _chance(rng, 0.1):
            estimate[at] = float(rng.integers(1, 700))
        how = rng.random()
        if how < 0.25:
            run[at] = estimate[at]
        elif how < (0.7 if early < 0.7 else 0.9):
            run[at] = max(1.0, np.floor(estimate[at] * rng.random()))
        elif how < 0.92:
            run[at] = max(1.0, float(rng.integers(1, 13)) * unit)
        else:
            run[at] = estimate[at] + float(rng.integers(1, 6)) * unit
        requests[at] = _one(rng, patterns)
        processors[at] = float(rng.integers(1, 7))
    ids = np.arange(1, number + 1)
    return Workload("random", ids, submit, run, processors.astype(np.int64), estimate, requests=requests)


# What was drawn, and what mattered


def coverage(case: "Case", counts: Counter[str]) -> None:
    """Count which fields of a cluster and of its jobs were drawn, and how they are scheduled."""
    workload, cluster = case.workload, case.cluster
    topology = cluster.topology
    users = set(workload.users.tolist())
    order, _, backfill = _of_any_network(case.policy).partition("+")
    told = {
        "clusters": True,
        "clusters without partitions": not cluster.partitions,
        "clusters of several partitions": len(cluster.partitions) > 1,
        "clusters with several tiers": len({one.tier for one in cluster.partitions}) > 1,
        "clusters with overlapping partitions": len({n for one in cluster.partitions for n in one.nodes})
        < sum(len(one.nodes) for one in cluster.partitions),
        "clusters with an exclusive partition": any(one.is_exclusive for one in cluster.partitions),
        "clusters that are exclusive": cluster.is_exclusive,
        "clusters of which only the topology is known": is_only_topology(cluster),
        "clusters that are a forest": not topology.is_joined,
        "clusters on blocks": bool(topology.block_sizes),
        "clusters of 3 levels or more": len(topology.tree.groups) > 1,
        "clusters with GPUs": any(node.gpus for node in cluster.nodes),
        "clusters with nodes of several weights": len({node.weight for node in cluster.nodes}) > 1,
        "clusters with default memory": any(
            one.memory_per_core_mib or one.memory_per_node_mib for one in cluster.partitions
        ),
        "clusters with default memory of GPUs": any(one.memory_per_gpu_mib for one in cluster.partitions),
        "clusters with a least number of nodes": any(one.least_nodes > 1 for one in cluster.partitions),
        "traces with several users": len(users) > 1,
        "traces with known and unknown users": len(users) > 1 and UNKNOWN_USER in users,
        "traces with jobs that wait for others": bool((workload.preceding >= 0).any()),
        f"traces under {order}": True,
        f"traces under {order}+{backfill}": bool(backfill),
        f"traces with {backfill or 'none'}": True,
        f"traces with {backfill} in an order of its own": case.backfill_order is not None,
        f"traces with backfilling by {_of_any_network(case.backfill_order or '')}": case.backfill_order is not None,
        "traces with events one at a time": case.is_sequential,
        f"traces with allocator {case.allocator}": True,
        f"traces with kill_at_limit {case.kill_at_limit}": True,
    }
    for name, drawn in told.items():
        counts[name] += drawn
    for request in workload.requests:
        counts["jobs"] += 1
        if request is None:
            counts["jobs without a request"] += 1
            continue
        for name in Request.__dataclass_fields__:
            counts[f"jobs with {name}"] += getattr(request, name) != getattr(Request(), name)
        for sign in "|&[(":
            counts[f"jobs with {sign} in the constraint"] += sign in (request.constraint or "")
        _, least, most, _ = nodes_and_tasks(request)
        counts["jobs of a range of nodes"] += least < most
        counts["jobs of one node at most"] += most == 1


def _of_any_network(policy: str) -> str:
    return re.sub(r"network-\d+", "network", policy)


def coverage_table(counts: Mapping[str, int]) -> str:
    """Write counts as a table, in alphabetical order."""
    width = max(map(len, counts))
    return "\n".join(f"{name:{width}}  {number:>10,}" for name, number in sorted(counts.items()))


# Traces at random: a cluster, jobs, and how they are scheduled

ORDERS = ("fcfs", "fcfs", "sjf", "ljf", "smallest-area", "largest", "f1", "f2", "f3", "f4")
CHANGING_ORDERS = ("wfp3", "unicep", "drf")
BACKFILLS = ("none", "easy", "easy", "conservative")
ALLOCATORS = ("first", "best-fit", "least-loaded", "lowest-switch")
KINDS = ("any", "dense", "overrun", "blocks", "orders", "sequential", "shares", "downtimes", "scores", "predictions")
"""Sorts of traces.

``dense`` have partitions of all nodes. In ``overrun`` half of the jobs outlast their estimates. ``orders`` have users
and all orders of queue and backfilling. ``sequential`` have these, too, many events at equal times, and take them one
by one. In ``shares`` jobs of several users ask for much of one resource, and their shares order them.
"""


@dataclass(frozen=True)
class Case:
    """A trace on a cluster, and how it is scheduled."""

    cluster: Cluster
    workload: Workload
    policy: str
    allocator: str
    kill_at_limit: bool
    backfill_order: str | None = None
    is_sequential: bool = False
    downtimes: tuple[Downtime, ...] = ()
    predicts: bool = False

    @property
    def label(self) -> str:
        """How it is scheduled, in words."""
        tried = "" if self.backfill_order is None else f" tried by {self.backfill_order}"
        events = " sequential" if self.is_sequential else ""
        kills = "" if self.kill_at_limit else " without kills"
        predicts = " predicting" if self.predicts else ""
        return f"{self.policy}{tried} {self.allocator}{events}{kills}{predicts}"


def random_case(seed: int, kind: str) -> Case:
    """Return a trace of a kind."""
    rng = np.random.default_rng((20_261, seed, KINDS.index(kind)))
    cluster = random_block_cluster(rng) if kind == "blocks" else random_cluster(rng)
    number = int(rng.integers(5, 61)) if _chance(rng, 0.35) else int(rng.integers(5, 25))
    workload = random_jobs(rng, cluster, number)
    backfill, order = _one(rng, BACKFILLS), _one(rng, ORDERS)
    kills = _chance(rng, 0.6)
    if kind == "dense":
        backfill = "easy"
        cluster, workload = _dense(rng, cluster, workload)
    if kind == "overrun":
        backfill = _one(rng, ("easy", "conservative"))
        late = rng.random(number) < 0.5
        run = np.where(late, np.floor(workload.estimate * (1 + 4 * rng.random(number))) + 1, workload.run)
        workload, kills = replace(workload, run=run), False
    case = Case(cluster, workload, _policy(order, backfill), _one(rng, ALLOCATORS), kills)
    if kind == "shares":
        return _by_shares(rng, case)
    if kind == "downtimes":
        return _with_downtimes(rng, case)
    if kind == "scores":
        return _by_scores(rng, case, seed)
    if kind == "predictions":
        return _with_predictions(rng, case, seed)
    return _in_all_orders(rng, case, kind == "sequential") if kind in ("orders", "sequential") else case


def _policy(order: str, backfill: str) -> str:
    return order if backfill == "none" else f"{order}+{backfill}"


def _in_all_orders(rng: np.random.Generator, case: Case, is_sequential: bool) -> Case:
    # Any orders of queue and backfilling, users, and jobs that wait for others sometimes.
    cluster, workload = case.cluster, case.workload
    if _chance(rng, 0.3):
        cluster, workload = _dense(rng, cluster, workload)
    workload = _with_ties(rng, workload, is_sequential)
    if _chance(rng, 0.3):
        workload = with_preceding(rng, workload, 0.3)
    order = _one(rng, (*CHANGING_ORDERS, *CHANGING_ORDERS, *CHANGING_ORDERS, "fcfs", "fcfs", "sjf", "largest"))
    backfill = _one(rng, ("none", "first-fit", "first-fit", "easy", "easy", "easy", "conservative", "conservative"))
    tried = None
    if backfill in ("first-fit", "easy") and _chance(rng, 0.6):
        tried = _one(rng, (*CHANGING_ORDERS, *CHANGING_ORDERS, "fcfs", "fcfs", "sjf", "ljf", "smallest-area"))
    case = replace(case, cluster=cluster, workload=workload, policy=_policy(order, backfill))
    return replace(case, backfill_order=tried, is_sequential=is_sequential)


def _with_downtimes(rng: np.random.Generator, case: Case) -> Case:
    # Times at which jobs are submitted, start and end, so that things happen together.
    case = _in_all_orders(rng, case, is_sequential=_chance(rng, 0.3)) if _chance(rng, 0.6) else case
    workload, names = case.workload, case.cluster.topology.nodes
    times = np.concatenate((workload.submit, workload.submit + workload.run, workload.submit + workload.estimate))
    spread = float(np.median(workload.estimate))
    downtimes = []
    for _ in range(int(rng.integers(1, 7))):
        begin = float(rng.choice(times) if _chance(rng, 0.5) else rng.integers(0, int(times.max()) + 2))
        end = begin + max(1.0, float(np.floor(spread * rng.exponential(1.5))))
        nodes = rng.choice(names, int(rng.integers(1, len(names) + 1)) if _chance(rng, 0.7) else len(names), False)
        downtimes.append(Downtime(tuple(nodes.tolist()), begin, end, _chance(rng, 0.5)))
    return replace(case, downtimes=tuple(downtimes))


def _by_scores(rng: np.random.Generator, case: Case, seed: int) -> Case:
    # By networks for the queue, for backfilling or for both, with few users, some of them unknown, of few requests.
    case = _in_all_orders(rng, case, is_sequential=_chance(rng, 0.3))
    if _chance(rng, 0.3):
        case = replace(_with_downtimes(rng, case), is_sequential=case.is_sequential)
    workload, number = case.workload, len(case.workload)
    kinds = rng.integers(0, max(1, number // 2), number)
    requests = np.array([workload.requests[at] for at in kinds] if len(workload.requests) else [], dtype=object)
    workload = replace(
        workload,
        users=rng.integers(-1, 3, number),
        requests=requests,
        processors=workload.processors[kinds],
        estimate=np.maximum(workload.estimate[kinds], workload.run * (not case.kill_at_limit)),
    )
    order, _, backfill = case.policy.partition("+")
    tried = case.backfill_order
    if tried is None or _chance(rng, 0.6):
        order = f"network-{seed}"
    if tried is not None and (not order.startswith("network") or _chance(rng, 0.5)):
        tried = f"network-{seed + 1}"
    return replace(case, workload=workload, policy=f"{order}+{backfill or 'none'}", backfill_order=tried)


def _with_predictions(rng: np.random.Generator, case: Case, seed: int) -> Case:
    # EASY backfilling with few users, whose jobs run for a part of their estimates.
    case = _by_scores(rng, case, seed) if _chance(rng, 0.7) else _in_all_orders(rng, case, is_sequential=False)
    workload, order = case.workload, case.policy.partition("+")[0]
    workload = replace(workload, users=rng.integers(-1, 3, len(workload)))
    return replace(case, workload=workload, policy=f"{order}+easy", predicts=True)


def _by_shares(rng: np.random.Generator, case: Case) -> Case:
    # What users hold differs by resource, and jobs are small, so that many start in a pass.
    has_unknown = _chance(rng, 0.15)
    nodes = [
        ClusterNode(
            f"n{number}",
            int(_one(rng, (4, 8, 16))),
            memory_mib=None if has_unknown and _chance(rng, 0.5) else int(_one(rng, (2000, 4000, 4000))),
            gpus=dict(_one(rng, NODE_GPUS[2:])),
        )
        for number in range(int(rng.integers(2, 7)))
    ]
    names = tuple(node.name for node in nodes)
    partitions = [Partition(f"p{number}", names) for number in range(int(rng.integers(1, 3)))]
    workload = _with_ties(rng, case.workload, is_sequential=_chance(rng, 0.3))
    number = len(workload)
    users = rng.integers(-1, int(rng.integers(1, 4)), number)
    requests = np.empty(number, dtype=object)
    requests[:] = [_much_of_one_resource(rng, _one(rng, partitions).name) for _ in range(number)]
    backfill = _one(rng, ("none", "first-fit", "easy", "easy", "conservative"))
    tried = "drf" if backfill in ("first-fit", "easy") and _chance(rng, 0.5) else None
    order = "drf" if tried is None else _one(rng, ("drf", "fcfs", "wfp3"))
    return replace(
        case,
        cluster=Cluster.of(nodes, None, partitions),
        workload=replace(workload, users=users, requests=requests),
        policy=_policy(order, backfill),
        backfill_order=tried,
    )


def _much_of_one_resource(rng: np.random.Generator, partition: str) -> Request:
    sort = _one(rng, ("cores", "memory", "memory of cores", "gpus", "gpus of a type", "all"))
    fields: dict[str, Any] = {"tasks": int(rng.integers(1, 4)), "partition": partition}
    if sort in ("cores", "all"):
        fields["cores_per_task"] = float(_one(rng, (2, 3, 4)))
    if sort in ("memory", "all"):
        fields["memory_per_node_mib"] = int(_one(rng, (500, 1000, 1900)))
    if sort == "memory of cores":
        fields["memory_per_core_mib"] = int(_one(rng, (300, 700, 1300)))
    if sort == "gpus":
        fields["gpus_per_node"] = (("", 1.0),)
    if sort in ("gpus of a type", "all"):
        fields["gpus_per_task"] = ((_one(rng, GPU_TYPES), float(_one(rng, (0.5, 1, 1)))),)
    if _chance(rng, 0.15):
        fields["is_exclusive"] = True
    return Request(**fields)


def _with_ties(rng: np.random.Generator, workload: Workload, is_sequential: bool) -> Workload:
    # Few users, one of whom is unknown sometimes; many equal estimates and sizes; events at equal times.
    number = len(workload)
    users = rng.integers(-1 if _chance(rng, 0.3) else 0, int(rng.integers(1, 5)), number)
    processors, estimate, run, submit = workload.processors, workload.estimate, workload.run, workload.submit
    if _chance(rng, 0.6):
        estimate = rng.choice([20.0, 40.0, 40.0, 60.0, 90.0], number)
        processors = rng.choice([1, 1, 2, 4, 8], number)
        run = np.minimum(run, estimate)
    if is_sequential or _chance(rng, 0.3):
        unit = float(_one(rng, (10, 10, 30)))
        first = float(_one(rng, (0, 0, 10_000_000)))
        submit = np.sort(first + unit * rng.integers(0, int(rng.integers(2, 20)), number))
        estimate = unit * rng.integers(1, 5, number)
        run = np.where(rng.random(number) < 0.4, estimate, unit * rng.integers(1, 6, number))
    return replace(workload, users=users, processors=processors, estimate=estimate, run=run, submit=submit)


def with_preceding(rng: np.random.Generator, workload: Workload, probability: float) -> Workload:
    """Let some jobs wait for others, along a permutation, so that nobody waits for himself."""
    number = len(workload)
    order = rng.permutation(number)
    preceding = np.full(number, -1)
    for place, row in enumerate(order.tolist()):
        if place and rng.random() < probability:
            preceding[row] = workload.ids[order[rng.integers(place)]]
    think_s = np.where(preceding < 0, 0.0, rng.choice([0.0, 0.0, 5.0, 60.0], number))
    return replace(workload, preceding=preceding, think_s=think_s)


def _dense(rng: np.random.Generator, cluster: Cluster, workload: Workload) -> tuple[Cluster, Workload]:
    # Several partitions of all nodes and tiers, few estimates, jobs that end early.
    names, number = cluster.topology.nodes, len(workload)
    partitions = tuple(
        replace(one, nodes=names if _chance(rng, 0.7) else one.nodes, tier=int(rng.integers(1, 4)), most_seconds=None)
        for one in cluster.partitions
    )
    estimate = rng.choice([60.0, 100.0, 200.0, 400.0], number)
    run = np.minimum(rng.choice([1.0, 10.0, 30.0, 60.0, 100.0], number), estimate)
    submit = np.sort(rng.choice([0.0, 0.0, 0.0, 1.0, 5.0, 10.0, 30.0, 60.0], number))
    return replace(cluster, partitions=partitions), replace(workload, estimate=estimate, run=run, submit=submit)
