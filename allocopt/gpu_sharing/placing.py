"""Placing arriving pods on nodes by a policy; policies are found by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.gpu_sharing.kernels import NOWHERE
from allocopt.gpu_sharing.pods import WHOLE, GpuNode, PodList
from allocopt.gpu_sharing.state import SharedGpus, shared_gpus
from allocopt.kernels.ready import make_ready
from allocopt.plugins import make_plugin, plugin_names

GROUP = "allocopt.pod_policies"


class PodPolicy(Protocol):
    """Scores nodes for pods."""

    @property
    def name(self) -> str:
        """Name of the policy."""

    @property
    def kernel(self) -> Callable[[Any, IntArray, IntArray, IntArray], None]:
        """Kernel that takes the state, the request of each pod, and arrays for the node of each and its GPUs as bits.

        It writes -1 and 0 where there is no room.
        """

    def state(self, gpus: SharedGpus) -> Any:
        """Return the state that the kernel takes."""


def pod_policy_names() -> list[str]:
    """Return the names of all installed policies, sorted."""
    return plugin_names(GROUP)


def pod_policy(name: str, options: Mapping[str, Any] | None = None) -> PodPolicy:
    """Return the policy of a name, with options; raises `UsageError` if there is none."""
    return cast(PodPolicy, make_plugin(GROUP, "pod policy", name, options, ("kernel", "state")))


class PlacedPods(NamedTuple):
    """Pods in the order of arrival, and where they were placed."""

    pods: PodList
    nodes: IntArray  # by number in the order of names; -1 for a pod that found no room
    chosen: IntArray  # GPUs on the node, as bits
    gpu_milli: int  # thousandths of GPUs that there are

    @property
    def placed(self) -> BoolArray:
        """Which pods found room, shape ``(n,)``."""
        found: BoolArray = self.nodes != NOWHERE
        return found

    @property
    def share(self) -> float:
        """Share of the GPUs that is allocated in the end."""
        return float(self.pods.gpu_milli[self.placed].sum()) / self.gpu_milli

    @property
    def allocated(self) -> FloatArray:
        """Share of the GPUs that is allocated after each pod, shape ``(n,)``."""
        held: FloatArray = np.cumsum(np.where(self.placed, self.pods.gpu_milli, 0)) / self.gpu_milli
        return held


def place_pods(
    nodes: Sequence[GpuNode], pods: PodList, arrivals: PodList, policy: PodPolicy, *, typical_share: float = 1.0
) -> PlacedPods:
    """Place pods as they arrive, each on the node with the highest score, of equal ones the first by name.

    Parameters
    ----------
    nodes
        The nodes; some have GPUs.
    pods
        The pods of a usual time, from which policies learn what is asked for often.
    arrivals
        The pods that arrive, with requests of ``pods`` (see `PodList.arrivals`). None ever leaves.
    policy
        What scores nodes.
    typical_share
        Count fragments by the most frequent requests that together make up this share of all pods, above 0 to 1.
    """
    if arrivals.requests != pods.requests:
        raise UsageError("the pods that arrive must be drawn from the pods: PodList.arrivals")
    if not 0 < typical_share <= 1:
        raise UsageError(f"the typical share is {typical_share}, must be above 0 and at most 1")
    total = sum(WHOLE * node.gpus for node in nodes)
    if not total:
        raise UsageError("no node has a GPU")
    gpus = shared_gpus(sorted(nodes, key=lambda node: node.name), pods, typical_share)
    found: Any = np.full(len(arrivals), NOWHERE, dtype=np.int64)
    chosen = np.zeros(len(arrivals), dtype=np.int64)
    make_ready((policy.kernel,))
    policy.kernel(policy.state(gpus), arrivals.request_of, found, chosen)
    return PlacedPods(arrivals, found, chosen, total)
