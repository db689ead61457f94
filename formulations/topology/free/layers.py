"""A search over the leaves, pod by pod, that closes the gap between a FREE allocation and the bound.

Layer i divides leaf i among the jobs. A state has the number of nodes of every job in earlier pods and in all earlier
leaves, which is all that later layers depend on. Under the charges, every job has a best way to be completed without
other jobs. The *regret* of a choice is what jobs lose against that, plus the charges that no job pays. The saving of an
allocation is the bound of the charges less its regrets. So the search follows only choices whose regrets stay below the
distance between the bound and the best known allocation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple

import numpy as np
from numba import int64, types, void
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray, WordArray
from allocopt.formulations.topology.free.pricing import Demand
from allocopt.kernels.arrays import FloatMatrix, IntMatrix, record_type
from allocopt.kernels.compiled import inlined, kernel
from allocopt.kernels.insertion import JobClasses
from allocopt.kernels.tree import GroupTree

# Most entries of the completion tables; and most entries times nodes that a job can take of a leaf, filled in 0.25 s.
LARGEST_COMPLETION, LARGEST_FILLING = 20_000_000, 200_000_000
MOST_JOBS = 60  # jobs and the leftover are bits of one integer
# Seconds to sort leaves and jobs; and seconds per entry and node to fill the tables.
ORDERING_S, FILLING_S = 3e-4, 1.25e-9
KEY_BITS = 128
FIRST_TABLE = 1 << 10

Int32Array = NDArray[np.int32]
Int16Matrix = Annotated[NDArray[np.int16], 2]


class Order(StrEnum):
    """Order of the pods."""

    DEAREST_FIRST = "dearest"  # by the mean charge for their nodes, decreasing
    LARGEST_FIRST = "largest"  # by their idle nodes, decreasing
    SMALLEST_FIRST = "smallest"  # by their idle nodes, increasing


class _Leaves(NamedTuple):
    """The leaves in the order of the layers, pod by pod; charges and savings are in hops."""

    idle: IntArray  # idle nodes of each leaf, shape (N,)
    charge: FloatMatrix  # charge for k idle nodes of each leaf, shape (N, widest leaf + 1)
    pod: IntArray  # pod of each leaf, shape (N,)
    ends_pod: IntArray  # 1 if a leaf is the last one of its pod, shape (N,)
    pod_charge: FloatMatrix  # charge for k nodes of each pod, shape (pods, largest job + 1)
    pod_income: FloatArray  # largest sum of charges that jobs can pay for a pod
    before: IntArray  # idle nodes of the leaves before each one, shape (N + 1,)
    leaf_weight: float  # saving of a job per squared count in a leaf, times nodes of the job
    pod_weight: float  # saving of a job per squared count in a pod, times nodes of the job


class _Jobs(NamedTuple):
    """The jobs in the order of a state's fields, jobs of a class side by side; all arrays have shape ``(J,)``."""

    sizes: IntArray
    kind: IntArray  # class of each job
    word: IntArray  # word of a state's key that has the field of a job
    shift: IntArray  # first bit of the field in the word
    bits: IntArray  # half the number of bits of the field

    @classmethod
    def of(cls, sizes: IntArray, kind: IntArray) -> "_Jobs | None":
        """Return the layout of the jobs' fields in the key of a state; None if they do not fit."""
        word, shift, used, bits = [], [], 0, []
        for size in sizes.tolist():
            width = int(size).bit_length()
            # A field must not lie in two words.
            if used // 64 != (used + 2 * width - 1) // 64:
                used = (used // 64 + 1) * 64
            word.append(used // 64)
            shift.append(used % 64)
            bits.append(width)
            used += 2 * width
        return cls(sizes, kind, np.array(word), np.array(shift), np.array(bits)) if used <= KEY_BITS else None


class _States(NamedTuple):
    """All states of all layers, one after the other."""

    keys: Annotated[WordArray, 2]  # each job's nodes in earlier pods and in all earlier leaves, packed, shape (S, 2)
    slack: FloatArray  # regret that a state may still have, in hops
    parent: Int32Array  # state of the previous layer from which this one was reached
    taken: Int16Matrix  # nodes that each job took of the leaf in between, in the order of the parent's fields, (S, J)
    component: Int16Matrix  # see `_expand_states`, shape (S, J + 1)
    table: Int32Array  # hash table of the newest layer: 1 + number of a state; older states count as empty


class _Work(NamedTuple):
    """Working space of an expansion; row j is for job j, and row J for the end.

    An option is a number of nodes of the leaf that a job may take. Its loss is the regret less what the job pays for
    leaf and pod.
    """

    before: IntArray  # nodes in earlier pods
    placed: IntArray  # nodes in all earlier leaves
    option: IntMatrix  # shape (J, widest leaf + 1)
    loss: FloatMatrix
    n_options: IntArray
    most: IntArray  # most nodes that jobs j, j + 1, .. can take together
    pod_most: FloatArray  # most that these jobs can pay for the pod that the leaf ends
    chosen: IntArray  # option that is tried
    room: IntArray  # nodes of the leaf that are left for job j
    slack: FloatArray  # slack before job j and those after it pay for the leaf
    met: IntArray  # components, one bit each, that have nodes of the leaf before job j chooses
    field: IntArray  # fields of the new state
    owner: IntArray  # for each new field, the old field of the same job


class Layers(NamedTuple):
    """A problem in the form that the search needs."""

    leaves: _Leaves  # in the order of the layers
    jobs: _Jobs  # in the order of the fields
    kinds: JobClasses  # one area per class, rules for leaves and pods only, open leaves in the order of the layers
    is_forest: int  # 1 if some optimal allocation joins no jobs in a circle, see `_expand_states`, otherwise 0
    completion: Annotated[FloatArray, 4]  # see `_fill_completions`
    vertex: IntArray  # vertex of the tree of each leaf
    order: IntArray  # index in the demand of each job

    @staticmethod
    def seconds_to_fill(tree: GroupTree, demand: Demand) -> float:
        """Return an estimate of the seconds that `of` takes; infinity for too many levels, jobs, bits or entries."""
        largest, n_leaves = demand.largest, len(tree.leaf_first) - 1
        entries = len(demand.classes.sizes) * (n_leaves + 1) * (largest + 1) ** 2
        filling = entries * min(largest, int(tree.idle[:n_leaves].max()))
        fits = entries <= LARGEST_COMPLETION and filling <= LARGEST_FILLING and len(demand.of_job) <= MOST_JOBS
        if not fits or demand.classes.step.shape[1] > 3 or _Jobs.of(demand.sizes, demand.of_job) is None:
            return np.inf
        return ORDERING_S + FILLING_S * filling

    @classmethod
    def of(cls, tree: GroupTree, demand: Demand, charge: FloatArray, pod_order: Order) -> "Layers":
        """Return the layers with filled tables; pods are in the given order, jobs and the leaves in a pod by size."""
        sizes, classes, largest = demand.sizes, demand.classes, demand.largest
        order = np.lexsort((demand.of_job, -sizes))
        jobs = _Jobs.of(sizes[order], demand.of_job[order])
        if jobs is None:
            raise ValueError("the fields of the jobs do not fit a key")
        n_leaves = len(tree.leaf_first) - 1
        # Charges of every vertex for 0 up to all of its idle nodes. A leaf directly below the top is its own pod.
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
        # The proof that a forest suffices exchanges single nodes, so segments must be of one node or of the whole job.
        is_whole = (classes.step == 1) | (classes.step == classes.sizes[:, None])
        completion = np.empty((len(kinds.sizes), len(vertex) + 1, largest + 1, largest + 1))
        layers = cls(leaves, jobs, kinds, int(is_whole.all()), completion, vertex, order)
        _fill_completions(layers)
        return layers


LAYERS, STATES, WORK = map(record_type, (Layers, _States, _Work))


@inlined
def _value_of(leaves: _Leaves, kinds: JobClasses, leaf: int, kind: int, in_pod: int, taken: int, placed: int) -> float:
    # Gain, less charges, of `taken` nodes for a job with `in_pod` other nodes in the pod and `placed` nodes afterwards;
    # minus infinity if a rule forbids it.
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
    """Fill ``layers.completion``: the most that each job gains from every leaf on if no other job is there, in hops."""
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
    """Return the slot of a key among the states from ``oldest`` on, or the empty slot where it belongs."""
    # Open addressing. States of older layers need not be deleted: their lower numbers mark their slots as empty.
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
    """Record the chosen state, unless it exists with at least as much slack; return the new end."""
    leaves, jobs, slack = layers.leaves, layers.jobs, work.slack[layers.jobs.sizes.size]
    n_jobs, low, high = jobs.sizes.size, np.uint64(0), np.uint64(0)
    # The places of a complete job's nodes do not matter any more, unless the job has still to pay for the pod.
    is_free = leaves.pod_income[leaves.pod[leaf]] == 0.0
    for job in range(n_jobs):
        placed = work.placed[job] + work.option[job, work.chosen[job]]
        moved = leaves.ends_pod[leaf] or (is_free and placed == jobs.sizes[job])
        mine = ((placed if moved else work.before[job]) << jobs.bits[job]) | placed
        # Equal jobs are interchangeable, so sort their fields: states that differ only in their order become equal.
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
    # Join the components that share the leaf, under the lowest of their labels.
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
    mask: int,  # size of the used part of the hash table, less one
    most_tried: int,  # choices after which no other state is begun
) -> tuple[int, int, int]:
    """Divide a leaf among the jobs, from the states ``first .. last - 1`` on; return a state, the new end and mask.

    The state is the first one that is not expanded. It lies before ``last`` after ``most_tried`` choices or if the
    array of states is full, and is -1 if a single state has far too many choices.
    """
    # Components are those of the graph in which two jobs are joined for every leaf that they share; the leftover counts
    # as the last job. The cost is concave, so some optimum is at a vertex of the polytope of allocations, and there the
    # graph is a forest.
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
                    # Two jobs that are already joined would share this leaf, which closes a circle.
                    continue
                met |= own
            slack = work.slack[job] - work.loss[job, choice]
            used = min(room, work.most[job + 1])
            # Skip the choice if, with all that later jobs can pay and take, the regret exceeds the slack or more nodes
            # stay idle than the leftover has.
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
            # Double the used part of the hash table when it is half full.
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


# Compiled functions that the search over the leaves calls from Python.
LAYER_KERNELS = (_fill_completions, _expand_states)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Outcome of a search over the leaves."""

    complete: bool  # whether the search was exhaustive
    most_left: float  # no allocation has a regret below the slack less this; -inf if none is within the slack
    n_states: int
    counts: IntArray | None = None  # nodes of every job on each leaf, in the allocation of least regret


class LayeredSearch:
    """Searches all allocations whose regret is within a given slack, in at most ``most_states`` states."""

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
        """Search for the allocation of least regret, at most ``slack`` hops, in at most ``limit`` states.

        ``may_go_on`` is called after about ``tried`` choices each time; the search stops if it returns False.
        """
        # A new table of zeros takes no time for parts that are not used.
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
        # Collect the choices from the last leaf back to the first.
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
