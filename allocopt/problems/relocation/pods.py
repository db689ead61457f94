"""Find the pods of Kubernetes that belong together, and those that may leave their nodes.

A pod may leave if its controller recreates it, no policy forbids it, and its requirements of a node can be expressed as
a set of nodes. A pod with any requirement that is not modelled stays. `_WHO_STAYS` and `_WHERE` list the reasons, one
function each.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from allocopt.cluster.kubernetes_objects import KubernetesObjects, Pod
from allocopt.cluster.kubernetes_policies import (
    KAI_NON_PREEMPTIBLE,
    Budget,
    Job,
    PodGroup,
    PriorityClass,
    Volume,
    VolumeClaim,
)
from allocopt.cluster.kubernetes_rules import NodeSelector
from allocopt.cluster.unserved import brief

CONTROLLERS = frozenset(
    (
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
        "Job",
        "JobSet",
        "LeaderWorkerSet",
        "PyTorchJob",
        "TFJob",
        "MPIJob",
        "XGBoostJob",
        "PaddleJob",
        "JAXJob",
        "RayCluster",
        "PodClique",
    )
)
"""Kinds of controllers that recreate a pod after it is deleted."""
_GANG_LABELS = (
    "scheduling.x-k8s.io/pod-group",  # coscheduling, and its older label
    "pod-group.scheduling.sigs.k8s.io",
    "kueue.x-k8s.io/pod-group-name",
    "leaderworkerset.sigs.k8s.io/group-key",
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
)
_GANG_ANNOTATIONS = (
    "scheduling.k8s.io/group-name",  # Volcano
    "scheduling.volcano.sh/group-name",
    "pod-group-name",  # KAI
    "kueue.x-k8s.io/workload",
)
_LEVEL_ANNOTATIONS = ("kueue.x-k8s.io/podset-required-topology", "kai.scheduler/topology-required-placement")
_PART_ANNOTATIONS = (
    "kueue.x-k8s.io/podset-slice-required-topology",
    "kai.scheduler/segment-topology-required-placement",
)
_FRACTIONS = ("gpu-fraction", "gpu-memory")  # annotations of pods that share GPUs by KAI
_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_PREEMPTIBILITY = "kai.scheduler/preemptibility"
_HOSTNAME = "kubernetes.io/hostname"


READ = frozenset(
    (
        "PodDisruptionBudget",
        "PodGroup",
        "PriorityClass",
        "Job",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "BindRequest",
    )
)
"""Kinds of objects that are used, apart from nodes, pods and topologies."""


@dataclass(frozen=True, slots=True)
class HeldPod:
    """A pod, its place in the files, and its node, None if it waits."""

    pod: Pod
    where: str
    node: str | None
    is_being_bound: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that stop, move and start together: a gang, or one pod."""

    id: str
    pods: tuple[HeldPod, ...]
    group: str = ""

    @property
    def priority(self) -> int:
        """Highest priority of its pods."""
        return max(one.pod.spec.priority or 0 for one in self.pods)


@dataclass(slots=True)
class Policies:
    """Contents of the objects other than nodes and pods, by name."""

    budgets: list[Budget] = field(default_factory=list)
    groups: dict[str, PodGroup] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    claims: dict[str, VolumeClaim] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)

    @classmethod
    def of(cls, objects: KubernetesObjects) -> "Policies":
        """Return the policies that the objects state."""
        groups = objects.read(PodGroup, "PodGroup")
        return cls(
            budgets=objects.read(Budget, "PodDisruptionBudget"),
            groups={f"{one.metadata.namespace}/{one.metadata.name}": one for one in groups},
            classes={one.metadata.name: one.value for one in objects.read(PriorityClass, "PriorityClass")},
            # Volcano has a kind Job, too.
            jobs={one.id: one for one in objects.read(Job, "Job") if one.version.startswith("batch/v1")},
            claims={one.id: one for one in objects.read(VolumeClaim, "PersistentVolumeClaim")},
            volumes={one.metadata.name: one for one in objects.read(Volume, "PersistentVolume")},
        )


