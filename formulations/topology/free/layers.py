"""Closes the gap between a FREE allocation and the bound of charges: a search over the leaves, pod by pod.

Layer i shares out leaf i among the jobs. A state is, for every job, how many nodes it has in earlier pods and in all
earlier leaves: all that the future needs to know. Under the charges every job has a best way to be completed
alone; what a choice loses against it, and charges that nobody pays, is its *regret*. The saving of an allocation is
the bound of the charges less its regrets, so that only choices whose regrets stay below the distance
from the bound to the best allocation known need to be looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.tree import GroupTree
from formulations.topology.free.kernels import (
    Jobs,
    Kinds,
    Layers,
    Leaves,
    States,
    Work,
    expand_states,
    fill_completions,
)
from formulations.topology.free.pricing import Demand

LARGEST_COMPLETION, LARGEST_FILLING = 20_000_000, 200_000_000
"""Entries of the completion tables, and entries times nodes that a job can take of a leaf: a quarter of a second."""

MOST_JOBS = 60  # jobs, and the idle nodes that are left over, are bits of one integer

ORDERING_S, FILLING_S = 3e-4, 1.25e-9
"""Seconds to bring leaves and jobs into order, and to fill the tables, by entry and node."""

KEY_BITS = 128
FIRST_TABLE = 1 << 10


class Order(StrEnum):
    """In which order the pods come."""

    DEAREST_FIRST = "dearest"  # by the mean charge for their nodes, falling
    LARGEST_FIRST = "largest"  # by their idle nodes, falling
    SMALLEST_FIRST = "smallest"  # by their idle nodes, rising


def takes(tree: GroupTree, demand: Demand) -> bool:
    """Whether the search takes a problem: its levels, jobs, the bits of its states and the size of its tables."""
    entries, filling = _work_to_fill(tree, demand)
    fits = key_fields(demand.sizes) is not None and entries <= LARGEST_COMPLETION and filling <= LARGEST_FILLING
    return fits and len(demand.of_job) <= MOST_JOBS and demand.classes.step.shape[1] <= 3


def seconds_to_fill(tree: GroupTree, demand: Demand) -> float:
    """Return how long `layers_of` takes, about."""
    return ORDERING_S + FILLING_S * _work_to_fill(tree, demand)[1]


def _work_to_fill(tree: GroupTree, demand: Demand) -> tuple[int, int]:
    largest = demand.largest
    entries = len(demand.classes.sizes) * len(tree.leaf_first) * (largest + 1) ** 2
    return entries, entries * min(largest, int(tree.idle[: len(tree.leaf_first) - 1].max()))


def key_fields(sizes: IntArray) -> tuple[IntArray, IntArray, IntArray] | None:
    """Word, shift and half the bits of every job's field in the key of a state; None if they do not fit."""
    word, shift, used, bits = [], [], 0, []
    for size in sizes.tolist():
        width = int(size).bit_length()
        if used // 64 != (used + 2 * width - 1) // 64:
            used = (used // 64 + 1) * 64
        word.append(used // 64)
        shift.append(used % 64)
        bits.append(width)
        used += 2 * width
    if used > KEY_BITS:
        return None
    return np.array(word), np.array(shift), np.array(bits)


def layers_of(tree: GroupTree, demand: Demand, charge: FloatArray, pod_order: Order) -> Layers:
    """Bring leaves and jobs into order, the largest first of jobs and of the leaves in a pod, and fill the tables.

    ``charge`` is a `Charges.table`.
    """
    sizes = demand.sizes
    order = np.lexsort((demand.of_job, -sizes))
    fields = key_fields(sizes[order])
    if fields is None:
        raise ValueError("the fields of the jobs do not fit a key")
    jobs = Jobs(sizes[order], demand.of_job[order], *fields)
    largest = demand.largest
    leaves, vertex = _leaves_of(tree, charge, largest, pod_order)
    # On a tree without pods, every leaf is a pod without rules.
    classes, has_pods = demand.classes, demand.classes.step.shape[1] == 3
    ones = np.ones_like(classes.sizes)
    # An exchange of single nodes would break segments; those of one node, and of the whole job, it keeps.
    is_whole = (classes.step == 1) | (classes.step == classes.sizes[:, None])
    kinds = Kinds(
        sizes=classes.sizes,
        factor=classes.factor,
        leaf_step=classes.step[:, 0].copy(),
        pod_step=classes.step[:, 1].copy() if has_pods else ones,
        leaf_bonus=classes.bonus[:, 0].copy(),
        pod_bonus=classes.bonus[:, 1].copy() if has_pods else np.zeros(len(ones)),
        is_open=np.ascontiguousarray(classes.is_open[classes.area][:, vertex]),
        ruled=classes.ruled,
        is_forest=int(is_whole.all()),
    )
    completion = np.empty((len(kinds.sizes), len(vertex) + 1, largest + 1, largest + 1))
    layers = Layers(leaves, jobs, kinds, completion, vertex, order)
    fill_completions(layers)
    return layers


def _leaves_of(tree: GroupTree, charge: FloatArray, largest: int, pod_order: Order) -> tuple[Leaves, IntArray]:
    first = np.concatenate(([0], np.cumsum(tree.idle + 1)))
    n_leaves = len(tree.leaf_first) - 1
    # A leaf below the top is its own pod.
    pods = np.arange(n_leaves)
    for pod in range(n_leaves, len(tree.idle) - 1):
        pods[tree.children[tree.first_child[pod] : tree.first_child[pod + 1]]] = pod - n_leaves
    n_pods = int(pods.max()) + 1
    income = charge[first[1:] - 1]
    pod_charge, pod_income = np.zeros((n_pods, largest + 1)), np.zeros(n_pods)
    has_pods = n_leaves < len(tree.idle) - 1
    if has_pods:
        pod_income[:] = income[n_leaves:-1]
        for pod in range(n_pods):
            table = charge[first[n_leaves + pod] : first[n_leaves + pod + 1]][: largest + 1]
            pod_charge[pod, : len(table)] = table
    idle = tree.idle[:n_leaves]
    nodes: FloatArray = np.bincount(pods, idle).astype(np.float64)
    rank = {
        Order.DEAREST_FIRST: -(np.bincount(pods, income[:n_leaves]) + pod_income) / nodes,
        Order.LARGEST_FIRST: -nodes,
        Order.SMALLEST_FIRST: nodes,
    }[pod_order]
    vertex = np.lexsort((-idle, pods, rank[pods]))
    leaf_charge = np.zeros((n_leaves, int(idle.max()) + 1))
    for leaf, v in enumerate(vertex.tolist()):
        leaf_charge[leaf, : idle[v] + 1] = charge[first[v] : first[v + 1]]
    leaves = Leaves(
        idle=idle[vertex],
        charge=leaf_charge,
        pod=pods[vertex],
        ends_pod=np.append(np.diff(pods[vertex]) != 0, True).astype(np.int64),
        pod_charge=pod_charge,
        pod_income=pod_income,
        before=np.concatenate(([0], np.cumsum(idle[vertex]))),
        leaf_weight=float(tree.weight[0]),
        pod_weight=float(tree.weight[n_leaves]) if has_pods else 0.0,
    )
    return leaves, vertex


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a search came to."""

    complete: bool  # whether nothing was left out
    most_left: float  # none has less regret than the slack less this; minus infinity if none has less than the slack
    n_states: int
    counts: IntArray | None = None  # of every job on each leaf, in the allocation of least regret


class LayeredSearch:
    """Searches all allocations whose regret is less than a given slack.

    ``widest`` are the idle nodes of the largest leaf. After ``most_states`` it gives up.
    """

    def __init__(self, n_jobs: int, widest: int, most_states: int) -> None:
        self._states = States(
            np.zeros((most_states, 2), dtype=np.uint64),
            np.zeros(most_states),
            np.zeros(most_states, dtype=np.int32),
            np.zeros((most_states, n_jobs), dtype=np.int16),
            np.zeros((most_states, n_jobs + 1), dtype=np.int16),
            np.zeros(max(FIRST_TABLE, 1 << (2 * most_states).bit_length()), dtype=np.int32),
        )
        before, placed, n_options, chosen, field, owner = np.zeros((6, n_jobs), dtype=np.int64)
        most, room, met = np.zeros((3, n_jobs + 1), dtype=np.int64)
        pod_most, slack = np.zeros((2, n_jobs + 1))
        option = np.zeros((n_jobs, widest + 1), dtype=np.int64)
        loss = np.zeros(option.shape)
        self._work = Work(
            *(before, placed, option, loss, n_options, most, pod_most, chosen, room, slack, met, field, owner)
        )
        self.most_states = most_states

    def run(self, layers: Layers, slack: float, may_go_on: Callable[[], bool], limit: int, tried: int) -> Outcome:
        """Look for the allocation of least regret, which is no more than ``slack`` hops.

        It gives up after ``limit`` states, at most ``most_states``. ``may_go_on`` is asked before every slice of so
        many choices that are tried.
        """
        # A new table costs nothing where it is not touched.
        states = self._states = self._states._replace(table=np.zeros(len(self._states.table), dtype=np.int32))
        states.keys[0] = 0
        states.slack[0] = slack
        states.component[0] = np.arange(len(layers.order) + 1)
        first, last, most_left = 0, 1, slack
        for leaf in range(len(layers.vertex)):
            oldest, end, mask = last, last, FIRST_TABLE - 1
            while first < last:
                if not may_go_on():
                    return Outcome(False, most_left, limit)
                first, end, mask = expand_states(
                    layers, states, self._work, leaf, first, last, oldest, end, mask, tried
                )
                if first < 0 or end >= limit:
                    return Outcome(False, most_left, limit)
            if end == oldest:
                return Outcome(True, -np.inf, end)
            first, last = oldest, end
            most_left = float(states.slack[first:last].max())
        return Outcome(True, most_left, last, self._counts(layers, first))

    def _counts(self, layers: Layers, state: int) -> IntArray:
        taken = []
        for _ in layers.vertex:
            taken.append(self._states.taken[state])
            state = int(self._states.parent[state])
        counts = np.zeros((len(layers.order), len(layers.vertex)), dtype=np.int64)
        who = layers.order
        before, placed = np.zeros(len(who), dtype=np.int64), np.zeros(len(who), dtype=np.int64)
        sizes, kind = layers.jobs.sizes, layers.jobs.kind
        run = np.cumsum(np.append(0, kind[1:] != kind[:-1]))
        for leaf, choice in enumerate(reversed(taken)):
            counts[who, layers.vertex[leaf]] = choice
            placed = placed + choice
            is_free = layers.leaves.pod_income[layers.leaves.pod[leaf]] == 0.0
            moved = ((placed == sizes) & is_free) | (layers.leaves.ends_pod[leaf] == 1)
            before = np.where(moved, placed, before)
            resorted = np.lexsort((-placed, -before, run))
            who, before, placed = who[resorted], before[resorted], placed[resorted]
        return counts
