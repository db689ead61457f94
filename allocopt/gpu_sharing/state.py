"""The state of nodes on which pods are placed, as kernels take it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import InvalidProblemError
from allocopt.gpu_sharing.pods import WHOLE, GpuNode, PodList, PodRequest
from allocopt.kernels.arrays import FloatMatrix, IntMatrix, Records, record_dtype, record_type

MOST_MODELS = 62  # of the nodes: sets of models are bits of a number, one of which stands for all others


class NodeRecord(Protocol):
    """What is free on a node, and what it has."""

    cpu: int  # thousandths of a core
    memory: int  # MiB
    all_cpu: int
    all_memory: int
    n_gpus: int
    model: int  # a bit of `RequestRecord.models`
    n_placed: int  # pods placed on it so far
    fragments: float  # see `allocopt.gpu_sharing.kernels.fragments`


class RequestRecord(Protocol):
    """What a pod asks for."""

    cpu: int
    memory: int
    n_gpus: int
    gpu_milli: int  # of each GPU
    models: int  # those that it may run on, as bits; 0 for any


class DemandRecord(Protocol):
    """Typical pods with the same request for GPUs: entries ``first`` to ``end`` of `SharedGpus.cpu` and ``shares``."""

    n_gpus: int
    gpu_milli: int
    models: int
    first: int
    end: int


class SharedGpus(NamedTuple):
    """Nodes, by name, and the scores that nodes have for requests, which hold until a pod is placed on the node."""

    nodes: Records[NodeRecord]
    free: IntMatrix  # thousandths of each GPU that are free, ``(nodes, most GPUs)``
    requests: Records[RequestRecord]
    demands: Records[DemandRecord]  # what typical pods ask for of GPUs
    cpu: IntArray  # cores that typical pods ask for, in thousandths, ascending within a demand
    shares: FloatArray  # of typical pods that ask for a demand and no more cores
    scores: FloatMatrix  # by request and node; -inf where there is no room
    chosen: IntMatrix  # GPUs of the node that the request would get, as bits
    n_placed: IntMatrix  # pods that were on the node when it was scored; -1 before


class FgdState(NamedTuple):
    """Fragmentation gradient descent (Weng et al., ATC 2023)."""

    gpus: SharedGpus


class BestFitState(NamedTuple):
    """The node on which the least is left."""

    gpus: SharedGpus


class WeightedState(NamedTuple):
    """A sum of terms with weights."""

    gpus: SharedGpus
    weights: FloatArray  # of `TERMS`


FGD, BEST_FIT, WEIGHTED = record_type(FgdState), record_type(BestFitState), record_type(WeightedState)
"""Numba types of the states."""

TERMS = (
    "fragments_removed",  # by placing the pod, in GPUs; see `allocopt.gpu_sharing.kernels.fragments`
    "fragments_before",  # share of what is free on the GPUs
    "fragments_after",
    "left_on_gpu",  # share of the GPU that a pod of less than a GPU leaves free; 0 for other pods
    "fills_gpu",  # whether it leaves nothing of it
    "opens_gpu",  # whether nobody has used it
    "idle_gpus",  # GPUs that nobody uses afterwards, of 8
    "free_gpus",  # what is free on all GPUs afterwards, of 8 GPUs
    "cores_per_gpu",  # free cores afterwards for each free GPU, c / (c + 8)
    "free_cores",  # share of the cores that is free afterwards
    "free_memory",
    "wanted_model",  # share of typical pods that ask for the model of these GPUs by name
)
"""Terms of `WeightedState`, of a pod on a node."""


def shared_gpus(nodes: Sequence[GpuNode], pods: PodList, typical_share: float) -> SharedGpus:
    """Return the state before any pod is placed; ``nodes`` must be sorted by name. See `typical_shares`."""
    models = {name: 1 << bit for bit, name in enumerate(sorted({node.model for node in nodes if node.model}))}
    if len(models) > MOST_MODELS:
        raise InvalidProblemError("nodes", f"have {len(models)} models of GPUs, the most taken are {MOST_MODELS}")
    placed: Any = np.zeros(len(nodes), dtype=record_dtype(NodeRecord))
    free = np.zeros((len(nodes), max((node.gpus for node in nodes), default=0)), dtype=np.int64)
    for at, node in enumerate(nodes):
        amounts = node.cpu_milli, node.memory_mib
        placed[at] = (*amounts, *amounts, node.gpus, models.get(node.model, 0), 0, 0.0)
        free[at, : node.gpus] = WHOLE
    requests: Any = np.zeros(len(pods.requests), dtype=record_dtype(RequestRecord))
    for at, one in enumerate(pods.requests):
        accepted = 0
        for name in one.models:
            # All models that no node has share a bit.
            accepted |= models.get(name, 1 << MOST_MODELS)
        requests[at] = (one.cpu_milli, one.memory_mib, one.gpus, one.gpu_milli, accepted)
    shape = (len(pods.requests), len(nodes))
    demands, cpu, shares = _demands(requests, typical_shares(pods, typical_share))
    return SharedGpus(
        nodes=placed,
        free=free,
        requests=requests,
        demands=demands,
        cpu=cpu,
        shares=shares,
        scores=np.full(shape, -np.inf),
        chosen=np.zeros(shape, dtype=np.int64),
        n_placed=np.full(shape, -1, dtype=np.int64),
    )


def _demands(requests: Any, shares: FloatArray) -> tuple[Any, IntArray, FloatArray]:
    typical = np.flatnonzero(shares)
    keys = ("cpu", "models", "gpu_milli", "n_gpus")  # the last one counts first
    typical = typical[np.lexsort([requests[key][typical] for key in keys])]
    asked = np.stack([requests[key][typical] for key in keys[:0:-1]], axis=1)
    begins = np.flatnonzero(np.append(True, (asked[1:] != asked[:-1]).any(axis=1)))[: len(typical)]
    ends = np.append(begins, len(typical))[1:]
    demands: Any = np.zeros(len(begins), dtype=record_dtype(DemandRecord))
    cumulated = np.zeros(len(typical))
    for at, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        demands[at] = (*asked[begin], begin, end)
        cumulated[begin:end] = np.cumsum(shares[typical[begin:end]])
    return demands, requests["cpu"][typical].copy(), cumulated


def typical_shares(pods: PodList, typical_share: float) -> FloatArray:
    """Return the share of each request among typical pods, 0 for those that are not typical; memory does not count.

    Typical are the most frequent requests, until they make up a share of all pods (1 for all of them). Of equally
    frequent ones those with more cores come first, then with more of each GPU, then with more GPUs, then by models.
    """
    # Requests that differ in memory only are one; the first of them stands for all.
    found: dict[PodRequest, list[int]] = {}
    for at, one in enumerate(pods.requests):
        found.setdefault(PodRequest(one.cpu_milli, 0, one.gpus, one.gpu_milli, one.models), []).append(at)
    counts = np.bincount(pods.request_of, minlength=len(pods.requests))

    def key(one: PodRequest) -> tuple[int, int, int, int, str]:
        return int(counts[found[one]].sum()), one.cpu_milli, one.gpu_milli, one.gpus, "|".join(sorted(one.models))

    shares, together = np.zeros(len(pods.requests)), 0
    for one in sorted(found, key=key, reverse=True):
        if together >= typical_share * len(pods):
            break
        shares[found[one][0]] = counts[found[one]].sum()
        together += int(counts[found[one]].sum())
    return shares / max(together, 1)