def units_of(pods: Sequence[HeldPod]) -> list[Unit]:
    """Return the gangs and single pods, with distinct ids.

    Pods belong to the same gang if they share any sign of one, such as a label of coscheduling or of a JobSet.
    """
    above = list(range(len(pods)))

    def top(number: int) -> int:
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    first: dict[tuple[str, str, str], int] = {}
    names: dict[int, str] = {}
    for number, one in enumerate(pods):
        for sign, name in _signs(one.pod):
            key = (one.pod.metadata.namespace, sign, name)
            other = first.setdefault(key, number)
            one_top, other_top = top(number), top(other)
            above[max(one_top, other_top)] = min(one_top, other_top)
            names.setdefault(number, name)
    members: dict[int, list[HeldPod]] = {}
    for number, one in enumerate(pods):
        members.setdefault(top(number), []).append(one)
    made = [
        (f"{held[0].pod.metadata.namespace}/{names[number]}" if number in names else held[0].pod.id, held, number)
        for number, held in members.items()
    ]
    # Pods of gangs that stay are jobs under their own names, so these names must be distinct, too.
    counts = Counter(name for name, _, _ in made)
    counts.update(one.pod.id for _, held, number in made if number in names for one in held)
    return [
        Unit(
            id=name if counts[name] == 1 else f"{name} ({held[0].pod.metadata.name})",
            pods=tuple(held),
            group=f"{held[0].pod.metadata.namespace}/{names[number]}" if number in names else "",
        )
        for name, held, number in made
    ]


def _signs(pod: Pod) -> Iterable[tuple[str, str]]:
    """Yield the signs by which a pod belongs to a gang, and their values."""
    annotations = pod.metadata.annotations or {}
    for keys, of in ((_GANG_ANNOTATIONS, annotations), (_GANG_LABELS, pod.metadata.labels)):
        for key in keys:
            if of.get(key):
                yield key, of[key]
    if pod.spec.workload:
        yield "workloadRef", "/".join(str(value) for _, value in sorted(pod.spec.workload.items()))
    if pod.spec.group:
        yield "schedulingGroup", "/".join(str(value) for _, value in sorted(pod.spec.group.items()))


