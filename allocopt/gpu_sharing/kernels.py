"""Kernels that place pods one by one on the node with the highest score; each kind of state has its own score.

The score of a node for a request is valid until another pod is placed on the node.
"""

import math

import numpy as np
from numba import int64, void

from allocopt.arrays import IntArray
from allocopt.gpu_sharing.pods import WHOLE
from allocopt.gpu_sharing.state import BEST_FIT, FGD, WEIGHTED, BestFitState, FgdState, SharedGpus, WeightedState
from allocopt.kernels.compiled import helper, inlined, kernel, question

NOWHERE = -1
MOST_CPU, MOST_GPU = 128_000, 8_000  # thousandths of cores and GPUs of the largest node; best fit divides by them

ROUNDING = 1e-9  # added before a score is rounded down, so that rounding errors do not reduce a whole number by 1

PolicyState = FgdState | BestFitState | WeightedState


@question
def score_node(state: PolicyState, request: int, node: int) -> None:
    """Score a node that has room for a request, and choose the GPUs that it would get there."""


@inlined
def _accepts(gpus: SharedGpus, request: int, node: int) -> bool:
    """Return whether a request may run on GPUs of the node's model."""
    models = gpus.requests[request].models
    return bool(models == 0 or models & gpus.nodes[node].model != 0)


@inlined
def _usable_gpus(gpus: SharedGpus, request: int, node: int) -> int:
    """Return how many GPUs of a node have enough free for a request."""
    usable, asked = 0, gpus.requests[request].gpu_milli
    for gpu in range(gpus.nodes[node].n_gpus):
        usable += gpus.free[node, gpu] >= asked
    return usable


@helper()
def has_room(gpus: SharedGpus, request: int, node: int) -> bool:
    """Return whether a node has room for a request."""
    one, there = gpus.requests[request], gpus.nodes[node]
    if one.cpu > there.cpu or one.memory > there.memory:
        return False
    return bool(one.n_gpus == 0 or (_accepts(gpus, request, node) and _usable_gpus(gpus, request, node) >= one.n_gpus))


@helper()
def free_gpu_milli(gpus: SharedGpus, node: int) -> int:
    """Return the free capacity of all GPUs of a node, in thousandths."""
    free = 0
    for gpu in range(gpus.nodes[node].n_gpus):
        free += gpus.free[node, gpu]
    return free


@inlined
def _share_within(gpus: SharedGpus, first: int, end: int, cpu: int) -> float:
    """Return the share of the typical pods in entries ``first .. end - 1``, a demand, that ask for at most ``cpu``."""
    begin, last = first, end
    while first < last:
        middle = (first + last) // 2
        if gpus.cpu[middle] <= cpu:
            first = middle + 1
        else:
            last = middle
    return gpus.shares[first - 1] if first > begin else 0.0


@helper()
def fragments(gpus: SharedGpus, node: int) -> float:
    """Return how much of a node's free GPUs typical pods cannot use, in thousandths, weighted by their shares.

    A pod that does not fit cannot use anything; memory is ignored. A pod that fits can use all but the GPUs that have
    less free than it asks for. A pod without GPUs cannot use any. See Weng et al. (ATC 2023), section 4.1; details are
    as in their program.
    """
    found, free, cpu = 0.0, free_gpu_milli(gpus, node), gpus.nodes[node].cpu
    if free == 0:
        return 0.0
    for at in range(gpus.demands.size):
        demand = gpus.demands[at]
        all_share, share = gpus.shares[demand.end - 1], _share_within(gpus, demand.first, demand.end, cpu)
        usable, small = 0, 0
        if demand.n_gpus > 0 and (demand.models == 0 or demand.models & gpus.nodes[node].model != 0):
            for gpu in range(gpus.nodes[node].n_gpus):
                if gpus.free[node, gpu] >= demand.gpu_milli:
                    usable += 1
                else:
                    small += gpus.free[node, gpu]
        if usable < max(1, demand.n_gpus):
            small = free
        found += share * small + (all_share - share) * free
    return found


@inlined
def is_small(gpus: SharedGpus, request: int) -> bool:
    """Return whether a request asks for less than one GPU."""
    one = gpus.requests[request]
    return bool(one.n_gpus == 1 and one.gpu_milli < WHOLE)


