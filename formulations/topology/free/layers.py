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
from typing import Annotated, NamedTuple

import numpy as np
from numba import int64, types, void
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray, WordArray
from allocopt.kernels.arrays import FloatMatrix, IntMatrix, record_type
from allocopt.kernels.compiled import inlined, kernel
from allocopt.kernels.insertion import JobClasses
from allocopt.kernels.tree import GroupTree
from formulations.topology.free.pricing import Demand

# Entries of the completion tables, and entries times nodes that a job can take of a leaf: a quarter of a second.
LARGEST_COMPLETION, LARGEST_FILLING = 20_000_000, 200_000_000
MOST_JOBS = 60  # jobs, and the idle nodes that are left over, are bits of one integer
# Seconds to bring leaves and jobs into order, and to fill the tables, by entry and node.
ORDERING_S, FILLING_S = 3e-4, 1.25e-9
KEY_BITS = 128
FIRST_TABLE = 1 << 10

Int32Array = NDArray[np.int32]
Int16Matrix = Annotated[NDArray[np.int16], 2]


class Order(StrEnum):
    """Order of the pods."""

    DEAREST_FIRST = "dearest"  # by the mean charge for their nodes, falling
    LARGEST_FIRST = "largest"  # by their idle nodes, falling
    SMALLEST_FIRST = "smallest"  # by their idle nodes, rising


class _Leaves(NamedTuple):
    """The leaves in the order of the layers, pod by pod; what jobs are charged and save is in hops."""

    idle: IntArray  # shape (N,)
    charge: FloatMatrix  # for so many idle nodes of each leaf, shape (N, widest leaf + 1)
    pod: IntArray  # of each leaf, shape (N,)
    ends_pod: IntArray  # 1 where a leaf is the last one of its pod, shape (N,)
    pod_charge: FloatMatrix  # for so many nodes of each pod, shape (pods, largest job + 1)
    pod_income: FloatArray  # largest sum of these charges that jobs can pay for a pod
    before: IntArray  # idle nodes of the leaves before each one, shape (N + 1,)
    leaf_weight: float  # saving of the squared count of a job in a leaf, times nodes of the job
    pod_weight: float  # and in a pod