class Rules:
    """Finds the reasons why units stay, once all pods are known."""

    def __init__(self, pods: Sequence[HeldPod], policies: Policies) -> None:
        self.policies = policies
        terms = {}
        for one in pods:
            affinity = one.pod.spec.affinity
            for term in affinity.terms_apart if affinity else ():
                terms[one.pod.metadata.namespace, term.model_dump_json()] = (one.pod.metadata.namespace, term)
        self._apart = tuple(terms.values())
        self._using: Counter[str] = Counter(claim for one in pods for claim in _claims(one.pod))
        self._of_job: Counter[str] = Counter(name for one in pods if one.node and (name := _job(one.pod)))

    def unmoved(self, unit: Unit) -> str | None:
        """Return why a unit on nodes stays; None if it may leave."""
        for one in unit.pods:
            for rule in _WHO_STAYS:
                if (why := rule(self, one)) is not None:
                    return why if len(unit.pods) == 1 else f"{why}, or of a gang with such a pod"
        return self.unexpressed(unit) or self._of_unit(unit)

    def unexpressed(self, unit: Unit) -> str | None:
        """Return a requirement of a unit for its nodes that is not modelled; None if there is none."""
        return next((why for one in unit.pods for rule in _WHERE if (why := rule(self, one)) is not None), None)

    def volumes(self, pod: Pod) -> list[NodeSelector]:
        """Return selectors of the nodes from which the volumes of a pod can be reached, as far as they are known."""
        found = []
        for name in _claims(pod):
            claim = self.policies.claims.get(name)
            volume = self.policies.volumes.get(claim.volume or "") if claim else None
            if volume and volume.nodes:
                found.append(volume.nodes)
        return found

    def level(self, unit: Unit) -> str | None:
        """Return the label of the level at which a unit must stay within one group.

        The label is empty if there is no such rule, and None if the rule is not modelled.
        """
        labels: set[str] = set()
        for one in unit.pods:
            annotations = one.pod.metadata.annotations or {}
            if any(annotations.get(key) for key in _PART_ANNOTATIONS):
                return None
            labels |= {annotations[key] for key in _LEVEL_ANNOTATIONS if annotations.get(key)}
        group = self.policies.groups.get(unit.group)
        if group is not None:
            if group.network and group.network.get("mode", "hard") == "hard":
                return None
            if any((part.get("topologyConstraint") or {}).get("requiredTopologyLevel") for part in group.parts or ()):
                return None
            if group.topology and group.topology.required:
                labels.add(group.topology.required)
        if len(labels) > 1 or _HOSTNAME in labels:
            return None
        return labels.pop() if labels else ""

    def is_apart(self, pod: Pod) -> bool:
        """Return whether another pod must not be near this one."""
        space, labels = pod.metadata.namespace, pod.metadata.labels
        return any(term.means(own, space, labels) for own, term in self._apart)

    def has_unknown_volume(self, pod: Pod) -> bool:
        """Return whether a pod has a volume for which the nodes that can reach it are not known."""
        if any(volume.ephemeral is not None for volume in pod.spec.volumes or ()):
            return True
        for name in _claims(pod):
            claim = self.policies.claims.get(name)
            if claim is None or not claim.volume or claim.volume not in self.policies.volumes:
                return True
            if not claim.is_shared and self._using[name] > 1:
                return True
        return False

    def is_out_of_retries(self, pod: Pod) -> bool:
        """Return whether the Job of a pod would fail if all its pods were deleted."""
        name = _job(pod)
        job = self.policies.jobs.get(name) if name else None
        return job is not None and self._of_job[name or ""] > job.left

    def _of_unit(self, unit: Unit) -> str | None:
        for budget in self.policies.budgets:
            meant = sum(budget.means(one.pod.metadata.namespace, one.pod.metadata.labels) for one in unit.pods)
            if meant > budget.allowed:
                return "whose PodDisruptionBudget does not allow it"
        if self._is_kept_by_kai(unit):
            return "that KAI does not preempt"
        return None

    def _is_kept_by_kai(self, unit: Unit) -> bool:
        group = self.policies.groups.get(unit.group)
        is_of_kai = group is not None and group.is_of_kai
        of_group = [group.preemptibility] if group is not None and is_of_kai else []
        said = [*of_group, *(one.pod.metadata.labels.get(_PREEMPTIBILITY, "") for one in unit.pods)]
        word = next((one for one in said if one in ("preemptible", "non-preemptible")), "")
        if word or group is None or not is_of_kai:
            return word == "non-preemptible"
        # If the priority class is not given, assume that KAI does not preempt the pods.
        least = KAI_NON_PREEMPTIBLE if group.class_name else 0
        return self.policies.classes.get(group.class_name, least) >= KAI_NON_PREEMPTIBLE

    @property
    def of_unknown_jobs(self) -> int:
        """Number of pods on nodes whose Job is not given, so that its retries are not known."""
        return sum(count for name, count in self._of_job.items() if name not in self.policies.jobs)


Rule = Callable[[Rules, HeldPod], str | None]


def _claims(pod: Pod) -> list[str]:
    volumes = pod.spec.volumes or ()
    return [f"{pod.metadata.namespace}/{volume.claim.claim}" for volume in volumes if volume.claim is not None]


def _job(pod: Pod) -> str | None:
    """Return the Job that made a pod; None if there is none."""
    owner = pod.controller
    return f"{pod.metadata.namespace}/{owner.name}" if owner is not None and owner.kind == "Job" else None