@helper()
def first_usable(gpus: SharedGpus, request: int, node: int) -> int:
    """Return the first GPUs of a node that have room for a request, as bits."""
    bits, missing, asked = 0, gpus.requests[request].n_gpus, gpus.requests[request].gpu_milli
    for gpu in range(gpus.nodes[node].n_gpus):
        if missing > 0 and gpus.free[node, gpu] >= asked:
            bits |= 1 << gpu
            missing -= 1
    return bits


@helper()
def hold_on_node(gpus: SharedGpus, request: int, node: int, bits: int, sign: int) -> None:
    """Take the resources of a request from a node and these GPUs (sign 1), or return them (sign -1)."""
    one, there = gpus.requests[request], gpus.nodes[node]
    there.cpu -= sign * one.cpu
    there.memory -= sign * one.memory
    for gpu in range(there.n_gpus):
        if (bits >> gpu) & 1:
            gpus.free[node, gpu] -= sign * one.gpu_milli


@inlined
def _is_tried(gpus: SharedGpus, request: int, node: int, gpu: int) -> bool:
    """Return whether a small request tries a GPU; of GPUs with equal amounts free it tries only the first."""
    free = gpus.free[node, gpu]
    if free < gpus.requests[request].gpu_milli:
        return False
    for other in range(gpu):
        if gpus.free[node, other] == free:
            return False
    return True


@question
def score_placed(state: PolicyState, request: int, node: int, bits: int, free_before: int) -> float:
    """Return the score of a node after a request was placed on these GPUs.

    All GPUs of the node together had ``free_before`` free before.
    """
    raise NotImplementedError


@inlined
def _score_by_trial(state: PolicyState, request: int, node: int) -> None:
    """Try a request on each choice of GPUs; store the best score and choice, the first of equal ones."""
    gpus, free = state.gpus, free_gpu_milli(state.gpus, node)
    gpus.scores[request, node] = -np.inf
    for gpu in range(gpus.nodes[node].n_gpus if is_small(gpus, request) else 1):
        bits = 1 << gpu
        if not is_small(gpus, request):
            bits = first_usable(gpus, request, node)
        elif not _is_tried(gpus, request, node, gpu):
            continue
        hold_on_node(gpus, request, node, bits, 1)
        score = score_placed(state, request, node, bits, free)
        hold_on_node(gpus, request, node, bits, -1)
        if score > gpus.scores[request, node]:
            gpus.scores[request, node], gpus.chosen[request, node] = score, bits


@score_placed.answer(FgdState)
@helper()
def _removed_fragments(state: FgdState, request: int, node: int, bits: int, free_before: int) -> float:
    """Return the score by the fragments that the pod removes, rounded to an integer as Kubernetes schedulers do."""
    removed = (state.gpus.nodes[node].fragments - fragments(state.gpus, node)) / WHOLE
    return float(math.floor(100.0 / (1.0 + math.exp(-removed)) + ROUNDING))


@score_node.answer(FgdState)
@helper()
def _score_by_fgd(state: FgdState, request: int, node: int) -> None:
    """Score a node by the fragments that the pod removes."""
    _score_by_trial(state, request, node)


@inlined
def _tightest_usable(gpus: SharedGpus, request: int, node: int) -> int:
    """Return the GPUs that a request gets by best fit, as bits; a small request gets the GPU with the least free."""
    if not is_small(gpus, request):
        return int(first_usable(gpus, request, node))
    best = NOWHERE
    for gpu in range(gpus.nodes[node].n_gpus):
        if _is_tried(gpus, request, node, gpu) and (best == NOWHERE or gpus.free[node, gpu] < gpus.free[node, best]):
            best = gpu
    return 1 << best


@score_node.answer(BestFitState)
@helper()
def _score_by_best_fit(state: BestFitState, request: int, node: int) -> None:
    """Score a node by its remaining cores and GPUs, rounded to an integer."""
    gpus = state.gpus
    one, there = gpus.requests[request], gpus.nodes[node]
    left_gpu = free_gpu_milli(gpus, node) - one.n_gpus * one.gpu_milli
    left = (there.cpu - one.cpu) / MOST_CPU * 0.5 + left_gpu / MOST_GPU * 0.5
    gpus.scores[request, node] = math.floor((1.0 - left) * 100.0 + ROUNDING)
    gpus.chosen[request, node] = _tightest_usable(gpus, request, node)


