"""Solver ``nsa``: neural simulated annealing as published (NSA paper, Algorithm 1), without torch.

Annealing whose repair puts each removed job, the largest first, where a trained network says. As published its
reachable set is wider than DCAS (*relaxed*): that is strategy ``free``. Under ``dcas`` a move that leads to a crossing
state is drawn again, some times at most (*strict*).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from allocopt.errors import UsageError
from allocopt.files.faults import bad_file
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.encoding import encode, sequential_allocation
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.topology import TopologySolver
from heuristics.topology.annealing import MOST_JOBS, follow, rules_of, walk_from
from heuristics.topology.schedule import Schedule
from learned.nsa.kernels import Guide, anneal_guided, node_features
from learned.nsa.networks import NETWORKS, Architecture, PackedNetwork, buffers_for, pack
from learned.weights import load_weights, shipped_file

STEPS_PER_SLICE = 100
"""Steps between two looks at the clock: some milliseconds."""
WALKS = ("metropolis", "published")


@dataclass(frozen=True, slots=True)
class Nsa(TopologySolver):
    """Neural simulated annealing; one or two forward passes a step.

    Raises `UsageError` if an option is out of range, or there is no such network, `BadFileError` if a file of
    weights cannot be read.
    """

    # One of the paper's six, ``fcn-1`` to ``cnn-3``, whose weights come along; or a file of weights written by
    # ``allocopt train nsa``
    network: str = "cnn-3"
    # First and last temperature, as multiples of the cost of one hop (Table I: 2,500 and 2.5 at 1,000)
    hottest: float = 2.5
    coldest: float = 0.0025
    steps: int = 500  # Steps where the budget sets no iterations
    most_removed: int = 2  # Jobs removed in a move, at most; n_D in Table I
    # How greedily first nodes are drawn: logits are multiplied by it. 1 draws as the policy was trained; 0.5 is
    # best on windows of a seed that is neither trained on nor evaluated.
    sharpness: float = 0.5
    # ``metropolis`` as Algorithm 1 says, or ``published``: as in the authors' code a rejected move restores the
    # cost but not the allocation (see `heuristics.topology.annealing`)
    walk: str = "metropolis"

    name: ClassVar[str] = "nsa"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.DCAS, Strategy.FREE}), frozenset({Promise.ANYTIME}), f"{MOST_JOBS:,} jobs"
    )

    def __post_init__(self) -> None:
        self._schedule()
        if self.walk not in WALKS:
            raise UsageError(f"walk is {self.walk!r}, must be one of {', '.join(WALKS)}")
        if not 0 <= self.sharpness < float("inf"):
            raise UsageError(f"sharpness is {self.sharpness}, must be finite and not negative")
        weights_path(self.network)

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        n_jobs = len(problem.jobs)
        return None if n_jobs <= MOST_JOBS else f"it has {n_jobs:,} jobs, at most {MOST_JOBS:,} are taken"

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        return (anneal_guided,)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Anneal from the warm start or the sequential allocation; see `TopologySolver.search`."""
        if run.solution is None:
            run.offer(sequential_allocation(problem))
        steps = budget.iterations or self.steps
        rules = rules_of(problem, self._schedule(), steps, restores=self.walk == "metropolis")
        walk, window, guide = walk_from(problem, run.solution), encode(problem), self._guide(problem)
        rng = np.random.default_rng(seed)

        def advance(first: int, end: int) -> None:
            anneal_guided(window, walk, rules, guide, first, end, rng)

        return follow(walk, problem, run, steps, STEPS_PER_SLICE, advance)

    def _schedule(self) -> Schedule:
        return Schedule(self.hottest, self.coldest, self.steps, self.most_removed)

    def _guide(self, problem: TopologyProblem) -> Guide:
        architecture, packed = load_network(weights_path(self.network))
        buffers, nodes = buffers_for(architecture), node_features(problem)
        return Guide(packed, buffers, nodes, *architecture.input, float(self.sharpness))


def weights_path(network: str) -> Path:
    """File of the weights of a network that comes along, or that file itself.

    Raises `UsageError` if there is no such network.
    """
    if network in NETWORKS:
        return shipped_file("nsa", network)
    path = Path(network)
    if path.suffix != ".safetensors":
        raise UsageError(f"there is no network {network!r}; there are {', '.join(NETWORKS)}, or a .safetensors file")
    return path


def load_network(path: Path) -> tuple[Architecture, PackedNetwork]:
    """Return architecture and packed weights of a file.

    Raises `BadFileError` if it cannot be read, or holds no network of the paper.
    """
    weights, card = load_weights(path)
    if card.network not in NETWORKS:
        raise bad_file(path, f"network is {card.network!r}, must be one of {', '.join(NETWORKS)}")
    architecture = NETWORKS[card.network]
    try:
        return architecture, pack(architecture, weights)
    except ValueError as error:
        raise bad_file(path, str(error)) from None
