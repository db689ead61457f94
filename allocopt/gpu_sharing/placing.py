"""Placement of arriving pods by a policy, and policies by name."""

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
    """A policy that scores nodes for pods."""

    @property
    def name(self) -> str:
        """Name of the policy."""

    @property
    def kernel(self) -> Callable[[Any, IntArray, IntArray, IntArray], None]:
        """Kernel that takes the state, the request of each pod, and arrays for the results.

        It writes the node of each pod and its GPUs as bits, or -1 and 0 if there is no room.
        """

    def state(self, gpus: SharedGpus) -> Any:
        """Return the state that the kernel takes."""


def pod_policy_names() -> list[str]:
    """Return the names of all installed policies, sorted."""
    return plugin_names(GROUP)


def pod_policy(name: str, options: Mapping[str, Any] | None = None) -> PodPolicy:
    """Return the policy of a name, with options; raise `UsageError` if there is none."""
    return cast(PodPolicy, make_plugin(GROUP, "pod policy", name, options, ("kernel", "state")))


class PlacedPods(NamedTuple):
    """Pods in the order of arrival, and where they were placed."""

    pods: PodList
    nodes: IntArray  # number of each pod's node in the order of names; -1 if it was rejected
    chosen: IntArray  # its GPUs on the node, as bits
    gpu_milli: int  # capacity of all GPUs, in thousandths

    @property
    def placed(self) -> BoolArray:
        """Whether each pod was placed, shape ``(n,)``."""
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
    """Place pods as they arrive, each on the node with the highest score; of equal nodes the first by name is taken.

    Parameters
    ----------
    nodes
        The nodes, of which at least one has GPUs.
    pods
        Pods of a typical period, from which policies learn the frequent requests.
    arrivals
        The pods that arrive, with requests of ``pods`` (see `PodList.arrivals`). They never leave.
    policy
        The policy that scores nodes.
    typical_share
        Compute fragments for the most frequent requests that together make up this share of all pods, above 0 to 1.
    """
    if arrivals.requests != pods.requests:
        raise UsageError("arrivals must have the requests of pods: draw them by PodList.arrivals")
    if not 0 < typical_share <= 1:
        raise UsageError(f"typical_share is {typical_share}, must be above 0 and at most 1")
    total = sum(WHOLE * node.gpus for node in nodes)
    if not total:
        raise UsageError("no node has a GPU; at least one must")
    gpus = shared_gpus(sorted(nodes, key=lambda node: node.name), pods, typical_share)
    found: Any = np.full(len(arrivals), NOWHERE, dtype=np.int64)
    chosen = np.zeros(len(arrivals), dtype=np.int64)
    make_ready((policy.kernel,))
    policy.kernel(policy.state(gpus), arrivals.request_of, found, chosen)
    return PlacedPods(arrivals, found, chosen, total)
