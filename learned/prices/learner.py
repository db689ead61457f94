"""The network in torch, windows with their best known allocations, and updates from batches of windows.

The network computes the same as `allocopt.learned.prices.network.predict`, for many windows at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from allocopt.arrays import FloatArray, IntArray
from allocopt.heuristics.topology.lns.kernels import search_neighbourhoods
from allocopt.heuristics.topology.lns.state import EncodedProblem
from allocopt.kernels.insertion import InsertionState, insertion_state
from allocopt.kernels.tree import GroupTree
from allocopt.learned.prices.insertion import dual_bound, imitate, insert_priced
from allocopt.learned.prices.network import SHAPES, Features, Weights, features_of
from allocopt.learned.prices.solver import LnsPrices
from allocopt.learned.rl.algorithms import ModelLearner, descend
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree

# Temperatures, in hops, of a search that starts from a good allocation of many jobs; the same as in the solver
HOTTEST, COLDEST = 0.14, 0.1
MAX_GRAD_NORM = 1.0
LARGEST_FIRST = 4.0  # Initial score of the largest job; those of others are proportional to their nodes


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyper-parameters."""

    # Number of windows in an update, and of large ones in addition
    batch: int = 24
    large_batch: int = 3
    learning_rate: float = 3e-3  # Peak rate; it rises linearly for a twentieth of the updates, then falls as a cosine
    bound_only: float = 0.15  # Share of the updates, at the start, that use only the bound
    samples: int = 4  # Number of orders explored in a window; the second half negates the disturbances of the first
    most_explored: int = 60  # Most jobs of a window whose orders are explored
    worth_noise: float = 0.35  # Standard deviation of disturbances of worths, in hops
    order_noise: float = 0.5  # Standard deviation of disturbances of order scores
    fading: float = 0.5  # See `allocopt.learned.prices.insertion.insert_priced`
    # Weights of the lessons; that of the bound is 1
    imitation: float = 3.0
    exploration: float = 1.0
    destruction: float = 0.05
    # Updates between two searches for a better allocation of a large window, and steps of a search
    improvement_every: int = 4
    improvement_steps: int = 2000


