"""The walk of the NSA authors' program in plain Python, to reproduce its costs and its uncompiled run time.

A move removes one or two jobs and places them again in the order of the window, not the largest first. Annealing draws
the first node only among the first 100 idle ones, the same as the network. A rejected move restores the cost but not
the allocation from which the next move starts. The sources are ``simanneal/test_sa.py`` and ``simanneal/anneal.py`` of
the repository that `papers.nsa.authors` names.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from allocopt.arrays import Float32Array
from allocopt.cluster.topology import Topology
from allocopt.learned.nsa.networks import DENSE, FIRST, NETWORKS, Q
from allocopt.learned.nsa.solver import LARGEST_JOB, Nsa, node_features
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.topology import OneShot

HOTTEST, COLDEST = 25.0, 0.0025
"""First and last temperature of the program, in hops; Table I prints a tenth of the first."""
MOST_REMOVED = 2
Choose = Callable[[Sequence[int], Sequence[int], np.random.Generator], int]
"""Takes the idle sequence and the sizes of the removed jobs; returns the first place in the sequence."""


def anywhere(idle: Sequence[int], waiting: Sequence[int], rng: np.random.Generator) -> int:
    """Draw a place uniformly among the first 100 of the idle sequence."""
    return int(rng.integers(min(len(idle), Q)))


Logits = Callable[[Float32Array], Float32Array]


def in_torch(network: str) -> Logits:
    """Return a network in torch, on the processor, for one state of shape ``(features, 100)``."""
    import torch

    from allocopt.learned.nsa.learner import FeedForward

    architecture, packed = Nsa(network).loaded()
    module = FeedForward(architecture)
    with torch.no_grad():
        for layer, first, part in zip(architecture.layers, packed.layers[:, FIRST].tolist(), module, strict=True):
            if not layer.weight_shape:
                continue
            last, end = first + math.prod(layer.weight_shape), first + layer.n_parameters
            values, biases = (torch.from_numpy(packed.weights[i:j].copy()) for i, j in ((first, last), (last, end)))
            # Dense layers are packed input by input.
            is_dense = layer.kind == DENSE
            values = values.reshape(layer.inputs, -1).T if is_dense else values.reshape(layer.weight_shape)
            part.get_parameter("weight").copy_(values)
            part.get_parameter("bias").copy_(biases)

    def logits(state: Float32Array) -> Float32Array:
        with torch.no_grad():
            found: Float32Array = module(torch.from_numpy(state[np.newaxis]))[0].numpy()
        return found

    return logits


def guided(problem: TopologyProblem, network: str, logits: Logits) -> Choose:
    """Return a function that draws a place by a network's probabilities."""
    features, shape = node_features(problem), NETWORKS[network].input

    def choose(idle: Sequence[int], waiting: Sequence[int], rng: np.random.Generator) -> int:
        n = min(len(idle), Q)
        state = np.zeros(shape, dtype=np.float32)
        others = sum(waiting[1:]) / max(len(waiting) - 1, 1)
        state[:2, :n] = features[:, idle[:n]]
        state[2, :n], state[3, :n], state[4:, :n] = waiting[0] / LARGEST_JOB, others / LARGEST_JOB, 1.0
        wanted = logits(state)[:n].astype(np.float64)
        odds = np.cumsum(np.exp(wanted - wanted.max()))
        return min(n - 1, int(np.searchsorted(odds, rng.random() * odds[-1], side="right")))

    return choose


def cost_of(groups: Sequence[Sequence[int]], topology: Topology, hop_cost: float, positions: Sequence[int]) -> float:
    """Return the hop cost of a job at some idle positions; ``groups`` has their groups at the levels below the top."""
    n, hops = len(positions), topology.hops
    total = hops[-1] * n * n - hops[0] * n
    for level, of_level in enumerate(groups):
        squares = sum(count * count for count in Counter(of_level[place] for place in positions).values())
        total -= (hops[level + 1] - hops[level]) * squares
    return total * hop_cost / n / (2 if topology.pairs == "unordered" else 1)


def cost_by_pairs(
    groups: Sequence[Sequence[int]], topology: Topology, hop_cost: float, positions: Sequence[int]
) -> float:
    """Return the same cost as `cost_of`, computed pair by pair as in the program."""
    total = 0
    for one in positions:
        for other in positions:
            if one != other:
                level = 0
                while level < len(groups) and groups[level][one] != groups[level][other]:
                    level += 1
                total += topology.hops[level]
    return total * hop_cost / len(positions) / (2 if topology.pairs == "unordered" else 1)


@dataclass(frozen=True, slots=True)
class InterpretedWalk(OneShot):
    """Anneals like the authors' program, with a network or, without one, at random."""

    steps: int = 500
    network: str | None = None
    # Whether a move computes the costs of all jobs again, by pairs of nodes, as the program does; otherwise only those
    # of moved jobs, by counts
    by_pairs: bool = False

    name: ClassVar[str] = "interpreted-walk"
    strategies: ClassVar[frozenset[Strategy]] = frozenset({Strategy.FREE})

    def allocate(self, problem: TopologyProblem, rng: np.random.Generator) -> Allocation:
        """Walk from the sequential allocation; return the best state."""
        choose = anywhere if self.network is None else guided(problem, self.network, in_torch(self.network))
        sizes, owners = problem.sizes.tolist(), Allocation.sequential(problem).owners(problem).tolist()
        groups, every = problem.topology.groups_of(problem.idle_nodes).tolist(), range(len(sizes))
        measure = cost_by_pairs if self.by_pairs else cost_of

        def cost(job: int) -> float:
            places = [place for place, owner in enumerate(owners) if owner == job]
            return measure(groups, problem.topology, problem.hop_cost, places)

        costs = [cost(job) for job in every]
        accepted = best_cost = sum(costs)
        best, cooling = owners.copy(), math.log(COLDEST / HOTTEST)
        for step in range(1, self.steps + 1):
            removed = _drawn(len(sizes), rng)
            owners[:] = [-1 if owner in removed else owner for owner in owners]
            for number, job in enumerate(removed):
                idle = [place for place, owner in enumerate(owners) if owner < 0]
                first = choose(idle, [sizes[one] for one in removed[number:]], rng)
                for place in (idle + idle)[first : first + sizes[job]]:
                    owners[place] = job
            for job in every if self.by_pairs else removed:
                costs[job] = cost(job)
            total = sum(costs)
            temperature = HOTTEST * problem.hop_cost * math.exp(cooling * step / self.steps)
            if total <= accepted or rng.random() < math.exp((accepted - total) / temperature):
                accepted = total
            if total < best_cost:
                best_cost, best = total, owners.copy()
        return Allocation.of_owners(problem, np.array(best, dtype=np.int64))


def _drawn(n_jobs: int, rng: np.random.Generator) -> list[int]:
    """Draw one or two jobs, in the order of the window."""
    count = min(int(rng.integers(1, MOST_REMOVED + 1)), n_jobs)
    drawn: list[int] = np.sort(rng.choice(n_jobs, count, replace=False)).tolist()
    return drawn
