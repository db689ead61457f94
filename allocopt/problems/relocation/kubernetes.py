"""The relocation problem of the present nodes and pods of a Kubernetes cluster.

A pod may be deleted if its controller recreates it. It *stops* if no room is planned for its successor, and *moves* if
the successor has room on other nodes. `allocopt.problems.relocation.pods` decides which pods stay. A gang stops or
moves as a whole. Stopping costs the number of nodes of a gang times the rank of its priority, and moving half of that.
The lowest priority of gangs that may leave has rank 1, the next one 2.

Every resource that pods request is counted, and also the number of pods on a node and ports of nodes. Memory is counted
in MiB, rounded conservatively: up for pods, down for nodes. Overcommitted nodes get no pods.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import ALL, CORES, MEMORY, THOUSANDTHS, Cluster
from allocopt.cluster.kubernetes import cluster_of, level_labels, reasons_away
from allocopt.cluster.kubernetes_objects import ENDED, KubernetesObjects, Node, Pod, quantities
from allocopt.cluster.kubernetes_policies import BindRequest
from allocopt.cluster.named import NamedTree
from allocopt.cluster.objects import no_nodes
from allocopt.cluster.request import ClusterRequest
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, printable, problem_faults_named, shown
from allocopt.problems.placement.problem import LARGEST_AMOUNT, NodeTasks
from allocopt.problems.relocation.aims import FREE_RACKS, MOVE_SHARE, Aims
from allocopt.problems.relocation.pods import (
    READ,
    HeldPod,
    Policies,
    Rules,
    Unit,
    budget_notes,
    by_reason,
    units_of,
)
from allocopt.problems.relocation.problem import (
    Action,
    PlacedJob,
    Relocation,
    RelocationProblem,
    WaitingGang,
)

_MIB = 2**20
_PODS = "pods"
_PRINT_PODS = "`kubectl get pods -A -o json` prints all"
_MANY = 1_000_000  # most pods of a node that states no limit
_NAMES = {"cpu": CORES, "memory": MEMORY}
_IN_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)

Column = Mapping[str, int]
Given = Sequence[tuple[Path, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class KubernetesRelocation:
    """A relocation problem, and the pods that its jobs stand for.

    Parameters
    ----------
    problem
        The problem.
    nodes
        Names of its nodes.
    remarks
        Lines about what was counted, and about assumptions.
    units
        Gangs and pods that may leave or start, by the id of their job.
    drained
        Names of the nodes that are to be emptied.
    policies
        Policies of the cluster, such as disruption budgets.
    """

    problem: RelocationProblem
    nodes: NamedTree
    remarks: tuple[str, ...]
    units: Mapping[str, Unit]
    drained: tuple[str, ...]
    policies: Policies

    def commands(self, solution: Relocation) -> list[str]:
        """Return the ``kubectl`` commands that carry out a plan, for an operator to read and run.

        Nodes that have to be empty or stay free are cordoned first; the nodes of a gang are cordoned until it starts.
        The scheduler chooses the nodes of new pods; the plan only guarantees that there is room. Wait for each deletion
        to finish before the next command.
        """
        ends = self.problem.ends(solution)
        moved = {node for job in solution.moved(self.problem) for node, _ in ends[job.id]}
        starts = {job: [node for node, _ in ends[job]] for action, job in solution.steps if action is Action.START}
        kept = dict.fromkeys([*self.drained, *(self.nodes.nodes[node] for node in starts.get(FREE_RACKS, ()))])
        found = [f"kubectl cordon {name}" for name in kept]
        # Nodes that are planned for moved pods as well stay open.
        of_gangs = {node for job, nodes in starts.items() if job != FREE_RACKS for node in nodes} - moved
        is_changed = any(action is not Action.START for action, _ in solution.steps)
        names = [self.nodes.nodes[node] for node in sorted(of_gangs) if is_changed]
        found += [f"kubectl cordon {name}" for name in names]
        parked: set[str] = set()
        for action, job in solution.steps:
            if action is Action.START or job in parked:
                continue
            parked.add(job)
            found += [
                f"kubectl delete pod -n {one.pod.metadata.namespace} {one.pod.metadata.name}"
                for one in self.units[job].pods
            ]
        return [*found, *(f"kubectl uncordon {name}" for name in names)]

    def pods_of(self, job: str) -> list[str]:
        """Return namespaces and names of the pods of a job."""
        return [one.pod.id for one in self.units[job].pods] if job in self.units else []

    def notes(self, solution: Relocation) -> list[str]:
        """Return notes on what an operator has to watch when the plan is carried out."""
        leaving = [*solution.stopped(self.problem), *solution.moved(self.problem)]
        return budget_notes([self.units[job.id] for job in leaving], self.policies)


def kubernetes_relocation(
    given: Given, aims: Aims, name: str, labels: Sequence[str] = (), include: Collection[str] = ()
) -> KubernetesRelocation:
    """Return the problem of nodes, pods and other objects of a cluster.

    Parameters
    ----------
    given
        Objects with the files that they come from; one of them has nodes.
    aims
        The aims of the relocation.
    name
        Name of the problem.
    labels, include
        Labels of the levels, and the reasons for taking no pods that are ignored; see `read_cluster`.

    Raises
    ------
    BadFileError
        If an object cannot be read; the error gives its namespace and name.
    UsageError
        If a job or node of the aims does not exist, or may not start.
    """
    aims.check()
    objects = KubernetesObjects.of(given, may_be_empty=True)
    path = given[0][0]
    if not objects.nodes:
        raise no_nodes(given[0][1], path)
    if not objects.pods:
        raise UsageError(f"{path}: no pod is given, so that none can stop or move; {_PRINT_PODS}")
    with problem_faults_named(path):
        cluster = cluster_of(objects, path, labels)
        available = cluster.available(include)
    sizes = [available.summary(), *available.remarks]
    levels = level_labels(objects, path, labels)
    return _Builder(objects, cluster, available, frozenset(include), levels, path).relocation(aims, name, sizes)


@dataclass(slots=True)
class _Asked:
    """The request of a pod: amounts by column, and the nodes that it may have."""

    amounts: dict[str, int]
    mask: BoolArray


@dataclass(slots=True)
class _Builder:
    """Builds the problem from objects."""

    objects: KubernetesObjects
    cluster: Cluster
    available: Cluster
    include: frozenset[str]
    levels: Sequence[str]  # labels from the top downwards
    path: Path
    told: Counter[str] = field(default_factory=Counter)
    stays: Counter[str] = field(default_factory=Counter)
    open: BoolArray = field(init=False)  # whether each node takes pods
    masks: dict[str, BoolArray] = field(default_factory=dict)
    labelled: dict[tuple[str, str], set[int]] = field(default_factory=dict)  # nodes by label and value
    number_of: dict[str, int] = field(init=False)
    nodes: list[Node] = field(init=False)
    columns: list[str] = field(default_factory=list)
    capacity: IntArray = field(init=False)

    def __post_init__(self) -> None:
        by_name = {node.metadata.name: node for node in self.objects.nodes}
        self.nodes = [by_name[name] for name in self.cluster.topology.nodes]
        self.number_of = {name: number for number, name in enumerate(self.cluster.topology.nodes)}
        for number, node in enumerate(self.nodes):
            for pair in _labels(node).items():
                self.labelled.setdefault(pair, set()).add(number)
        self.open = np.array([not (set(node.closed) - self.include) for node in self.nodes], dtype=np.bool_)
        if ALL in self.include:
            self.open[:] = True
        # Commands contain names, so refuse names that a shell could misread.
        odd = next((name for name in self.cluster.topology.nodes if not _NAME.fullmatch(name)), None)
        if odd is not None:
            raise bad_file(self.path, f"has a node with the name {shown(odd)}, which Kubernetes does not allow")

    def relocation(self, aims: Aims, name: str, remarks: Sequence[str]) -> KubernetesRelocation:
        """Return the problem of the aims."""
        policies = Policies.of(self.objects)
        emptied = aims.emptied(self.cluster.topology)
        held = self._held()
        rules = Rules(held, policies)
        units = units_of(held)
        running = [unit for unit in (_part(unit, True) for unit in units) if unit.pods]
        waiting = self._waiting(units, rules, aims)
        leaving = {unit.id: why for unit in running if (why := self._why_stays(unit, rules)) is None}
        ports = {port for unit in (*running, *waiting) for one in unit.pods for port in one.pod.host_ports}
        asked = {
            id(one): self._asked(one, rules, ports, may_get_nodes=unit.id in leaving or not one.node)
            for unit in (*running, *waiting)
            for one in unit.pods
        }
        self._count(running, asked)
        for unit in running:
            if unit.id in leaving and not self._is_uniform(unit, asked):
                leaving.pop(unit.id)
                self.stays["of gangs whose pods have different requests"] += len(unit.pods)
        jobs = self._placed(running, leaving.keys(), rules, asked, aims, waiting)
        gangs = [gang for unit in waiting for gang in self._gangs(unit, rules, asked, aims)]
        racks = aims.free_racks(self.cluster.topology, len(self.columns))
        whole = np.isin(np.array(self.cluster.topology.nodes), np.array(self.available.topology.nodes)) & self.open
        gangs += [WaitingGang(one.id, one.request._replace(masks=one.request.masks & whole)) for one in racks]
        with problem_faults_named(self.path):
            problem = RelocationProblem(
                topology=self.cluster.topology.tree,
                resources=tuple(_NAMES.get(key, key) for key in self.columns),
                capacity=self.capacity,
                running=tuple(jobs),
                waiting=tuple(gangs),
                emptied=emptied,
                name=name,
            )
        return KubernetesRelocation(
            problem=problem,
            nodes=self.cluster.topology,
            remarks=(*remarks, *self._remarks(rules, held)),
            units={unit.id: unit for unit in running if unit.id in leaving},
            drained=tuple(node for node, gone in zip(self.cluster.topology.nodes, emptied, strict=True) if gone),
            policies=policies,
        )

    def _held(self) -> list[HeldPod]:
        """Return the pods that have a node or wait for one, without pods that have ended."""
        bound = {
            f"{one.metadata.namespace}/{one.pod}": one.node
            for one in self.objects.read(BindRequest, "BindRequest")
            if one.phase != "Failed" and one.node
        }
        found: dict[str, HeldPod] = {}
        for where, pod in self.objects.pods:
            for text in (pod.metadata.namespace, pod.metadata.name):
                if not _NAME.fullmatch(text):
                    raise bad_file(where, f"has the name {shown(text)}, which Kubernetes does not allow")
            if pod.id in found:
                raise bad_file(where, f"pod {pod.id} is given twice, first at {found[pod.id].where}")
            node = pod.spec.node or bound.get(pod.id)
            found[pod.id] = HeldPod(pod, where, node or None, is_being_bound=not pod.spec.node and bool(node))
        return [one for one in found.values() if one.pod.phase not in ENDED]

    def _waiting(self, units: Sequence[Unit], rules: Rules, aims: Aims) -> list[Unit]:
        """Return the waiting units that must start."""
        found = []
        for name in dict.fromkeys(aims.start):
            same = [unit for unit in units if name in (unit.id, unit.id.partition("/")[2])]
            exact = [unit for unit in same if unit.id == name] or same
            if len(exact) != 1:
                fault = (
                    f"the name is in several namespaces: {', '.join(unit.id for unit in exact[:3])}" if exact else ""
                )
                raise UsageError(f"--start {name}: {fault or 'no gang or pod of that namespace and name waits'}")
            unit = exact[0]
            if any(one.node for one in unit.pods):
                raise UsageError(f"--start {name}: some of its pods have nodes already")
            for one in unit.pods:
                if one.pod.spec.gates:
                    raise UsageError(f"--start {name}: pod {one.pod.id} has a scheduling gate and may not start now")
                if one.pod.metadata.deleted is not None:
                    raise UsageError(f"--start {name}: pod {one.pod.id} is being deleted")
            if (why := rules.unexpressed(unit)) is not None:
                raise UsageError(f"--start {name}: it has pods {why}, which is not modelled")
            group = rules.policies.groups.get(unit.group)
            if group is not None and group.least > len(unit.pods):
                raise UsageError(f"--start {name}: it needs {group.least} pods, but only {len(unit.pods)} exist")
            found.append(unit)
        return found

    def _why_stays(self, unit: Unit, rules: Rules) -> str | None:
        if any(one.pod.of_node for one in unit.pods):
            return self._stay("of DaemonSets or of the node, or of a gang with such a pod", unit)
        why = rules.unmoved(unit)
        if why is None and any(one.node not in self.number_of for one in unit.pods):
            why = "of gangs with pods on nodes that are left out"
        if why is None and self._most_groups(unit, rules) is None:
            why = "of gangs that must stay within a level which is not modelled"
        return None if why is None else self._stay(why, unit)

    def _stay(self, why: str, unit: Unit) -> str:
        # Pods of DaemonSets and of nodes have their own remark, because every node has them.
        self.stays[why] += sum(one.node in self.number_of and not one.pod.of_node for one in unit.pods)
        return why

    def _most_groups(self, unit: Unit, rules: Rules) -> tuple[int, ...] | None:
        """Return how many groups of each level a unit may span, from the leaves, 0 for any; None if not modelled."""
        below = len(self.cluster.topology.tree.hops) - 1
        label = rules.level(unit)
        if label is None or (label and label not in self.levels):
            return None
        height = len(self.levels) - self.levels.index(label) - 1 if label else below
        return tuple(int(level == height) for level in range(below))

    def _asked(self, one: HeldPod, rules: Rules, ports: Collection[str], *, may_get_nodes: bool) -> _Asked:
        amounts = {key: _units(one.where, key, amount, up=True) for key, amount in one.pod.requests(one.where).items()}
        amounts = {key: amount for key, amount in amounts.items() if amount} | {_PODS: 1}
        amounts |= {f"port {port}": 1 for port in one.pod.host_ports & set(ports)}
        # The nodes that a pod may have do not matter if it stays.
        return _Asked(amounts, self._mask(one.pod, rules) if may_get_nodes else self.open)

    def _mask(self, pod: Pod, rules: Rules) -> BoolArray:
        """Return whether each node is allowed by the tolerations, affinity, selector and volumes of a pod."""
        spec, volumes = pod.spec, rules.volumes(pod)
        required = spec.affinity.of_node if spec.affinity else None
        told = (*(spec.tolerations or ()), *([required] if required else ()), *volumes)
        key = "\n".join([str(sorted((spec.selector or {}).items())), *(one.model_dump_json() for one in told)])
        if key in self.masks:
            return self.masks[key]
        selectors = [*([required] if required else ()), *volumes]
        found = self.open.copy()
        for pair in (spec.selector or {}).items():
            has = np.zeros_like(found)
            has[sorted(self.labelled.get(pair, ()))] = True
            found &= has
        for number in np.flatnonzero(found).tolist():
            node = self.nodes[number]
            labels = _labels(node)
            shut = [one for one in node.shutting if not any(mine.lasts(one) for mine in spec.tolerations or ())]
            away = set(reasons_away(node, shut)) - self.include - set(node.closed)
            is_met = all(one.holds(node.metadata.name, labels) for one in selectors)
            found[number] = is_met and (not away or ALL in self.include)
        self.masks[key] = found
        return found

    def _count(self, running: Sequence[Unit], asked: Mapping[int, _Asked]) -> None:
        """Set the capacity of nodes for the pods of the problem; close nodes that state none, or are overcommitted."""
        places = [f"{self.path}: node {node.metadata.name!r}" for node in self.nodes]
        told = [quantities(place, node.status.allocatable) for place, node in zip(places, self.nodes, strict=True)]
        keys = {key for one in asked.values() for key in one.amounts}
        self.columns = sorted(keys | {_PODS}, key=lambda key: (key not in _NAMES, key))
        column = {key: number for number, key in enumerate(self.columns)}
        self.capacity = np.zeros((len(self.nodes), len(self.columns)), dtype=np.int64)
        used = np.zeros_like(self.capacity)
        for number, amounts in enumerate(told):
            for key, at in column.items():
                missing = Fraction(1 if key.startswith("port ") else _MANY if key == _PODS else 0)
                self.capacity[number, at] = _units(places[number], key, amounts.get(key, missing), up=False)
        for unit in running:
            for one in unit.pods:
                if one.node in self.number_of:
                    of_daemons = one.pod.of_node
                    row = (self.capacity if of_daemons else used)[self.number_of[one.node]]
                    for key, amount in asked[id(one)].amounts.items():
                        row[column[key]] += -amount if of_daemons else amount
        is_silent = np.array([not amounts for amounts in told], dtype=np.bool_)
        is_over = (used > self.capacity).any(axis=1) | (self.capacity < 0).any(axis=1)
        self.told["nodes without allocatable resources, which get no pods"] = int(is_silent.sum())
        self.told["overcommitted nodes, which get no pods"] = int((is_over & ~is_silent).sum())
        self.capacity = np.maximum(self.capacity, used)
        self._close(is_silent | is_over, asked)

    def _close(self, nodes: BoolArray, asked: Mapping[int, _Asked]) -> None:
        self.open &= ~nodes
        masks = {id(one.mask): one.mask for one in asked.values()}
        for mask in masks.values():
            mask &= ~nodes

    def _is_uniform(self, unit: Unit, asked: Mapping[int, _Asked]) -> bool:
        return len(self._kinds(unit, asked)) == 1

    def _kinds(self, unit: Unit, asked: Mapping[int, _Asked]) -> list[list[HeldPod]]:
        """Return the pods of a unit, grouped by equal requests."""
        kinds: dict[tuple[object, bytes], list[HeldPod]] = {}
        for one in unit.pods:
            mine = asked[id(one)]
            kinds.setdefault((tuple(sorted(mine.amounts.items())), mine.mask.tobytes()), []).append(one)
        return list(kinds.values())

    def _request(self, pods: Sequence[HeldPod], asked: Mapping[int, _Asked], most: tuple[int, ...]) -> ClusterRequest:
        mine, count = asked[id(pods[0])], len(pods)
        per_task = np.array([mine.amounts.get(key, 0) for key in self.columns], dtype=np.int64)
        nothing = np.zeros(len(self.columns), dtype=np.int64)
        return ClusterRequest(count, 1, count, count, False, per_task, nothing, mine.mask[None], most, 0)

    def _placed(
        self,
        running: Sequence[Unit],
        leaving: Collection[str],
        rules: Rules,
        asked: Mapping[int, _Asked],
        aims: Aims,
        waiting: Sequence[Unit],
    ) -> list[PlacedJob]:
        """Return the running jobs: one for each unit that may leave, and one for each pod that stays."""
        ranks = sorted({unit.priority for unit in running if unit.id in leaving})
        # A pod of higher priority must not stop: its successor would take the room before the gang does.
        most = min((unit.priority for unit in waiting), default=None)
        below = (0,) * (len(self.cluster.topology.tree.hops) - 1)
        jobs = []
        for unit in running:
            here = [one for one in unit.pods if one.node in self.number_of and not one.pod.of_node]
            if unit.id not in leaving:
                jobs += [
                    PlacedJob(one.pod.id, self._request([one], asked, below), (self._place(one.node, 1),))
                    for one in here
                ]
                continue
            counts = Counter(one.node for one in here)
            cost = float(len(counts) * (1 + ranks.index(unit.priority)))
            is_above = aims.start and most is not None and unit.priority > most
            self.told["gangs and pods of higher priority than those that must start, which may move but not stop"] += (
                bool(is_above)
            )
            jobs.append(
                PlacedJob(
                    id=unit.id,
                    request=self._request(here, asked, self._most_groups(unit, rules) or below),
                    places=tuple(self._place(node, count) for node, count in counts.items()),
                    stop_cost=None if is_above else cost,
                    move_cost=MOVE_SHARE * cost,
                )
            )
        return jobs

    def _place(self, node: str | None, tasks: int) -> NodeTasks:
        return NodeTasks(self.number_of[node or ""], tasks)

    def _gangs(self, unit: Unit, rules: Rules, asked: Mapping[int, _Asked], aims: Aims) -> list[WaitingGang]:
        """Return the gangs of a waiting unit, one for each group of its pods with equal requests."""
        kinds = self._kinds(unit, asked)
        most = self._most_groups(unit, rules)
        if most is None:
            raise UsageError(f"--start {unit.id}: it must stay within a level that is not modelled")
        if len(kinds) > 1 and (any(most) or aims.within is not None):
            raise UsageError(f"--start {unit.id}: its pods have different requests, but must stay within one group")
        gangs = []
        for number, pods in enumerate(kinds, 1):
            request = aims.kept_within(self.cluster.topology, self._request(pods, asked, most))
            gangs.append(WaitingGang(unit.id if number == 1 else f"{unit.id} ({number})", request))
        return gangs

    def _remarks(self, rules: Rules, held: Sequence[HeldPod]) -> list[str]:
        outside = sum(one.node is not None and one.node not in self.number_of for one in held)
        of_nodes = sum(one.pod.of_node and one.node in self.number_of for one in held)
        nominated = sum(one.node is None and bool(one.pod.status.nominated) for one in held)
        unknown = {kind: len(of) for kind, of in self.objects.others.items() if kind not in READ}
        others = ", ".join(f"{printable(kind)} {count}" for kind, count in sorted(unknown.items()))
        is_given = bool(rules.policies.budgets)
        found = [
            *(f"{what}: {count}" for what, count in sorted(self.told.items()) if count),
            *by_reason(self.stays),
            *([f"pods of DaemonSets and of the nodes, subtracted from capacities: {of_nodes}"] if of_nodes else []),
            *([f"pods on nodes that are left out, not counted: {outside}"] if outside else []),
            *(
                [f"waiting pods for which Kubernetes keeps room on a node, not counted: {nominated}"]
                if nominated
                else []
            ),
            *([f"objects of other kinds, ignored: {others}"] if others else []),
        ]
        waiting = sum(one.node is None for one in held)
        if waiting:
            found.append(f"pods that wait, any of which may take room that becomes free: {waiting}")
        if rules.of_unknown_jobs:
            fault = f"pods of Jobs whose retries are not known: {rules.of_unknown_jobs}"
            found.append(f"{fault}; `kubectl get jobs -A -o json` prints them")
        spaces = {one.pod.metadata.namespace for one in held}
        if len(spaces) == 1:
            found.append(f"all pods are of namespace {spaces.pop()}; {_PRINT_PODS}")
        if not is_given:
            found.append("no PodDisruptionBudget is given; `kubectl get pdb -A -o json` prints all")
        return found


def _labels(node: Node) -> dict[str, str]:
    """Return the labels of a node, with its host name even if the file leaves that label out."""
    return {"kubernetes.io/hostname": node.metadata.name, **node.metadata.labels}


def _part(unit: Unit, is_placed: bool) -> Unit:
    """Return the pods of a unit that have a node, or those that have none."""
    return Unit(unit.id, tuple(one for one in unit.pods if (one.node is not None) == is_placed), unit.group)


def _units(where: str, key: str, amount: Fraction, *, up: bool) -> int:
    """Return an amount in whole units of its column: thousandths of cores, MiB of resources given in bytes."""
    scale = Fraction(THOUSANDTHS) if key == "cpu" else Fraction(1, _MIB) if key.startswith(_IN_BYTES) else Fraction(1)
    found = math.ceil(amount * scale) if up else math.floor(amount * scale)
    if found > LARGEST_AMOUNT:
        raise bad_file(f"{where}: {key}", f"is {found}, must be at most 2^41")
    return found
