"""What the kernels of the search over the leaves work on."""

from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int16, int32, int64, types, uint64
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray

WordArray = NDArray[np.uint64]
Int32Array = NDArray[np.int32]
Int16Array = NDArray[np.int16]


class Leaves(NamedTuple):
    """The leaves in the order of the layers, pod by pod.

    Parameters
    ----------
    idle
        Idle nodes of each leaf, shape ``(N,)``.
    charge
        What so many nodes of each leaf cost, in hops, shape ``(N, widest leaf + 1)``.
    pod
        Index of the pod of each leaf, shape ``(N,)``.
    ends_pod
        Whether a leaf is the last one of its pod, shape ``(N,)``.
    pod_charge
        What so many nodes of each pod cost, in hops, shape ``(pods, largest job + 1)``.
    pod_income
        The largest sum of these charges that jobs can pay for a pod, shape ``(pods,)``.
    before
        Idle nodes of the leaves before each one, shape ``(N + 1,)``.
    leaf_weight, pod_weight
        What the squared count of a job in a leaf and in a pod saves, in hops times nodes of the job.
    """

    idle: IntArray
    charge: FloatArray
    pod: IntArray
    ends_pod: IntArray
    pod_charge: FloatArray
    pod_income: FloatArray
    before: IntArray
    leaf_weight: float
    pod_weight: float


class Jobs(NamedTuple):
    """The jobs in the order of a state's fields, those of a class side by side.

    Parameters
    ----------
    sizes
        Nodes of each job, shape ``(J,)``.
    kind
        Class of each job, shape ``(J,)``.
    word, shift, bits
        A field of ``2 bits[j]`` bits begins at bit ``shift[j]`` of word ``word[j]`` of a state's key, shape ``(J,)``.
    """

    sizes: IntArray
    kind: IntArray
    word: IntArray
    shift: IntArray
    bits: IntArray


class Kinds(NamedTuple):
    """The classes of jobs on trees of up to three levels; see `allocopt.kernels.classes.JobClasses`.

    Parameters
    ----------
    sizes, factor
        Nodes of a job, and what its squared counts save besides the weights, shape ``(R,)``.
    leaf_step, pod_step
        Of what its nodes in a leaf and in a pod are a multiple, shape ``(R,)``.
    leaf_bonus, pod_bonus
        What it saves within one leaf and within one pod, in hops, shape ``(R,)``.
    is_open
        Whether it may have nodes of each leaf, shape ``(R, N)``.
    ruled
        1 if anything of this differs from plain jobs, else 0.
    is_forest
        1 if no optimal allocation joins jobs in a circle, else 0.
    """

    sizes: IntArray
    factor: FloatArray
    leaf_step: IntArray
    pod_step: IntArray
    leaf_bonus: FloatArray
    pod_bonus: FloatArray
    is_open: NDArray[np.bool_]
    ruled: int
    is_forest: int


class States(NamedTuple):
    """All states of all layers, one after the other.

    Parameters
    ----------
    keys
        For each job the nodes it has in earlier pods and in all earlier leaves, packed, shape ``(S, 2)``.
    slack
        What a state may still lose against the bound, in hops, shape ``(S,)``.
    parent
        State of the layer before from which a state was reached, shape ``(S,)``.
    taken
        What each field's job took of the leaf in between, in the order of the parent's fields, shape ``(S, J)``.
    component
        Component of every field's job, and last of the idle nodes that are left over, in the graph that joins two of
        them for every leaf that they share, shape ``(S, J + 1)``.
    table
        Hash table of the newest layer: 1 + number of a state, older ones count as empty; shape a power of two.
    """

    keys: WordArray
    slack: FloatArray
    parent: Int32Array
    taken: Int16Array
    component: Int16Array
    table: Int32Array


class Work(NamedTuple):
    """Working space of an expansion; row j is that of job j.

    Parameters
    ----------
    before, placed
        Nodes in earlier pods, and in all earlier leaves, shape ``(J,)``.
    option, loss
        What a job may take of the leaf, and the regret of it less what the job then pays for leaf and pod, shape
        ``(J, widest leaf + 1)``.
    n_options
        Number of options, shape ``(J,)``.
    most
        Largest number that the jobs ``j ..`` can take together, shape ``(J + 1,)``.
    pod_most
        Most that the jobs ``j ..`` can pay for the pod that the leaf ends, shape ``(J + 1,)``.
    chosen
        Option that is tried, shape ``(J,)``.
    room, slack
        Nodes of the leaf that are left before job j, and the slack if it and the next ones paid nothing, shape
        ``(J + 1,)``.
    met
        Components, one bit each, that have nodes of the leaf before job j chooses, shape ``(J + 1,)``.
    field, owner
        Fields of the new state, and the old field of the job of each, shape ``(J,)``.
    """

    before: IntArray
    placed: IntArray
    option: IntArray
    loss: FloatArray
    n_options: IntArray
    most: IntArray
    pod_most: FloatArray
    chosen: IntArray
    room: IntArray
    slack: FloatArray
    met: IntArray
    field: IntArray
    owner: IntArray


LEAVES = types.NamedTuple(
    (
        int64[::1],
        float64[:, ::1],
        int64[::1],
        int64[::1],
        float64[:, ::1],
        float64[::1],
        int64[::1],
        float64,
        float64,
    ),
    Leaves,
)
KINDS = types.NamedTuple(
    (
        *(int64[::1], float64[::1], int64[::1], int64[::1], float64[::1], float64[::1], boolean[:, ::1]),
        *(int64, int64),
    ),
    Kinds,
)
JOBS = types.NamedUniTuple(int64[::1], 5, Jobs)
STATES = types.NamedTuple((uint64[:, ::1], float64[::1], int32[::1], int16[:, ::1], int16[:, ::1], int32[::1]), States)
WORK = types.NamedTuple(
    (
        int64[::1],
        int64[::1],
        int64[:, ::1],
        float64[:, ::1],
        int64[::1],
        int64[::1],
        float64[::1],
        int64[::1],
        int64[::1],
        float64[::1],
        int64[::1],
        int64[::1],
        int64[::1],
    ),
    Work,
)
