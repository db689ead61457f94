"""Pods that share GPUs placed from the rules of docs/gpu_sharing.md, one line after the other, without any index.

Free amounts of a node are kept as plain lists. Everything is counted anew for every pod and node.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from allocopt.gpu_sharing.pods import GpuNode, PodRequest


@dataclass
class Free:
    """What is free on a node."""

    node: GpuNode
    cpu: int
    memory: int
    gpus: list[int]

    @classmethod
    def of(cls, node: GpuNode) -> "Free":
        return cls(node, node.cpu_milli, node.memory_mib, [1000] * node.gpus)

    def takes_model(self, pod: PodRequest) -> bool:
        return not pod.models or self.node.model in pod.models

    def ways(self, pod: PodRequest) -> Iterator[tuple[list[int], "Free"]]:
        """Yield the GPUs that a pod may get here, and what is free afterwards."""
        if pod.cpu_milli > self.cpu or pod.memory_mib > self.memory:
            return
        usable = [gpu for gpu, free in enumerate(self.gpus) if free >= pod.gpu_milli]
        if pod.gpus == 0:
            choices: list[list[int]] = [[]]
        elif not self.takes_model(pod) or len(usable) < pod.gpus:
            choices = []
        elif pod.gpus == 1 and pod.gpu_milli < 1000:
            choices = [[gpu] for gpu in usable]
        else:
            choices = [usable[: pod.gpus]]
        for chosen in choices:
            left = [free - pod.gpu_milli * (gpu in chosen) for gpu, free in enumerate(self.gpus)]
            yield chosen, Free(self.node, self.cpu - pod.cpu_milli, self.memory - pod.memory_mib, left)


def typical(pods: Sequence[PodRequest]) -> list[tuple[PodRequest, float]]:
    """Return all requests with their shares; memory does not count."""
    counts = Counter(PodRequest(pod.cpu_milli, 0, pod.gpus, pod.gpu_milli, pod.models) for pod in pods)
    return [(pod, count / len(pods)) for pod, count in counts.items()]


def fragments(free: Free, shares: Sequence[tuple[PodRequest, float]]) -> float:
    """Return the mean over typical pods of what each cannot use of the free GPUs."""
    found = 0.0
    for pod, share in shares:
        usable = [amount for amount in free.gpus if amount >= pod.gpu_milli]
        has_room = pod.cpu_milli <= free.cpu and free.takes_model(pod) and len(usable) >= pod.gpus
        used = sum(usable) if has_room and pod.gpus > 0 else 0
        found += share * (sum(free.gpus) - used)
    return found


Score = Callable[[Free, Free, PodRequest, list[int]], float]
"""Score of what is free before and after, of the pod and of the GPUs that it gets."""


def fgd(shares: Sequence[tuple[PodRequest, float]]) -> Score:
    """Score by the fragments that are removed."""

    def score(before: Free, after: Free, pod: PodRequest, chosen: list[int]) -> float:
        removed = fragments(before, shares) - fragments(after, shares)
        return math.floor(100 / (1 + math.exp(-removed / 1000)) + 1e-9)

    return score


def best_fit(before: Free, after: Free, pod: PodRequest, chosen: list[int]) -> float:
    """Score by what is left; of the GPUs of a node the fullest one is taken."""
    whole = math.floor(100 * (1 - 0.5 * after.cpu / 128_000 - 0.5 * sum(after.gpus) / 8_000) + 1e-9)
    is_small = pod.gpus == 1 and pod.gpu_milli < 1000
    # Less than the 1 by which nodes differ.
    return whole + (0.5 - before.gpus[chosen[0]] / 10_000 if is_small else 0.0)


def weighted(weights: dict[str, float], shares: Sequence[tuple[PodRequest, float]]) -> Score:
    """Score by the sum of terms with weights."""

    def score(before: Free, after: Free, pod: PodRequest, chosen: list[int]) -> float:
        is_small = pod.gpus == 1 and pod.gpu_milli < 1000
        node, free = before.node, sum(after.gpus)
        cores = after.cpu / max(free, 1)
        terms = {
            "fragments_removed": (fragments(before, shares) - fragments(after, shares)) / 1000,
            "fragments_before": fragments(before, shares) / sum(before.gpus) if sum(before.gpus) else 0.0,
            "fragments_after": fragments(after, shares) / free if free else 0.0,
            "left_on_gpu": after.gpus[chosen[0]] / 1000 if is_small else 0.0,
            "fills_gpu": float(is_small and after.gpus[chosen[0]] == 0),
            "opens_gpu": float(is_small and before.gpus[chosen[0]] == 1000),
            "idle_gpus": after.gpus.count(1000) / 8,
            "free_gpus": free / 8000,
            "cores_per_gpu": cores / (cores + 8) if node.gpus else 0.0,
            "free_cores": after.cpu / node.cpu_milli if node.cpu_milli else 0.0,
            "free_memory": after.memory / node.memory_mib if node.memory_mib else 0.0,
            "wanted_model": sum(share for one, share in shares if node.model in one.models),
        }
        assert terms.keys() >= weights.keys()
        return sum(weights.get(name, 0.0) * value for name, value in terms.items())

    return score


def placed(
    nodes: Sequence[GpuNode], arrivals: Sequence[PodRequest], score: Score
) -> list[tuple[str, list[int]] | None]:
    """Return the node and the GPUs of each pod, None where it found no room."""
    state = {node.name: Free.of(node) for node in nodes}
    found: list[tuple[str, list[int]] | None] = []
    for pod in arrivals:
        best: tuple[float, str, list[int], Free] | None = None
        for name in sorted(state):
            for chosen, after in state[name].ways(pod):
                value = score(state[name], after, pod, chosen)
                # Scores of sums that should be equal may differ by rounding.
                if best is None or value > best[0] + 1e-9:
                    best = value, name, chosen, after
        if best is not None:
            state[best[1]] = best[3]
        found.append(None if best is None else (best[1], best[2]))
    return found