class _PriceNetwork(nn.Module):
    """Predicts prices of leaves and scores of jobs; see `allocopt.learned.prices.network`. It begins at random."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        # Initially prices are low and equal, worths equal the prices, and the largest job comes first.
        scales = {"leaf_in": 1.0, "job_in": 1.0, "scores": 0.05}
        self.parts = nn.ParameterDict()
        for name, shape in SHAPES.items():
            if len(shape) == 1:
                value = torch.tensor([-2.0, 0.0]) if name == "price_bias" else torch.zeros(shape)
            elif name == "price":
                value = torch.randn(shape, generator=generator) * torch.tensor([0.1, 0.0])
            else:
                value = torch.randn(shape, generator=generator)
                value = scales.get(name, 0.5) * (2.0 / shape[0]) ** 0.5 * value
            self.parts[name] = nn.Parameter(value)

    def forward(self, windows: Sequence[Features]) -> tuple[Tensor, Tensor, Tensor]:
        """Return prices and worths of all leaves and scores of all jobs, one window after the other."""

        def joined(name: str) -> Tensor:
            return torch.from_numpy(np.concatenate([getattr(window, name) for window in windows]))

        def pool(rows: Tensor, shares: str, group: Tensor, n_groups: int) -> Tensor:
            shared = joined(shares)[:, None] * rows
            return torch.zeros(n_groups, rows.shape[1]).index_add_(0, group, shared)

        parts, n_windows = self.parts, len(windows)
        n_leaves, n_jobs = ([len(getattr(window, name)) for window in windows] for name in ("leaves", "jobs"))
        n_pods = [int(window.pod.max()) + 1 for window in windows]
        window_of_leaf, window_of_job, window_of_pod = (
            torch.from_numpy(np.repeat(np.arange(n_windows), counts)) for counts in (n_leaves, n_jobs, n_pods)
        )
        # Number the pods of all windows consecutively.
        pod = joined("pod") + torch.from_numpy(np.repeat(np.cumsum([0, *n_pods[:-1]]), n_leaves))
        leaf_features, job_features = joined("leaves"), joined("jobs")
        leaves = torch.relu(leaf_features @ parts["leaf_in"] + parts["leaf_in_bias"])
        jobs = torch.relu(job_features @ parts["job_in"] + parts["job_in_bias"])
        pods = pool(leaves, "pod_share", pod, len(window_of_pod))
        every = pool(leaves, "leaf_share", window_of_leaf, n_windows)
        asked = pool(jobs, "job_share", window_of_job, n_windows)
        of_window = every @ parts["leaf_all"] + asked @ parts["leaf_jobs"] + parts["leaf_bias"]
        of_pods = of_window[window_of_pod] + pods @ parts["leaf_pod"]
        hidden = torch.relu(of_pods[pod] + leaves @ parts["leaf_own"])
        heads = hidden @ parts["price"] + parts["price_bias"]
        prices = softplus(heads[:, 0])
        worths = prices.detach() + heads[:, 1]
        of_window = every @ parts["job_all"] + asked @ parts["job_jobs"] + parts["job_bias"]
        hidden = torch.relu(of_window[window_of_job] + jobs @ parts["job_own"])
        scores = hidden @ parts["scores"] + parts["scores_bias"]
        return prices, worths, scores + torch.stack((LARGEST_FIRST * job_features[:, 2], torch.zeros(len(jobs))), dim=1)

    def weights(self) -> Weights:
        """Return the parameters as arrays."""
        return Weights(*(self.parts[name].detach().numpy().copy() for name in SHAPES))


class Case:
    """A training window, and its best known allocation."""

    def __init__(self, problem: TopologyProblem, known: Allocation) -> None:
        encoding = encode(problem)
        self.problem = problem
        self.tree: GroupTree = group_tree(encoding)
        self.sizes: IntArray = encoding.sizes
        self.distinct, self.multiplicity = np.unique(self.sizes, return_counts=True)
        self.features: Features = features_of(self.tree, self.sizes)
        self.asked = float(self.sizes.sum())
        self.counts = np.zeros((len(self.sizes), len(self.features.leaves)), dtype=np.int64)
        self.learn_of(known)
        self._state = insertion_state(self.tree, int(self.distinct[-1]))._replace(tie_break=0.0)

    def learn_of(self, allocation: Allocation) -> None:
        """Set the best known allocation, and set ``known`` to its nodes by job and leaf."""
        self.allocation = allocation
        leaf = np.empty(len(self.problem.idle_nodes), dtype=np.int64)
        n_leaves = len(self.tree.leaf_first) - 1
        leaf[self.tree.leaf_positions] = np.repeat(np.arange(n_leaves), np.diff(self.tree.leaf_first))
        owners = allocation.owners(self.problem)
        self.known = np.zeros_like(self.counts)
        np.add.at(self.known, (owners[owners >= 0], leaf[owners >= 0]), 1)

    def idle_state(self) -> InsertionState:
        """Return the state in which all nodes are idle."""
        self._state.idle[:] = self.tree.idle
        return self._state

    def bound(self, prices: FloatArray) -> tuple[float, FloatArray]:
        """Return the bound of savings that prices prove, in hops, and its subgradient."""
        spare, alone = np.empty(len(prices)), np.empty(len(self.distinct))
        state = self.idle_state()
        return dual_bound(self.tree, state, self.distinct, self.multiplicity, prices, spare, alone), spare

    def first(self, worth: FloatArray, scores: FloatArray, fading: float) -> float:
        """Return the savings of the first allocation, in hops, and set ``counts`` to its nodes by job and leaf."""
        order = np.argsort(-scores, kind="stable")
        return insert_priced(self.tree, self.idle_state(), self.sizes, order, worth, fading, 0.0, self.counts)

    def savings(self, counts: IntArray) -> FloatArray:
        """Return the savings of every job, in hops, given its nodes of each leaf."""
        every = np.zeros((len(counts), len(self.tree.idle)))
        n_leaves = counts.shape[1]
        every[:, :n_leaves] = counts
        for vertex in range(n_leaves, every.shape[1]):
            children = self.tree.children[self.tree.first_child[vertex] : self.tree.first_child[vertex + 1]]
            every[:, vertex] = every[:, children].sum(axis=1)
        savings: FloatArray = every**2 @ self.tree.weight / self.sizes
        return savings


class PriceLearner(ModelLearner):
    """Learns prices from windows, including large ones; see `allocopt.learned.rl.workers.Learner`."""

    state = (*ModelLearner.state, "_rng", "_samples", "_updates")

    def __init__(self, cases: Sequence[Case], large: Sequence[Case], seed: int) -> None:
        self.network, self._settings = _PriceNetwork(seed), Settings()
        super().__init__(self.network, self._settings.learning_rate)
        self._cases, self._large = cases, large
        self._rng = np.random.default_rng(seed)
        self._samples, self._updates = 0, 0
        self._improved: set[int] = set()

    def rate(self, share: float) -> float:
        """Return the learning rate after a share of the training; it rises linearly and then falls as a cosine."""
        return self._settings.learning_rate * min(1.0, 20 * share + 1e-3) * 0.5 * (1 + math.cos(math.pi * share))

    def update(self, share: float) -> dict[str, float]:
        """Make one update; see `allocopt.learned.rl.workers.Learner.update`."""
        self.set_rate(share)
        settings, rng = self._settings, self._rng
        if self._large and self._updates % settings.improvement_every == 0 and share >= settings.bound_only:
            index = int(rng.integers(len(self._large)))
            case, weights = self._large[index], self.network.weights()
            case.learn_of(_improved(case.problem, case.allocation, weights, settings.improvement_steps, rng))
            self._improved.add(index)
        self._updates += 1
        cases = [self._cases[i] for i in rng.integers(len(self._cases), size=settings.batch)]
        if self._large:
            cases += [self._large[i] for i in rng.integers(len(self._large), size=settings.large_batch)]
        prices, worths, scores = self.network([case.features for case in cases])
        last_leaf = np.cumsum([len(case.features.leaves) for case in cases])
        last_job = np.cumsum([len(case.sizes) for case in cases])
        told = (
            np.split(np.asarray(tensor.detach().numpy(), dtype=np.float64), last[:-1])
            for tensor, last in ((prices, last_leaf), (worths, last_leaf), (scores[:, 0], last_job))
        )
        bound = saved = 0.0
        taught = []
        for case, price, worth, order in zip(cases, *told, strict=True):
            most, spare = case.bound(case.features.unit * price)
            bound += most / (case.asked * max(case.features.unit, 1e-9))
            saving, *gradients = self._lessons(case, worth, order, share)
            saved += saving
            taught.append((spare / case.asked, *gradients))
        # Construct a loss that has these gradients.
        by_prices, by_worths, by_order, moved, is_known = (
            torch.from_numpy(np.concatenate(parts).astype(np.float32)) for parts in zip(*taught, strict=True)
        )
        loss = (prices * by_prices).sum() + (worths * by_worths).sum() + (scores[:, 0] * by_order).sum()
        destruction = binary_cross_entropy_with_logits(scores[:, 1], moved, is_known, reduction="sum")
        loss = (loss + settings.destruction * destruction) / len(cases)
        descend(self._optimizer, self._parameters, loss, MAX_GRAD_NORM)
        self.check_finite()
        self._samples += len(cases)
        means = {"mean_return": float(saved / len(cases)), "bound": float(bound / len(cases))}
        return {"samples": float(self._samples), **means}

    def snapshot(self) -> dict[str, Any]:
        large = {str(index): self._large[index] for index in sorted(self._improved)}
        owners = {index: case.allocation.owners(case.problem) for index, case in large.items()}
        return {**super().snapshot(), "owners": owners}

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        for index, owners in snapshot["owners"].items():
            self._improved.add(int(index))
            case = self._large[int(index)]
            case.learn_of(Allocation.of_owners(case.problem, owners))

    def _lessons(
        self, case: Case, worth: FloatArray, scores: FloatArray, share: float
    ) -> tuple[float, FloatArray, FloatArray, FloatArray, FloatArray]:
        # Return the relative savings of the first allocation, the gradients by worths and by order scores, which jobs
        # must move, and the weight of each job in the loss of the destruction scores.
        settings, unit = self._settings, case.features.unit
        by_worth, (by_order, moved, weights) = np.zeros(len(worth)), np.zeros((3, len(scores)))
        if share < settings.bound_only or unit == 0.0:
            return 0.0, by_worth, by_order, moved, weights
        disturbed = unit * worth + settings.worth_noise * self._rng.standard_normal(len(worth))
        order = np.argsort(-(scores + settings.order_noise * self._rng.standard_normal(len(scores))), kind="stable")
        imitate(case.tree, case.idle_state(), case.sizes, order, disturbed, settings.fading, case.known, by_worth)
        if 1 < len(case.sizes) <= settings.most_explored:
            # Move order scores along the disturbances that led to better allocations.
            noise = self._rng.standard_normal((settings.samples // 2, len(scores)))
            noise = np.vstack((noise, -noise))
            orders = scores + settings.order_noise * noise
            found = np.array([case.first(unit * worth, order, settings.fading) for order in orders])
            gain = settings.exploration * 10.0 * (found - found.mean()) / (case.asked * unit * settings.samples)
            by_order -= gain @ noise / settings.order_noise
        saved = case.first(unit * worth, scores, settings.fading)
        change = np.abs(case.savings(case.known) - case.savings(case.counts))
        moved[:], weights[:] = change > 1e-9, 1.0 / len(case.sizes)
        return saved / (case.asked * unit), settings.imitation * by_worth, by_order, moved, weights


def _improved(
    problem: TopologyProblem, known: Allocation, weights: Weights, steps: int, rng: np.random.Generator
) -> Allocation:
    """Continue the search from the best known allocation, guided by the current network; return the best one found."""
    solver, window, seed = LnsPrices(), EncodedProblem.of(problem), int(rng.integers(2**62))
    moves = solver.moves(len(problem.jobs))
    state, _ = solver.begin_guided(window, weights, moves, seed)
    state = window.moved(state, known, moves)
    cooling = (COLDEST / HOTTEST) ** (1 / steps)
    search_neighbourhoods(state, moves, HOTTEST, cooling, steps)
    return window.allocation(state)
