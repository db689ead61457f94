"""Solver ``nsa``: neural simulated annealing as published (NSA paper, Algorithm 1), without torch.

The repair of the annealing places each removed job, the largest first, where a trained network chooses. As published,
the search may reach states that DCAS forbids (*relaxed*): this is strategy ``free``. Under ``dcas`` a move that leads
to a crossing state is drawn again, up to a limit (*strict*).

A state of the repair (section V-B) is a matrix of ``q`` nodes by 4 or 5 features, stored feature by feature. Features 1
and 2 are the parent switch and pod of each of the first q nodes of the idle sequence, numbered from 1 and divided by
the number of switches or pods. Feature 3 is the number of nodes of the job, feature 4 the mean number of nodes of the
removed jobs that follow, both divided by `LARGEST_JOB`. Feature 5, which the paper does not print, is 1 for every node.
Places without a node hold 0.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from allocopt.arrays import Float32Array, IntArray
from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.heuristics.topology.annealing import MOST_JOBS, Schedule, annealing_kernel, follow_walk
from allocopt.kernels.arrays import record_type
from allocopt.kernels.compiled import helper
from allocopt.learned.nsa.networks import NETWORKS, Architecture, Buffers, PackedNetwork, forward
from allocopt.learned.weights import FOLDER, SUFFIX, Card, load_weights
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.topology import TopologySolver

LARGEST_JOB = 40.0  # Nodes of the largest job of the paper's workload: the scale of the third and fourth feature
STEPS_PER_SLICE = 100  # Steps between two checks of the clock: some milliseconds
WALKS = ("metropolis", "published")


def node_features(problem: TopologyProblem) -> Float32Array:
    """Return switch and pod of every idle node, from 1, divided by the number of switches or pods, shape ``(2, m)``.

    On a topology without groups the values are 1. On trees other than a fat tree the pod is the group just below the
    top.
    """
    groups = problem.topology.groups_of(problem.idle_nodes)
    if not len(groups):
        return np.ones((2, len(problem.idle_nodes)), dtype=np.float32)
    tree = problem.topology
    if isinstance(tree, FatTree):
        counts = np.array([tree.pods * tree.leaves_per_pod, tree.pods])
    else:
        counts = tree.groups_of(np.arange(tree.size)).max(axis=1) + 1
    return np.stack([(groups[level] + 1) / counts[level] for level in (0, -1)]).astype(np.float32)


class _Guide(NamedTuple):
    """Policy that draws the first node of each job."""

    # The policy, and its scratch space
    network: PackedNetwork
    buffers: Buffers
    nodes: Annotated[Float32Array, 2]  # Switch and pod of every idle position as in a state, shape ``(2, m)``
    # Shape of a state: number of features, 4 or 5, and q
    n_features: int
    n_actions: int
    sharpness: float  # Factor of logits before an action is drawn; 1 draws as in the training
    state: Float32Array  # Scratch space for a state


GUIDE = record_type(_Guide)


@helper(allocates=True)
def write_state(
    nodes: Float32Array, idle: IntArray, sizes: IntArray, waiting: IntArray, n_features: int, state: Float32Array
) -> int:
    """Write the state of a repair, shape ``(n_features * q,)``; return the number of legal actions. See `_Guide`.

    ``waiting`` are the removed jobs that are not yet placed again; the first of them is placed next.
    """
    q = state.size // n_features
    n = min(q, idle.size)
    for i in range(n):
        state[i] = nodes[0, idle[i]]
        state[q + i] = nodes[1, idle[i]]
    asked = 0
    for i in range(1, waiting.size):
        asked += sizes[waiting[i]]
    size, others = sizes[waiting[0]] / LARGEST_JOB, asked / max(waiting.size - 1, 1) / LARGEST_JOB
    for feature in range(2, n_features):
        value = size if feature == 2 else (others if feature == 3 else 1.0)
        state[feature * q : feature * q + n] = value
    for feature in range(n_features):
        state[feature * q + n : (feature + 1) * q] = 0.0
    return n


@helper(allocates=True)
def _draw_action(logits: Float32Array, sharpness: float, rng: np.random.Generator) -> int:
    # Draw with probabilities proportional to ``exp(sharpness * logit)``; overwrites the logits.
    highest = logits.max()
    total = 0.0
    for i in range(logits.size):
        total += np.exp(sharpness * (logits[i] - highest))
        logits[i] = total
    below = rng.random() * total
    action = 0
    while action < logits.size - 1 and logits[action] <= below:
        action += 1
    return action


@helper(allocates=True)
def _guided(
    sizes: IntArray,
    jobs: IntArray,
    i: int,
    count: int,
    idle: IntArray,
    n_idle: int,
    guide: _Guide,
    rng: np.random.Generator,
) -> int:
    n = write_state(guide.nodes, idle[:n_idle], sizes, jobs[i:count], guide.n_features, guide.state)
    return _draw_action(forward(guide.network, guide.buffers, guide.state)[:n], guide.sharpness, rng)


anneal_guided = annealing_kernel(_guided, GUIDE)


@dataclass(frozen=True, slots=True)
class Nsa(TopologySolver):
    """Neural simulated annealing; raises `UsageError` for an invalid option, `BadFileError` for invalid weights."""

    # One of the paper's six networks, ``fcn-1`` to ``cnn-3``, whose weights are shipped; or a file of weights written
    # by ``allocopt train nsa``
    network: str = "cnn-3"
    # First and last temperature, as multiples of the cost of one hop (Table I: 2,500 and 2.5 at 1,000)
    hottest: float = 2.5
    coldest: float = 0.0025
    steps: int = 500  # Number of steps if the budget does not limit iterations
    most_removed: int = 2  # Most jobs removed in a move; n_D in Table I
    # Factor of the logits by which a first node is drawn; a larger one is greedier. 1 draws as in the training; 0.5 was
    # best on windows of a seed that is used neither for training nor for evaluation.
    sharpness: float = 0.5
    # ``metropolis``: as in Algorithm 1; ``published``: as in the authors' code, where a rejected move restores the cost
    # but not the allocation (see `allocopt.heuristics.topology.annealing`)
    walk: str = "metropolis"

    name: ClassVar[str] = "nsa"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.DCAS, Strategy.FREE}), frozenset({Promise.ANYTIME}), f"{MOST_JOBS:,} jobs"
    )

    def __post_init__(self) -> None:
        Schedule(self.hottest, self.coldest, self.steps, self.most_removed)
        if self.walk not in WALKS:
            raise UsageError(f"walk is {self.walk!r}, must be one of {', '.join(WALKS)}")
        if not 0 <= self.sharpness < float("inf"):
            raise UsageError(f"sharpness is {self.sharpness}, must be finite and >= 0")
        _weights_path(self.network)

    def refusal(self, problem: TopologyProblem) -> str | None:
        n_jobs = len(problem.jobs)
        return None if n_jobs <= MOST_JOBS else f"it has {n_jobs:,} jobs, at most {MOST_JOBS:,} are taken"

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        return (anneal_guided,)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        if run.solution is None:
            run.offer(Allocation.sequential(problem))
        schedule = Schedule(self.hottest, self.coldest, budget.iterations or self.steps, self.most_removed)
        guide, restores = self._guide(problem), self.walk == "metropolis"
        return follow_walk(problem, run, schedule, seed, anneal_guided, STEPS_PER_SLICE, guide=guide, restores=restores)

    def loaded(self) -> tuple[Architecture, PackedNetwork]:
        """Return architecture and packed weights; raises `BadFileError` if the network is not one of the paper's."""
        return load_weights(_weights_path(self.network), "nsa", _packed)

    def _guide(self, problem: TopologyProblem) -> _Guide:
        architecture, network = self.loaded()
        buffers, nodes = architecture.buffers(), node_features(problem)
        state = np.empty(int(np.prod(architecture.input)), dtype=np.float32)
        return _Guide(network, buffers, nodes, *architecture.input, float(self.sharpness), state)


def _weights_path(network: str) -> Path:
    if network in NETWORKS:
        return FOLDER / f"nsa-{network}{SUFFIX}"
    path = Path(network)
    if path.suffix != ".safetensors":
        raise UsageError(
            f"there is no network {network!r}; must be one of {', '.join(NETWORKS)}, or a .safetensors file"
        )
    return path


def _packed(weights: Mapping[str, Float32Array], card: Card) -> tuple[Architecture, PackedNetwork]:
    if card.network not in NETWORKS:
        raise ValueError(f"network is {card.network!r}, must be one of {', '.join(NETWORKS)}")
    return NETWORKS[card.network], NETWORKS[card.network].pack(weights)
