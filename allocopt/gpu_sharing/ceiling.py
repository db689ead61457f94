"""An upper bound on the GPUs that any policy can allocate, from the best packings of nodes with the arriving pods.

The linear program of Gilmore and Gomory (1961) chooses how many nodes of each kind have which packing, with at most as
many pods of a request as arrive. Any prices of requests give a bound: the sum of the prices of all pods, plus for every
node the value of its best packing, if each pod in it counts its worth minus its price. Column generation finds the
prices of the lowest bound.

Packings are relaxed, which keeps the bound valid: memory is ignored, and cores of pods and nodes are rounded down to
halves.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.errors import MissingPackageError
from allocopt.gpu_sharing.pods import WHOLE, GpuNode, PodList
from allocopt.kernels.compiled import helper, kernel
from allocopt.kernels.ready import make_ready

CPU_UNIT = 500  # thousandths of a core
MOST_ROUNDS = 300
CLOSE = 1e-4  # relative gap between bound and linear program at which column generation stops

_NOTHING = -1


@helper()
def _fill_one_gpu(
    cpu: IntArray, takes_whole: BoolArray, parts: IntArray, gains: FloatArray, best: FloatArray, last: IntArray
) -> None:
    """Fill ``best[part, units]`` with the highest worth of pods on this much of a GPU and of cores.

    ``last[part, units]`` is the last of these pods.
    """
    whole = best.shape[0] - 1
    for k in range(cpu.size):
        if takes_whole[k] or gains[k] <= 0.0:
            continue
        for part in range(parts[k], whole + 1):
            for units in range(cpu[k], best.shape[1]):
                offered = best[part - parts[k], units - cpu[k]] + gains[k]
                if offered > best[part, units]:
                    best[part, units], last[part, units] = offered, k


@helper()
def _fill_gpus(
    cpu: IntArray, n_gpus: IntArray, takes_whole: BoolArray, gains: FloatArray, one: FloatArray, best: FloatArray,
    how: IntArray,
) -> None:  # fmt: skip
    """Fill ``best`` with the highest worth of pods by number of GPUs and cores, ``how`` with the last choice.

    A choice below ``n`` is a pod of this request for whole GPUs. Any other choice is the best pods on one GPU with at
    most ``how - n`` units of cores.
    """
    n = cpu.size
    for gpus in range(1, best.shape[0]):
        for units in range(best.shape[1]):
            best[gpus, units] = best[gpus - 1, units]
            for small in range(units + 1):
                offered = best[gpus - 1, units - small] + one[small]
                if offered > best[gpus, units]:
                    best[gpus, units], how[gpus, units] = offered, n + small
            for k in range(n):
                if takes_whole[k] and n_gpus[k] <= gpus and cpu[k] <= units:
                    offered = best[gpus - n_gpus[k], units - cpu[k]] + gains[k]
                    if offered > best[gpus, units]:
                        best[gpus, units], how[gpus, units] = offered, k


@kernel(float64(int64[::1], int64[::1], int64[::1], float64[::1], int64, int64, int64, int64[::1]), allocates=True)
def best_packing(
    cpu: IntArray,  # units of cores of each request
    n_gpus: IntArray,
    parts: IntArray,  # parts of each of its GPUs
    gains: FloatArray,  # worth of a pod of each request
    all_cpu: int,
    all_gpus: int,
    whole: int,  # parts of a whole GPU
    counts: IntArray,
) -> float:
    """Write into ``counts`` the pods of each request in the best packing of a node; return the worth of the packing."""
    n = cpu.size
    one, last = np.zeros((whole + 1, all_cpu + 1)), np.full((whole + 1, all_cpu + 1), _NOTHING)
    best, how = np.zeros((all_gpus + 1, all_cpu + 1)), np.full((all_gpus + 1, all_cpu + 1), _NOTHING)
    takes_whole = np.zeros(n, dtype=np.bool_)
    for k in range(n):
        takes_whole[k], counts[k] = n_gpus[k] > 1 or parts[k] == whole, 0
    _fill_one_gpu(cpu, takes_whole, parts, gains, one, last)
    _fill_gpus(cpu, n_gpus, takes_whole, gains, one[whole], best, how)
    gpus, units = all_gpus, all_cpu
    while gpus > 0:
        k = how[gpus, units]
        if k == _NOTHING:
            gpus -= 1
        elif k < n:
            counts[k] += 1
            gpus, units = gpus - n_gpus[k], units - cpu[k]
        else:
            part, small = whole, k - n
            gpus, units = gpus - 1, units - small
            while last[part, small] != _NOTHING:
                k = last[part, small]
                counts[k] += 1
                part, small = part - parts[k], small - cpu[k]
    return float(best[all_gpus, all_cpu])


class _Requests(NamedTuple):
    """Arriving requests for GPUs, in units; arrays have shape ``(n,)``."""

    cpu: IntArray
    n_gpus: IntArray
    parts: IntArray  # of each of its GPUs
    worth: FloatArray  # thousandths of GPUs
    available: FloatArray  # number of pods that arrive
    models: tuple[frozenset[str], ...]
    whole: int  # parts of a whole GPU

    @classmethod
    def of(cls, arrivals: PodList) -> "_Requests":
        """Return the requests of some pods."""
        arrived = np.bincount(arrivals.request_of, minlength=len(arrivals.requests))
        asking = [at for at, one in enumerate(arrivals.requests) if one.gpus and arrived[at]]
        requests = [arrivals.requests[at] for at in asking]
        part = int(np.gcd.reduce([WHOLE, *(one.gpu_milli for one in requests)]))
        return cls(
            np.array([one.cpu_milli // CPU_UNIT for one in requests], dtype=np.int64),
            np.array([one.gpus for one in requests], dtype=np.int64),
            np.array([one.gpu_milli // part for one in requests], dtype=np.int64),
            np.array([float(one.total_gpu_milli) for one in requests]),
            arrived[asking].astype(np.float64),
            tuple(one.models for one in requests),
            WHOLE // part,
        )

    def run_on(self, model: str) -> BoolArray:
        """Return whether each request may run on GPUs of a model."""
        return np.array([not accepted or model in accepted for accepted in self.models], dtype=np.bool_)


class _Master:
    """The linear program over the packings found so far."""

    def __init__(self, requests: _Requests, counts: FloatArray) -> None:
        self._requests, self._counts = requests, counts
        self._packings: dict[tuple[int, bytes], IntArray] = {}

    def add(self, kind: int, packing: IntArray) -> bool:
        """Add a packing of a kind of node; return whether it is new."""
        key = (kind, packing.tobytes())
        is_new = key not in self._packings
        self._packings[key] = packing
        return is_new

    def solve(self) -> tuple[float, FloatArray]:
        """Return the worth of the best choice of packings, and the dual prices of the requests."""
        try:
            from scipy.optimize import linprog
        except ModuleNotFoundError:
            raise MissingPackageError.of("the ceiling needs", "scipy") from None
        held = np.array(list(self._packings.values()), dtype=np.float64).T
        kinds = np.array([kind for kind, _ in self._packings])
        found: Any = linprog(
            -self._requests.worth @ held,
            A_ub=np.vstack((np.arange(len(self._counts))[:, None] == kinds, held)),
            b_ub=np.append(self._counts, self._requests.available),
            method="highs",
        )
        return -float(found.fun), np.maximum(-found.ineqlin.marginals[len(self._counts) :], 0.0)


def most_allocated(nodes: Sequence[GpuNode], arrivals: PodList) -> float:
    """Return an upper bound, 0 to 1, on the share of the GPUs that a placement of these pods allocates. Needs scipy."""
    make_ready((best_packing,))
    total = sum(WHOLE * node.gpus for node in nodes)
    asked = _Requests.of(arrivals)
    kinds = Counter((node.cpu_milli // CPU_UNIT, node.gpus, node.model) for node in nodes if node.gpus)
    master = _Master(asked, np.array(list(kinds.values()), dtype=np.float64))
    runs = [asked.run_on(model) for _, _, model in kinds]
    prices, lowest = np.zeros(len(asked.worth)), float(total)
    for _ in range(MOST_ROUNDS):
        bound, is_new = float(prices @ asked.available), False
        for kind, ((all_cpu, all_gpus, _), count) in enumerate(kinds.items()):
            packing = np.zeros(len(asked.worth), dtype=np.int64)
            gains = np.where(runs[kind], asked.worth - prices, -1.0)
            worth = best_packing(asked.cpu, asked.n_gpus, asked.parts, gains, all_cpu, all_gpus, asked.whole, packing)
            bound += count * worth
            is_new |= master.add(kind, packing)
        lowest = min(lowest, bound)
        reached, prices = master.solve()
        if not is_new or lowest - reached <= CLOSE * lowest:
            break
    return lowest / total
