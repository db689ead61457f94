"""Nodes with GPUs that pods share, arriving pods, and their tables in the openb traces of Alibaba.

https://github.com/alibaba/clusterdata, cluster-trace-gpu-v2023
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocopt.arrays import IntArray
from allocopt.errors import InvalidProblemError
from allocopt.files.csv_rows import csv_rows, number_at_least_0
from allocopt.files.faults import bad_file, problem_faults_named, shown

WHOLE = 1000
"""A whole GPU, in thousandths."""

MOST_GPUS = 62  # per node, because sets of GPUs are bits of an integer


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node whose GPUs pods may share. Raises `InvalidProblemError` if a number is out of its range.

    Parameters
    ----------
    name
        Its name.
    cpu_milli, memory_mib
        Thousandths of a core, and memory in MiB.
    gpus
        Number of GPUs, 0 to 62.
    model
        Model of the GPUs; empty if unknown.
    """

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str = ""

    def __post_init__(self) -> None:
        if min(self.cpu_milli, self.memory_mib, self.gpus) < 0:
            raise InvalidProblemError(f"node {self.name}", "has a negative amount")
        if self.gpus > MOST_GPUS:
            raise InvalidProblemError(f"node {self.name}", f"has {self.gpus} GPUs, must have at most {MOST_GPUS}")


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The request of a pod, on one node. Raises `InvalidProblemError` if a number is out of its range.

    Parameters
    ----------
    cpu_milli, memory_mib
        Thousandths of a core, and memory in MiB.
    gpus
        Number of GPUs; 0 for a pod without any.
    gpu_milli
        Thousandths of each GPU: 1 to 1,000 for one GPU, 1,000 for several, 0 for a pod without GPUs.
    models
        Models of GPUs that it may run on; any if empty.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = 0
    models: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if min(self.cpu_milli, self.memory_mib, self.gpus) < 0:
            raise InvalidProblemError("pod", "asks for a negative amount")
        asked = f"asks for {self.gpu_milli} thousandths of each of {self.gpus} GPUs"
        if not 0 <= self.gpu_milli <= WHOLE or (self.gpus > 0) != (self.gpu_milli > 0):
            raise InvalidProblemError("pod", f"{asked}, must be 1 to {WHOLE} of each")
        if self.gpus > 1 and self.gpu_milli < WHOLE:
            raise InvalidProblemError("pod", f"{asked}, must be all of each GPU if it asks for several")

    @property
    def total_gpu_milli(self) -> int:
        """Sum over its GPUs, in thousandths."""
        return self.gpus * self.gpu_milli


@dataclass(frozen=True, slots=True, eq=False)
class PodList:
    """Pods in order: the distinct requests, and the number of the request of each pod, shape ``(n,)``."""

    requests: tuple[PodRequest, ...]
    request_of: IntArray

    @classmethod
    def of(cls, pods: Sequence[PodRequest]) -> "PodList":
        """Return a list of pods; distinct requests are numbered by first appearance."""
        numbers: dict[PodRequest, int] = {}
        request_of = np.array([numbers.setdefault(pod, len(numbers)) for pod in pods], dtype=np.int64)
        return cls(tuple(numbers), request_of)

    def __len__(self) -> int:
        return len(self.request_of)

    @property
    def gpu_milli(self) -> IntArray:
        """Thousandths of GPUs that each pod asks for, shape ``(n,)``."""
        return self._gpu_milli_by_request[self.request_of]

    @property
    def _gpu_milli_by_request(self) -> IntArray:
        return np.array([request.total_gpu_milli for request in self.requests], dtype=np.int64)

    def arrivals(self, gpu_milli: float, rng: np.random.Generator) -> "PodList":
        """Return pods in random order that together ask for at most ``gpu_milli`` thousandths of GPUs.

        If all pods ask for less, pods drawn with replacement are added until the next one would exceed the amount. If
        they ask for more, random pods are left out. This follows Weng et al. (USENIX ATC 2023, section 6.1). If no pod
        asks for a GPU, none are added.
        """
        order, each = rng.permutation(self.request_of), self._gpu_milli_by_request
        kept, asked = len(order), int(each[order].sum())
        asks_for_gpus = asked > 0
        # The order is random, so leaving out its last pods leaves out random ones.
        while kept and asked > gpu_milli:
            kept -= 1
            asked -= each[order[kept]]
        if kept < len(order) or not asks_for_gpus:
            return PodList(self.requests, order[:kept])
        drawn: list[int] = []
        while True:
            request = int(self.request_of[rng.integers(len(self))])
            if asked + each[request] > gpu_milli:
                return PodList(self.requests, np.append(order, np.array(drawn, dtype=np.int64)))
            drawn.append(request)
            asked += each[request]


def read_gpu_nodes(path: str | Path) -> tuple[GpuNode, ...]:
    """Read a table of nodes (``sn``, ``cpu_milli``, ``memory_mib``, ``gpu``, ``model``). Raises `BadFileError`."""
    path, nodes = Path(path), []
    for place, row in csv_rows(path, ("sn", "cpu_milli", "memory_mib", "gpu"), "nodes"):
        with problem_faults_named(path, place):
            cpu_milli, memory_mib, gpus = _numbers(path, place, row, "gpu")
            nodes.append(GpuNode(row["sn"], cpu_milli, memory_mib, gpus, row.get("model", "")))
    return tuple(nodes)


def read_pods(path: str | Path) -> PodList:
    """Read a table of pods (``cpu_milli``, ``memory_mib``, ``num_gpu``, ``gpu_milli``, ``gpu_spec``).

    Models in ``gpu_spec`` are separated by bars. Raises `BadFileError`.
    """
    path, pods = Path(path), []
    for place, row in csv_rows(path, ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"), "pods"):
        with problem_faults_named(path, place):
            cpu_milli, memory_mib, gpus, gpu_milli = _numbers(path, place, row, "num_gpu", "gpu_milli")
            models = frozenset(map(str.strip, row.get("gpu_spec", "").split("|"))) - {""} if gpus else frozenset()
            pods.append(PodRequest(cpu_milli, memory_mib, gpus, gpu_milli, models))
    return PodList.of(pods)


def _numbers(path: Path, place: str, row: Mapping[str, str], *more: str) -> tuple[int, ...]:
    numbers = []
    for name in ("cpu_milli", "memory_mib", *more):
        number = number_at_least_0(path, place, row, name, "a whole number")
        if number != int(number):
            raise bad_file(path, place, f"{name} is {shown(row[name].strip())}, must be a whole number")
        numbers.append(int(number))
    return tuple(numbers)
