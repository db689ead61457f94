"""Policy ``rlscheduler``: a trained kernel network chooses the next job; others are backfilled."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np

from allocopt.arrays import Float32Array, FloatArray, IntArray
from allocopt.envs.batch_scheduling.task import HOUR_S, MEANINGS
from allocopt.learned.weights import Card, Weights, check_shapes, dense_layers, find_weights, load_weights, relu
from allocopt.simulator.decisions import Decision, Start
from allocopt.simulator.view import View

NAME = "rlscheduler"
SIZES = (len(MEANINGS), 32, 16, 8, 1)
"""Neurons of the kernel network, from the features of a job to its score."""
ACTOR = "actor."
"""Prefix of the names of the kernel network's parameters in a file of weights."""
WINDOW, EPISODE_JOBS = 128, 256


def kernel_shapes() -> dict[str, tuple[int, ...]]:
    """Return the shapes of the kernel network's parameters, by their names in torch."""
    shapes: dict[str, tuple[int, ...]] = {}
    for at, (inputs, outputs) in enumerate(pairwise(SIZES)):
        shapes |= {f"{ACTOR}{2 * at}.weight": (outputs, inputs), f"{ACTOR}{2 * at}.bias": (outputs,)}
    return shapes


def _kernel(weights: dict[str, Float32Array], card: Card) -> Weights:
    check_shapes(kernel_shapes(), weights)
    return {name.removeprefix(ACTOR): weights[name] for name in kernel_shapes()}


def scores_of(kernel: Weights, features: Float32Array) -> Float32Array:
    """Return a kernel network's scores of jobs, shape ``(n,)``, from their features, shape ``(n, 8)``."""
    found: Float32Array = dense_layers(kernel, features, relu)[:, 0]
    return found


@dataclass(slots=True)
class _Operation:
    # The current simulation, and the job that starts next.
    view: View | None = None
    chosen: int | None = None


@dataclass(frozen=True, slots=True)
class RlScheduler:
    """Starts the job with the highest score next; while it waits for processors, others are backfilled as in EASY.

    The network scores the first 128 waiting jobs by arrival. The chosen job keeps its reservation until it starts, as
    in the training (`allocopt.envs.batch_scheduling`). Raises `UsageError` if there are no such weights, and
    `BadFileError` if they cannot be read.

    Parameters
    ----------
    weights
        A file that ``allocopt train rlscheduler`` wrote, or the name of shipped weights.
    """

    weights: str = "sdsc-sp2"
    _network: Weights = field(init=False, repr=False, compare=False)
    _operation: _Operation = field(init=False, repr=False, compare=False, default_factory=_Operation)

    name: ClassVar[str] = NAME

    def __post_init__(self) -> None:
        object.__setattr__(self, "_network", load_weights(find_weights(NAME, self.weights), NAME, _kernel))

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start chosen jobs while they fit, then other jobs that do not delay the chosen one."""
        operation = self._operation
        if operation.view is not view:
            operation.view, operation.chosen = view, None
        while True:
            if operation.chosen is None:
                waiting = view.first(WINDOW)
                if not len(waiting):
                    return
                scores = scores_of(self._network, features_of(view, waiting))
                operation.chosen = int(waiting[int(np.argmax(scores))])
            if not view.fits(operation.chosen):
                break
            yield Start(operation.chosen)
            operation.chosen = None
        for job in view.backfillable(operation.chosen):
            yield Start(job)


def features_of(view: View, waiting: IntArray) -> Float32Array:
    """Return the features of waiting jobs, as defined by the training's environment, shape ``(n, 8)``.

    Episodes of the training have 256 jobs, so 256 or more waiting jobs count as a full queue.
    """
    pool = view.as_pool
    machine = float(pool.platform.size)
    size = pool.request[waiting, 0]
    free = float(pool.state.units[0, 0])
    wait: FloatArray = view.now - view.release[waiting]
    estimate = view.estimate[waiting]
    n_waiting = float(pool.state.clock["n_queued"][0])
    features = np.empty((len(waiting), len(MEANINGS)), dtype=np.float32)
    features[:, 0] = 1.0
    features[:, 1] = wait / (wait + HOUR_S)
    features[:, 2] = estimate / (estimate + HOUR_S)
    features[:, 3] = size / machine
    features[:, 4] = size <= free
    features[:, 5] = free / machine
    features[:, 6] = min(1.0, n_waiting / EPISODE_JOBS)
    features[:, 7] = wait / np.maximum(wait + estimate, 1e-9)
    return features