@inlined
def _idle_gpus(gpus: SharedGpus, node: int) -> int:
    idle = 0
    for gpu in range(gpus.nodes[node].n_gpus):
        idle += gpus.free[node, gpu] == WHOLE
    return idle


@helper()
def wanted_model(gpus: SharedGpus, node: int) -> float:
    """Return the share of typical pods that ask for the model of a node's GPUs by name."""
    share = 0.0
    for at in range(gpus.demands.size):
        if gpus.demands[at].models & gpus.nodes[node].model != 0:
            share += gpus.shares[gpus.demands[at].end - 1]
    return share


@score_placed.answer(WeightedState)
@helper()
def _weighted_sum(state: WeightedState, request: int, node: int, bits: int, free_before: int) -> float:
    """Return the weighted sum of `TERMS`."""
    gpus, weights = state.gpus, state.weights
    there, gpu, left = gpus.nodes[node], 0, 0
    before, after, free = there.fragments, fragments(gpus, node), free_gpu_milli(gpus, node)
    score = weights[0] * (before - after) / WHOLE
    if free_before > 0:
        score += weights[1] * before / free_before
    if free > 0:
        score += weights[2] * after / free
    if is_small(gpus, request):
        while not (bits >> gpu) & 1:
            gpu += 1
        left = gpus.free[node, gpu]
        score += weights[3] * left / WHOLE + weights[4] * (left == 0)
        score += weights[5] * (left + gpus.requests[request].gpu_milli == WHOLE)
    score += weights[6] * _idle_gpus(gpus, node) / 8.0 + weights[7] * free / (8.0 * WHOLE)
    if there.n_gpus > 0:
        # Nearly 1 if cores are free but no GPU is.
        cores = there.cpu / max(free, 1)
        score += weights[8] * cores / (cores + 8.0)
    if there.all_cpu > 0:
        score += weights[9] * there.cpu / there.all_cpu
    if there.all_memory > 0:
        score += weights[10] * there.memory / there.all_memory
    return float(score + weights[11] * wanted_model(gpus, node))


@score_node.answer(WeightedState)
@helper()
def _score_by_weights(state: WeightedState, request: int, node: int) -> None:
    """Score a node by the weighted sum of `TERMS`."""
    _score_by_trial(state, request, node)


@inlined
def _place_all(state: PolicyState, arrivals: IntArray, nodes: IntArray, chosen: IntArray) -> None:
    gpus = state.gpus
    for node in range(gpus.nodes.size):
        gpus.nodes[node].fragments = fragments(gpus, node)
    for at in range(arrivals.size):
        request, best, best_node = arrivals[at], -np.inf, NOWHERE
        for node in range(gpus.nodes.size):
            if gpus.n_placed[request, node] != gpus.nodes[node].n_placed:
                gpus.n_placed[request, node] = gpus.nodes[node].n_placed
                gpus.scores[request, node] = -np.inf
                if has_room(gpus, request, node):
                    score_node(state, request, node)
            if gpus.scores[request, node] > best:
                best, best_node = gpus.scores[request, node], node
        nodes[at] = best_node
        if best_node != NOWHERE:
            chosen[at] = gpus.chosen[request, best_node]
            hold_on_node(gpus, request, best_node, chosen[at], 1)
            gpus.nodes[best_node].n_placed += 1
            gpus.nodes[best_node].fragments = fragments(gpus, best_node)


@kernel(void(FGD, int64[::1], int64[::1], int64[::1]))
def place_by_fgd(state: FgdState, arrivals: IntArray, nodes: IntArray, chosen: IntArray) -> None:
    """Place pods, given by their requests, by fragmentation gradient descent; ``NOWHERE`` if there is no room."""
    _place_all(state, arrivals, nodes, chosen)


@kernel(void(BEST_FIT, int64[::1], int64[::1], int64[::1]))
def place_by_best_fit(state: BestFitState, arrivals: IntArray, nodes: IntArray, chosen: IntArray) -> None:
    """Place pods, given by their requests, by best fit; ``NOWHERE`` if there is no room."""
    _place_all(state, arrivals, nodes, chosen)


@kernel(void(WEIGHTED, int64[::1], int64[::1], int64[::1]))
def place_by_weights(state: WeightedState, arrivals: IntArray, nodes: IntArray, chosen: IntArray) -> None:
    """Place pods, given by their requests, by weighted terms; ``NOWHERE`` if there is no room."""
    _place_all(state, arrivals, nodes, chosen)
