"""Rules of Kubernetes: the nodes on which a pod may be, and the pods that a selector matches."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from allocopt.files.models import FileModel


class Taint(FileModel, extra="ignore"):
    """A taint, which keeps pods off a node."""

    key: str
    value: str = ""
    effect: str = ""


class Toleration(FileModel, extra="ignore"):
    """A toleration, which allows a pod on a node with a taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: Annotated[int | None, Field(validation_alias="tolerationSeconds")] = None

    def covers(self, taint: Taint) -> bool:
        """Return whether pods with this toleration may be on a node with a taint."""
        is_same = self.operator == "Exists" or (self.operator in ("Equal", "") and self.value == taint.value)
        return self.key in ("", taint.key) and self.effect in ("", taint.effect) and is_same

    def lasts(self, taint: Taint) -> bool:
        """Return whether it covers a taint without a limit in seconds, after which the pod would have to leave."""
        return self.covers(taint) and not (taint.effect == "NoExecute" and self.seconds is not None)


class Requirement(FileModel, extra="ignore"):
    """A condition on a label."""

    key: str
    operator: str
    values: list[str] | None = None

    def holds(self, labels: Mapping[str, str], unknown: bool) -> bool:
        """Return whether labels meet it; ``unknown`` is the answer for an unknown operator."""
        value, values = labels.get(self.key), self.values or []
        match self.operator:
            case "In":
                return value in values
            case "NotIn":
                return value not in values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
            case _:
                return unknown

    def _compares(self, value: str | None) -> bool:
        limit = (self.values or [""])[0]
        try:
            mine, other = int(value or ""), int(limit)
        except ValueError:
            return False
        return mine > other if self.operator == "Gt" else mine < other


class NodeTerm(FileModel, extra="ignore"):
    """Conditions on a node, all of which have to hold."""

    labels: Annotated[list[Requirement] | None, Field(validation_alias="matchExpressions")] = None
    fields: Annotated[list[Requirement] | None, Field(validation_alias="matchFields")] = None

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node meets it; no node meets a term without conditions."""
        if not self.labels and not self.fields:
            return False
        of_labels = all(one.holds(labels, False) for one in self.labels or ())
        return of_labels and all(one.holds({"metadata.name": name}, False) for one in self.fields or ())


class NodeSelector(FileModel, extra="ignore"):
    """Terms of which a node has to meet at least one."""

    terms: Annotated[list[NodeTerm] | None, Field(validation_alias="nodeSelectorTerms")] = None

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node meets it."""
        return any(one.holds(name, labels) for one in self.terms or ())


class LabelSelector(FileModel, extra="ignore"):
    """Selects pods by their labels; an empty selector matches all."""

    labels: Annotated[dict[str, str] | None, Field(validation_alias="matchLabels")] = None
    expressions: Annotated[list[Requirement] | None, Field(validation_alias="matchExpressions")] = None

    def means(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pod matches, or may match because a condition is not understood."""
        given = (self.labels or {}).items() <= labels.items()
        return given and all(one.holds(labels, True) for one in self.expressions or ())


class PodTerm(FileModel, extra="ignore"):
    """Pods near which another pod must, or must not, be."""

    selector: Annotated[LabelSelector | None, Field(validation_alias="labelSelector")] = None
    namespaces: list[str] | None = None
    of_spaces: Annotated[LabelSelector | None, Field(validation_alias="namespaceSelector")] = None

    def means(self, own: str, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether this term, of a pod in namespace ``own``, may match a pod with ``labels`` in ``namespace``."""
        named = self.namespaces or ([own] if self.of_spaces is None else [])
        is_there = namespace in named or self.of_spaces is not None
        return is_there and self.selector is not None and self.selector.means(labels)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class NodeAffinity(FileModel, extra="ignore"):
    """Nodes that a pod requires; preferred nodes are not read."""

    required: Annotated[NodeSelector | None, Field(validation_alias=_REQUIRED)] = None


class PodAffinity(FileModel, extra="ignore"):
    """Pods near which a pod must, or must not, be; preferences are not read."""

    required: Annotated[list[PodTerm] | None, Field(validation_alias=_REQUIRED)] = None


class Affinity(FileModel, extra="ignore"):
    """The requirements of a pod for its node, and for pods near it."""

    nodes: Annotated[NodeAffinity | None, Field(validation_alias="nodeAffinity")] = None
    near: Annotated[PodAffinity | None, Field(validation_alias="podAffinity")] = None
    apart: Annotated[PodAffinity | None, Field(validation_alias="podAntiAffinity")] = None

    @property
    def of_node(self) -> NodeSelector | None:
        """The selector of the nodes that it requires; None for any node."""
        return None if self.nodes is None else self.nodes.required

    @property
    def terms_near(self) -> Sequence[PodTerm]:
        """Terms of the pods near which it must be."""
        return () if self.near is None else self.near.required or ()

    @property
    def terms_apart(self) -> Sequence[PodTerm]:
        """Terms of the pods near which it must not be."""
        return () if self.apart is None else self.apart.required or ()


class Spread(FileModel, extra="ignore"):
    """A topology spread constraint; only whether it is strict is read."""

    otherwise: Annotated[str, Field(validation_alias="whenUnsatisfiable")] = "DoNotSchedule"
