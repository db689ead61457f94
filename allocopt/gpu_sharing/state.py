"""The state of nodes and requests, as the kernels that place pods take it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import InvalidProblemError
from allocopt.gpu_sharing.pods import WHOLE, GpuNode, PodList, PodRequest
from allocopt.kernels.arrays import FloatMatrix, IntMatrix, Records, record_dtype, record_type

MOST_MODELS = 62  # of all nodes, because sets of models are bits of an integer; one more bit is for unknown models


class NodeRecord(Protocol):
    """A node: its free resources and its capacity."""

    cpu: int  # free thousandths of a core
    memory: int  # free MiB
    all_cpu: int
    all_memory: int
    n_gpus: int
    model: int  # a bit of `RequestRecord.models`
    n_placed: int  # pods placed on it so far
    fragments: float  # see `allocopt.gpu_sharing.kernels.fragments`


class RequestRecord(Protocol):
    """The request of a pod."""

    cpu: int
    memory: int
    n_gpus: int
    gpu_milli: int  # of each GPU
    models: int  # models that it may run on, as bits; 0 for any


class DemandRecord(Protocol):
    """Typical pods with the same request for GPUs: entries ``first`` to ``end`` of `SharedGpus.cpu` and ``shares``."""

    n_gpus: int
    gpu_milli: int
    models: int
    first: int
    end: int


class SharedGpus(NamedTuple):
    """Nodes, ordered by name, and their scores for requests; a score is valid until a pod is placed on the node."""

    nodes: Records[NodeRecord]
    free: IntMatrix  # free thousandths of each GPU, shape ``(nodes, most GPUs of a node)``
    requests: Records[RequestRecord]
    demands: Records[DemandRecord]  # requests of typical pods for GPUs
    cpu: IntArray  # requests of typical pods for cores, in thousandths, ascending within a demand
    shares: FloatArray  # cumulated within a demand: share of the typical pods that ask for at most ``cpu``
    scores: FloatMatrix  # by request and node; -inf if there is no room
    chosen: IntMatrix  # GPUs of the node that the request would get, as bits
    n_placed: IntMatrix  # pods that were on the node when it was scored; -1 before


class FgdState(NamedTuple):
    """Fragmentation gradient descent (Weng et al., ATC 2023)."""

    gpus: SharedGpus


class BestFitState(NamedTuple):
    """Best fit: the node on which the least is left."""

    gpus: SharedGpus


class WeightedState(NamedTuple):
    """A weighted sum of terms."""

    gpus: SharedGpus
    weights: FloatArray  # of `TERMS`


FGD, BEST_FIT, WEIGHTED = record_type(FgdState), record_type(BestFitState), record_type(WeightedState)
"""Numba types of the states."""

TERMS = (
    "fragments_removed",  # by placing the pod, in GPUs; see `allocopt.gpu_sharing.kernels.fragments`
    "fragments_before",  # as a share of the free capacity of the GPUs
    "fragments_after",
    "left_on_gpu",  # share of its GPU that a pod of less than a GPU leaves free; 0 for other pods
    "fills_gpu",  # whether it leaves nothing free
    "opens_gpu",  # whether that GPU was idle
    "idle_gpus",  # idle GPUs afterwards, divided by 8
    "free_gpus",  # free capacity of all GPUs afterwards, divided by 8 GPUs
    "cores_per_gpu",  # c / (c + 8) with c the free cores per free GPU afterwards
    "free_cores",  # share of the cores that are free afterwards
    "free_memory",
    "wanted_model",  # share of typical pods that ask for the model of these GPUs by name
)
"""Terms of `WeightedState` for a pod on a node."""


def shared_gpus(nodes: Sequence[GpuNode], pods: PodList, typical_share: float) -> SharedGpus:
    """Return the state before any pod is placed; nodes must be sorted by name. See `typical_shares` for the share."""
    models = {name: 1 << bit for bit, name in enumerate(sorted({node.model for node in nodes if node.model}))}
    if len(models) > MOST_MODELS:
        raise InvalidProblemError("nodes", f"have {len(models)} models of GPUs, must have at most {MOST_MODELS}")
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
            # All models that no node has share one bit.
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
    keys = ("cpu", "models", "gpu_milli", "n_gpus")  # the last one is the primary key
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
    """Return the share of each request among typical pods, 0 for requests that are not typical.

    The most frequent requests are typical, until they make up ``typical_share`` of all pods. Ties are broken by more
    cores, then more of each GPU, then more GPUs, then by models.
    """
    # Requests that differ only in memory are counted as one, represented by the first of them.
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
