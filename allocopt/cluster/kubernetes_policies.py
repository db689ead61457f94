"""Objects of Kubernetes that decide which pods may be moved: budgets, pod groups, jobs, volumes, bindings."""

from typing import Annotated, Any

from pydantic import AliasPath, Field

from allocopt.cluster.kubernetes_objects import Metadata
from allocopt.cluster.kubernetes_rules import LabelSelector, NodeSelector
from allocopt.files.models import FileModel

KAI_NON_PREEMPTIBLE = 100
"""Lowest priority at which KAI does not preempt a pod group, unless PodGroupSpec.Preemptibility is set."""


class Budget(FileModel, extra="ignore"):
    """A PodDisruptionBudget."""

    metadata: Metadata
    selector: Annotated[LabelSelector | None, Field(validation_alias=AliasPath("spec", "selector"))] = None
    allowed: Annotated[int, Field(validation_alias=AliasPath("status", "disruptionsAllowed"))] = 0

    @property
    def id(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def means(self, namespace: str, labels: dict[str, str]) -> bool:
        """Return whether it covers a pod."""
        return namespace == self.metadata.namespace and self.selector is not None and self.selector.means(labels)


class _TopologyConstraint(FileModel, extra="ignore"):
    required: Annotated[str, Field(validation_alias="requiredTopologyLevel")] = ""


class PodGroup(FileModel, extra="ignore"):
    """A PodGroup of coscheduling, Volcano or KAI; only those of KAI state whether they may be preempted."""

    metadata: Metadata
    version: Annotated[str, Field(validation_alias="apiVersion")] = ""
    preemptibility: Annotated[str, Field(validation_alias=AliasPath("spec", "preemptibility"))] = ""
    least: Annotated[int, Field(validation_alias=AliasPath("spec", "minMember"))] = 0
    class_name: Annotated[str, Field(validation_alias=AliasPath("spec", "priorityClassName"))] = ""
    topology: Annotated[_TopologyConstraint | None, Field(validation_alias=AliasPath("spec", "topologyConstraint"))] = (
        None
    )
    parts: Annotated[list[dict[str, Any]] | None, Field(validation_alias=AliasPath("spec", "subGroups"))] = None
    network: Annotated[dict[str, Any] | None, Field(validation_alias=AliasPath("spec", "networkTopology"))] = None

    @property
    def is_of_kai(self) -> bool:
        """Whether KAI schedules it."""
        return self.version.startswith("scheduling.run.ai/")


class PriorityClass(FileModel, extra="ignore"):
    """A PriorityClass."""

    metadata: Metadata
    value: int = 0


class Job(FileModel, extra="ignore"):
    """A Job of Kubernetes, and how many of its pods may still fail."""

    metadata: Metadata
    version: Annotated[str, Field(validation_alias="apiVersion")] = "batch/v1"
    limit: Annotated[int, Field(validation_alias=AliasPath("spec", "backoffLimit"))] = 6
    per_index: Annotated[int | None, Field(validation_alias=AliasPath("spec", "backoffLimitPerIndex"))] = None
    failed: Annotated[int, Field(validation_alias=AliasPath("status", "failed"))] = 0

    @property
    def id(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def left(self) -> int:
        """Number of its pods that may still fail without the job failing; a deleted pod counts as failed."""
        if self.per_index is not None:
            return min(self.per_index, self.limit)
        return self.limit - self.failed


class VolumeClaim(FileModel, extra="ignore"):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    volume: Annotated[str | None, Field(validation_alias=AliasPath("spec", "volumeName"))] = None
    modes: Annotated[list[str] | None, Field(validation_alias=AliasPath("spec", "accessModes"))] = None

    @property
    def id(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_shared(self) -> bool:
        """Whether pods on several nodes may use it at once."""
        return bool({"ReadWriteMany", "ReadOnlyMany"} & set(self.modes or ()))


class Volume(FileModel, extra="ignore"):
    """A PersistentVolume, and the nodes from which it can be reached."""

    metadata: Metadata
    nodes: Annotated[NodeSelector | None, Field(validation_alias=AliasPath("spec", "nodeAffinity", "required"))] = None


class BindRequest(FileModel, extra="ignore"):
    """A BindRequest of KAI: a pod for which a node was chosen, but which is not bound to it yet."""

    metadata: Metadata
    pod: Annotated[str, Field(validation_alias=AliasPath("spec", "podName"))] = ""
    node: Annotated[str, Field(validation_alias=AliasPath("spec", "selectedNode"))] = ""
    phase: Annotated[str, Field(validation_alias=AliasPath("status", "phase"))] = ""