class _Jobs(NamedTuple):
    """The jobs in the order of a state's fields, those of a class side by side; all of shape ``(J,)``."""

    sizes: IntArray
    kind: IntArray  # class of each job
    word: IntArray  # word of a state's key in which the field of a job lies
    shift: IntArray  # bit at which it begins there
    bits: IntArray  # half its bits

    @classmethod
    def of(cls, sizes: IntArray, kind: IntArray) -> "_Jobs | None":
        """Lay out the fields of jobs in the key of a state; None if they do not fit."""
        word, shift, used, bits = [], [], 0, []
        for size in sizes.tolist():
            width = int(size).bit_length()
            # No field straddles two words.
            if used // 64 != (used + 2 * width - 1) // 64:
                used = (used // 64 + 1) * 64
            word.append(used // 64)
            shift.append(used % 64)
            bits.append(width)
            used += 2 * width
        return cls(sizes, kind, np.array(word), np.array(shift), np.array(bits)) if used <= KEY_BITS else None


class _States(NamedTuple):
    """All states of all layers, one after the other."""

    keys: Annotated[WordArray, 2]  # by job its nodes in earlier pods and in all earlier leaves, packed, shape (S, 2)
    slack: FloatArray  # what a state may still lose against the bound, in hops
    parent: Int32Array  # state of the layer before from which it was reached
    taken: Int16Matrix  # what each job took of the leaf in between, in the order of the parent's fields, shape (S, J)
    component: Int16Matrix  # see `_expand_states`, shape (S, J + 1)
    table: Int32Array  # hash table of the newest layer: 1 + number of a state, older ones count as empty


class _Work(NamedTuple):
    """Working space of an expansion; row j is that of job j, and J stands for the end.

    An option is what a job may take of the leaf, its loss the regret less what the job then pays for leaf and pod.
    """

    before: IntArray  # nodes in earlier pods
    placed: IntArray  # and in all earlier leaves
    option: IntMatrix  # shape (J, widest leaf + 1)
    loss: FloatMatrix
    n_options: IntArray
    most: IntArray  # the most that the jobs j .. can take together
    pod_most: FloatArray  # and pay for the pod that the leaf ends
    chosen: IntArray  # option that is tried
    room: IntArray  # nodes of the leaf that are left before job j
    slack: FloatArray  # slack if it and the next ones paid nothing
    met: IntArray  # components, one bit each, that have nodes of the leaf before job j chooses
    field: IntArray  # fields of the new state
    owner: IntArray  # old field of the job of each


class Layers(NamedTuple):
    """A problem as the search takes it."""

    leaves: _Leaves  # in the order of the layers
    jobs: _Jobs  # in the order of the fields
    kinds: JobClasses  # on leaves and pods, an area each; openness of leaves in the order of the layers
    is_forest: int  # 1 if no optimal allocation joins jobs in a circle, else 0
    completion: Annotated[FloatArray, 4]  # see `_fill_completions`
    vertex: IntArray  # of the tree, of each leaf
    order: IntArray  # index in the demand of each job

    @staticmethod
    def seconds_to_fill(tree: GroupTree, demand: Demand) -> float:
        """Return how long `of` takes, about; infinity where a problem has too many levels, jobs, bits or entries."""
        largest, n_leaves = demand.largest, len(tree.leaf_first) - 1
        entries = len(demand.classes.sizes) * (n_leaves + 1) * (largest + 1) ** 2
        filling = entries * min(largest, int(tree.idle[:n_leaves].max()))
        fits = entries <= LARGEST_COMPLETION and filling <= LARGEST_FILLING and len(demand.of_job) <= MOST_JOBS
        if not fits or demand.classes.step.shape[1] > 3 or _Jobs.of(demand.sizes, demand.of_job) is None:
            return np.inf
        return ORDERING_S + FILLING_S * filling

    @classmethod
    def of(cls, tree: GroupTree, demand: Demand, charge: FloatArray, pod_order: Order) -> "Layers":
        """Bring jobs and leaves into order, the largest first of jobs and of leaves in a pod, and fill the tables."""
        sizes, classes, largest = demand.sizes, demand.classes, demand.largest
        order = np.lexsort((demand.of_job, -sizes))
        jobs = _Jobs.of(sizes[order], demand.of_job[order])
        if jobs is None:
            raise ValueError("the fields of the jobs do not fit a key")
        n_leaves = len(tree.leaf_first) - 1
        # Of every vertex, for 0 up to all of its idle nodes; a leaf below the top is its own pod.
        tables, pods = np.split(charge, np.cumsum(tree.idle + 1)[:-1]), np.arange(n_leaves)
        for pod in range(n_leaves, len(tree.idle) - 1):
            pods[tree.children[tree.first_child[pod] : tree.first_child[pod + 1]]] = pod - n_leaves
        n_pods, income = int(pods.max()) + 1, np.array([table[-1] for table in tables])
        pod_charge, pod_income = np.zeros((n_pods, largest + 1)), np.zeros(n_pods)
        has_pods = n_leaves < len(tree.idle) - 1
        if has_pods:
            pod_income[:] = income[n_leaves:-1]
            for pod, table in enumerate(tables[n_leaves:-1]):
                pod_charge[pod, : len(table)] = table[: largest + 1]
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
            leaf_charge[leaf, : idle[v] + 1] = tables[v]
        leaves = _Leaves(
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
        # On a tree without pods, every leaf is a pod without rules.
        n_kinds, n_ruled = len(classes.sizes), 2 if classes.step.shape[1] == 3 else 1
        step, bonus = np.ones((n_kinds, 2), dtype=np.int64), np.zeros((n_kinds, 2))
        step[:, :n_ruled], bonus[:, :n_ruled] = classes.step[:, :n_ruled], classes.bonus[:, :n_ruled]
        kinds = classes._replace(
            step=step,
            bonus=bonus,
            area=np.arange(n_kinds),
            is_open=np.ascontiguousarray(classes.is_open[classes.area][:, vertex]),
        )
        # An exchange of single nodes would break segments; those of one node, and of the whole job, it keeps.
        is_whole = (classes.step == 1) | (classes.step == classes.sizes[:, None])
        completion = np.empty((len(kinds.sizes), len(vertex) + 1, largest + 1, largest + 1))
        layers = cls(leaves, jobs, kinds, int(is_whole.all()), completion, vertex, order)
        _fill_completions(layers)
        return layers


LAYERS, STATES, WORK = map(record_type, (Layers, _States, _Work))


@inlined
def _value_of(leaves: _Leaves, kinds: JobClasses, leaf: int, kind: int, in_pod: int, taken: int, placed: int) -> float:
    # What `taken` nodes gain a job with `in_pod` other ones in the pod that has then `placed` so many, charges taken
    # off; minus infinity if it may not.
    size, total = kinds.sizes[kind], in_pod + taken
    squares = leaves.leaf_weight * taken * taken + leaves.pod_weight * taken * (total + in_pod)
    of_pod = leaves.pod_charge[leaves.pod[leaf]]
    saving = squares / size
    if kinds.ruled:
        if taken > 0 and not (kinds.is_open[kind, leaf] and taken % kinds.step[kind, 0] == 0):
            return -np.inf
        if (placed == size or leaves.ends_pod[leaf]) and total % kinds.step[kind, 1] != 0:
            return -np.inf
        saving = kinds.factor[kind] * squares / size
        if taken > 0:
            saving += kinds.bonus[kind, 0] if taken == size else 0.0
            saving += kinds.bonus[kind, 1] if total == size else 0.0
    value: float = saving - leaves.charge[leaf, taken] - of_pod[total] + of_pod[in_pod]
    return value


@kernel(void(LAYERS))
def _fill_completions(layers: Layers) -> None:
    """Fill ``layers.completion``: the most that each job alone can still gain from every leaf on, in hops."""
    leaves, kinds, completion = layers.leaves, layers.kinds, layers.completion
    n_leaves = leaves.idle.size
    for r in range(kinds.sizes.size):
        size = kinds.sizes[r]
        for before in range(size + 1):
            for placed in range(before, size + 1):
                completion[r, n_leaves, before, placed] = 0.0 if placed == size else -np.inf
        for leaf in range(n_leaves - 1, -1, -1):
            for before in range(size + 1):
                for placed in range(before, size + 1):
                    best = -np.inf
                    for taken in range(min(leaves.idle[leaf], size - placed) + 1):
                        after = placed + taken
                        following = completion[r, leaf + 1, after if leaves.ends_pod[leaf] else before, after]
                        following += _value_of(leaves, kinds, leaf, r, placed - before, taken, after)
                        best = max(best, following)
                    completion[r, leaf, before, placed] = best


@inlined
def _list_options(layers: Layers, work: _Work, leaf: int, slack: float) -> None:
    leaves, jobs, kinds = layers.leaves, layers.jobs, layers.kinds
    n_jobs, ends_pod = jobs.sizes.size, leaves.ends_pod[leaf]
    of_pod = leaves.pod_charge[leaves.pod[leaf]]
    work.most[n_jobs] = 0
    work.pod_most[n_jobs] = 0.0
    for job in range(n_jobs - 1, -1, -1):
        size, before, placed, kind = jobs.sizes[job], work.before[job], work.placed[job], jobs.kind[job]
        table = layers.completion[kind]
        best = table[leaf, before, placed]
        count, paid_most = 0, 0.0
        for taken in range(min(leaves.idle[leaf], size - placed) + 1):
            after = placed + taken
            following = table[leaf + 1, after if ends_pod else before, after]
            regret = best - following - _value_of(leaves, kinds, leaf, kind, placed - before, taken, after)
            if regret <= slack:
                paid = of_pod[after - before] if ends_pod else 0.0
                work.option[job, count] = taken
                work.loss[job, count] = regret - paid - leaves.charge[leaf, taken]
                paid_most = max(paid_most, paid)
                count += 1
        work.n_options[job] = count
        work.most[job] = work.most[job + 1] + (work.option[job, count - 1] if count > 0 else 0)
        work.pod_most[job] = work.pod_most[job + 1] + paid_most


@inlined
def _slot_of(states: _States, mask: int, oldest: int, low: np.uint64, high: np.uint64) -> np.int64:
    """Slot of a key among the states from ``oldest`` on, or the empty slot where it belongs."""
    # Open addressing. States of older layers need not be deleted: their numbers tell that their slots are empty.
    mixed = (low ^ (high * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xD6E8FEB86659FD93)
    slot = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))
    while True:
        state = states.table[slot] - 1
        if state < oldest or (states.keys[state, 0] == low and states.keys[state, 1] == high):
            return slot
        slot = (slot + 1) & mask


@inlined
def _keep_state(
    layers: Layers, states: _States, work: _Work, leaf: int, parent: int, mask: int, oldest: int, end: int, met: int
) -> int:
    """Record the state that is chosen, unless it is there with no less slack; return the new end."""
    leaves, jobs, slack = layers.leaves, layers.jobs, work.slack[layers.jobs.sizes.size]
    n_jobs, low, high = jobs.sizes.size, np.uint64(0), np.uint64(0)
    # A job that is complete is the same wherever its nodes are, unless it has still to pay for the pod.
    is_free = leaves.pod_income[leaves.pod[leaf]] == 0.0
    for job in range(n_jobs):
        placed = work.placed[job] + work.option[job, work.chosen[job]]
        moved = leaves.ends_pod[leaf] or (is_free and placed == jobs.sizes[job])
        mine = ((placed if moved else work.before[job]) << jobs.bits[job]) | placed
        # Equal jobs may change places: their fields are kept falling, so that states that differ in nothing else meet.
        i = job
        while i > 0 and jobs.kind[i - 1] == jobs.kind[job] and work.field[i - 1] < mine:
            work.field[i], work.owner[i] = work.field[i - 1], work.owner[i - 1]
            i -= 1
        work.field[i], work.owner[i] = mine, job
    for job in range(n_jobs):
        field = np.uint64(work.field[job]) << np.uint64(jobs.shift[job])
        if jobs.word[job] == 0:
            low |= field
        else:
            high |= field
    slot = _slot_of(states, mask, oldest, low, high)
    state = int(states.table[slot]) - 1
    if state < oldest:
        state = end
        end += 1
        states.table[slot] = state + 1
        states.keys[state, 0] = low
        states.keys[state, 1] = high
    elif states.slack[state] >= slack:
        return end
    states.slack[state] = slack
    states.parent[state] = parent
    # Components that met are joined, and are labelled as the lowest of them.
    lowest = 0
    while met and not (met >> lowest) & 1:
        lowest += 1
    for job in range(n_jobs + 1):
        component = states.component[parent, work.owner[job] if job < n_jobs else n_jobs]
        states.component[state, job] = lowest if (met >> component) & 1 else component
        if job < n_jobs:
            states.taken[state, job] = work.option[job, work.chosen[job]]
    return end


@kernel(types.UniTuple(int64, 3)(LAYERS, STATES, WORK, *(int64,) * 7))
def _expand_states(
    layers: Layers,
    states: _States,
    work: _Work,
    leaf: int,
    first: int,
    last: int,
    oldest: int,  # the next layer's states are oldest .. end - 1 so far
    end: int,
    mask: int,  # size of the hash table in use, less one
    most_tried: int,  # choices after which no other state is begun
) -> tuple[int, int, int]:
    """Share a leaf out among the jobs, from the states ``first .. last - 1`` on.

    Returns the first state that is not expanded, or -1 if that state alone has far too many choices; end and mask
    afterwards. Where the states' array is full, it stops before ``last``, too.
    """
    # A component of the jobs, and last of the idle nodes that are left over, is one of the graph that joins two of them
    # for every leaf that they share. The cost is concave, so that an optimum is at a vertex, whose graph is a forest.
    leaves, jobs = layers.leaves, layers.jobs
    n_jobs, n_leaves = jobs.sizes.size, leaves.idle.size
    spare = leaves.before[n_leaves] - jobs.sizes.sum()
    charge = leaves.charge[leaf]
    income = charge[leaves.idle[leaf]] + (leaves.pod_income[leaves.pod[leaf]] if leaves.ends_pod[leaf] else 0.0)
    tried = 0
    for state in range(first, last):
        if tried > most_tried:
            return state, end, mask
        wasted = leaves.before[leaf]
        for job in range(n_jobs):
            field = np.int64(states.keys[state, jobs.word[job]] >> np.uint64(jobs.shift[job]))
            ones = (1 << jobs.bits[job]) - 1
            work.placed[job], work.before[job] = field & ones, (field >> jobs.bits[job]) & ones
            wasted -= work.placed[job]
        _list_options(layers, work, leaf, states.slack[state])
        work.slack[0], work.room[0], work.met[0] = states.slack[state] - income, leaves.idle[leaf], 0
        job = 0
        work.chosen[0] = -1
        while job >= 0:
            work.chosen[job] += 1
            choice = work.chosen[job]
            if choice == work.n_options[job] or work.option[job, choice] > work.room[job]:
                job -= 1
                continue
            tried += 1
            if tried > 200 * most_tried:
                return -1, end, mask
            taken = work.option[job, choice]
            room = work.room[job] - taken
            met = work.met[job]
            if taken > 0:
                own = 1 << states.component[state, job]
                if met & own and layers.is_forest:
                    # Two jobs that are joined already would share this leaf, too.
                    continue
                met |= own
            slack = work.slack[job] - work.loss[job, choice]
            used = min(room, work.most[job + 1])
            # What the jobs after this one can pay and take at most must keep the regret within the slack, and the idle
            # nodes that nobody takes within those that are left over in the end.
            if slack + charge[used] + work.pod_most[job + 1] < 0.0 or wasted + room - used > spare:
                continue
            if job < n_jobs - 1:
                job += 1
                work.slack[job], work.room[job], work.met[job], work.chosen[job] = slack, room, met, -1
                continue
            if room > 0:
                own = 1 << states.component[state, n_jobs]
                if met & own and layers.is_forest:
                    continue
                met |= own
            if end == states.slack.size:
                return state, end, mask
            # The part of the table that is in use is doubled when it is half full.
            if 2 * (end - oldest) > mask and 2 * mask < states.table.size:
                for empty in range(mask + 1):
                    states.table[empty] = 0
                mask = 2 * mask + 1
                for known in range(oldest, end):
                    slot = _slot_of(states, mask, oldest, states.keys[known, 0], states.keys[known, 1])
                    states.table[slot] = known + 1
            work.slack[n_jobs] = slack
            end = _keep_state(layers, states, work, leaf, state, mask, oldest, end, met)
    return last, end, mask


LAYER_KERNELS = (_fill_completions, _expand_states)  # entries that the search over the leaves calls


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Outcome of a search over the leaves."""

    complete: bool  # whether nothing was left out
    most_left: float  # none has less regret than the slack less this; minus infinity if none has less than the slack
    n_states: int
    counts: IntArray | None = None  # of every job on each leaf, in the allocation of least regret


class LayeredSearch:
    """Searches all allocations whose regret is less than a given slack; after ``most_states`` it gives up."""

    def __init__(self, n_jobs: int, widest: int, most_states: int) -> None:
        self._states = _States(
            keys=np.zeros((most_states, 2), dtype=np.uint64),
            slack=np.zeros(most_states),
            parent=np.zeros(most_states, dtype=np.int32),
            taken=np.zeros((most_states, n_jobs), dtype=np.int16),
            component=np.zeros((most_states, n_jobs + 1), dtype=np.int16),
            table=np.zeros(max(FIRST_TABLE, 1 << (2 * most_states).bit_length()), dtype=np.int32),
        )
        before, placed, n_options, chosen, field, owner = np.zeros((6, n_jobs), dtype=np.int64)
        (most, room, met), (pod_most, slack) = np.zeros((3, n_jobs + 1), dtype=np.int64), np.zeros((2, n_jobs + 1))
        option, loss = np.zeros((n_jobs, widest + 1), dtype=np.int64), np.zeros((n_jobs, widest + 1))
        self._work = _Work(
            *(before, placed, option, loss, n_options, most, pod_most, chosen, room, slack, met, field, owner)
        )
        self.most_states = most_states

    def run(self, layers: Layers, slack: float, may_go_on: Callable[[], bool], limit: int, tried: int) -> Outcome:
        """Look for the allocation of least regret, no more than ``slack`` hops, in ``limit`` states at most."""
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
                first, end, mask = _expand_states(
                    layers, states, self._work, leaf, first, last, oldest, end, mask, tried
                )
                if first < 0 or end >= limit:
                    return Outcome(False, most_left, limit)
            if end == oldest:
                return Outcome(True, -np.inf, end)
            first, last = oldest, end
            most_left = float(states.slack[first:last].max())
        # The choices of the leaves, from the last one back to the first.
        taken, state = [], first
        for _ in layers.vertex:
            taken.append(states.taken[state])
            state = int(states.parent[state])
        who, leaves, jobs = layers.order, layers.leaves, layers.jobs
        counts = np.zeros((len(who), len(layers.vertex)), dtype=np.int64)
        before, placed = np.zeros((2, len(who)), dtype=np.int64)
        run = np.cumsum(np.append(0, jobs.kind[1:] != jobs.kind[:-1]))
        for leaf, choice in enumerate(reversed(taken)):
            counts[who, layers.vertex[leaf]] = choice
            placed = placed + choice
            is_free = leaves.pod_income[leaves.pod[leaf]] == 0.0
            moved = ((placed == jobs.sizes) & is_free) | (leaves.ends_pod[leaf] == 1)
            before = np.where(moved, placed, before)
            resorted = np.lexsort((-placed, -before, run))
            who, before, placed = who[resorted], before[resorted], placed[resorted]
        return Outcome(True, most_left, last, counts)