def _is_ending(rules: Rules, one: HeldPod) -> str | None:
    return "that are being deleted" if one.pod.metadata.deleted is not None else None


def _is_being_bound(rules: Rules, one: HeldPod) -> str | None:
    return "that KAI is binding to their nodes" if one.is_being_bound else None


def _has_no_controller(rules: Rules, one: HeldPod) -> str | None:
    owner = one.pod.controller
    if owner is None:
        return "without a controller"
    if owner.kind not in CONTROLLERS:
        return f"of a controller that is not known to recreate them ({brief(owner.kind)})"
    return None


def _is_unsafe(rules: Rules, one: HeldPod) -> str | None:
    said = (one.pod.metadata.annotations or {}).get(_SAFE)
    return "that are not safe to evict" if said is not None and said.strip().lower() == "false" else None


def _is_lost(rules: Rules, one: HeldPod) -> str | None:
    phase = one.pod.phase
    return None if phase in ("Running", "Pending") else f"of phase {brief(phase)}"


def _is_last_try(rules: Rules, one: HeldPod) -> str | None:
    return "of Jobs that have too few retries left" if rules.is_out_of_retries(one.pod) else None


def _shares_gpus(rules: Rules, one: HeldPod) -> str | None:
    annotations = one.pod.metadata.annotations or {}
    return "that share GPUs by KAI" if any(key in annotations for key in _FRACTIONS) else None


def _has_claims(rules: Rules, one: HeldPod) -> str | None:
    return "that have devices by claims (DRA)" if one.pod.spec.claims else None


def _needs_neighbours(rules: Rules, one: HeldPod) -> str | None:
    affinity = one.pod.spec.affinity
    is_bound = affinity is not None and (affinity.terms_near or affinity.terms_apart)
    return "with required affinity or anti-affinity to other pods" if is_bound else None


def _is_unwanted(rules: Rules, one: HeldPod) -> str | None:
    return "that another pod's anti-affinity keeps away" if rules.is_apart(one.pod) else None


def _is_spread(rules: Rules, one: HeldPod) -> str | None:
    is_strict = any(spread.otherwise != "ScheduleAnyway" for spread in one.pod.spec.spread or ())
    return "that have to be spread evenly" if is_strict else None


def _has_unknown_volume(rules: Rules, one: HeldPod) -> str | None:
    return "whose volumes may not be reached from other nodes" if rules.has_unknown_volume(one.pod) else None


_WHO_STAYS: tuple[Rule, ...] = (
    _is_ending,
    _is_being_bound,
    _has_no_controller,
    _is_unsafe,
    _is_lost,
    _is_last_try,
)
"""Rules by which a pod, and its gang, stays regardless of its request."""
_WHERE: tuple[Rule, ...] = (
    _shares_gpus,
    _has_claims,
    _needs_neighbours,
    _is_unwanted,
    _is_spread,
    _has_unknown_volume,
)
"""Rules for requirements of a pod for its node that are not modelled."""


def budget_notes(units: Sequence[Unit], policies: Policies) -> list[str]:
    """Return a line for each disruption budget that allows fewer deletions at once than a plan has."""
    notes = []
    for budget in policies.budgets:
        of_budget = [
            one
            for unit in units
            for one in unit.pods
            if budget.means(one.pod.metadata.namespace, one.pod.metadata.labels)
        ]
        if len(of_budget) > budget.allowed:
            fault = f"{len(of_budget)} pods of PodDisruptionBudget {budget.id} are deleted"
            notes.append(f"{fault}, but it allows only {budget.allowed} at once: wait for new pods in between")
    return notes


def by_reason(told: Mapping[str, int]) -> list[str]:
    """Return a line for each reason why pods stay, with their number."""
    return [f"pods that stay, {reason}: {count}" for reason, count in sorted(told.items()) if count]
