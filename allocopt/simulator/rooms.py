"""Makes rooms of machines: the only place that knows all kinds of machines."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.downtime import Downtime
from allocopt.cluster.platform import Platform
from allocopt.errors import UsageError
from allocopt.simulator.pool import Pool
from allocopt.simulator.room import Room
from allocopt.simulator.rules import Rules
from allocopt.simulator.scheduler import AnyScheduler, built_in_of
from allocopt.simulator.shared.room import SharedNodes
from allocopt.traces.workload import Workload

Size = int | np.integer[Any]
"""A number of processors, for a pool of that size."""

Machine = Platform | Cluster | Size

_KINDS: Mapping[type, type[Pool | SharedNodes]] = {Platform: Pool, Cluster: SharedNodes}


def kernels_of(
    machine: Machine, scheduler: AnyScheduler, *, is_built_in_only: bool, changes_speed: bool = False
) -> tuple[Callable[..., Any], ...]:
    """Return the kernels that a simulation calls: one that runs to the end, or kernels for single scheduling points.

    ``is_built_in_only`` is the result of `allocopt.simulator.engine.is_built_in_only`; ``changes_speed`` states whether
    there is an execution model.
    """
    kind, sized, built_in = _kind_of(machine), _sized(machine), built_in_of(scheduler)
    how = {"is_built_in_only": is_built_in_only, "changes_speed": changes_speed}
    of_built_in = () if built_in is None else kind.kernels(sized, built_in, **how)
    return of_built_in if built_in is scheduler else (*kind.kernels(sized, None, **how), *of_built_in)


def room_of(
    workload: Workload,
    machine: Machine,
    scheduler: AnyScheduler,
    rules: Rules,
    seed: int,
    *,
    demands: Mapping[str, IntArray] | None = None,
    allocator: Any = None,
    is_watched: bool = False,
    downtimes: Sequence[Downtime] = (),
) -> Room:
    """Return the room of a machine before the first event.

    Parameters
    ----------
    workload
        The jobs.
    machine
        The machine.
    scheduler
        Decides which jobs start; a built-in one runs in compiled code.
    rules
        Rules for events and jobs.
    seed
        Seed of `Room.rng`, and of a solver that chooses nodes.
    demands
        For each resource of the platform except the first, by name: the units that each job requests.
    allocator
        Chooses the nodes; see `simulate`.
    is_watched
        Whether anything in addition to the scheduler reads the running jobs.
    downtimes
        Times at which nodes of a cluster take no jobs.

    Raises
    ------
    InvalidProblemError
        If there are no jobs, or a job requests more than the machine has.
    UsageError
        If ``machine`` is not a machine, or the arguments cannot be combined.
    """
    built_in = built_in_of(scheduler)
    is_watched = is_watched or built_in is not scheduler
    how = {"demands": demands, "allocator": allocator, "is_watched": is_watched, "downtimes": downtimes}
    return _kind_of(machine).of(workload, _sized(machine), built_in, rules, seed, **how)


def _sized(machine: Machine) -> Any:
    return Platform.pool(int(machine)) if isinstance(machine, int | np.integer) else machine


def _kind_of(machine: Machine) -> type[Pool | SharedNodes]:
    kind = _KINDS.get(type(_sized(machine)))
    if kind is None:
        raise UsageError(f"the platform is {machine!r}, must be a Platform, a Cluster or a number of processors")
    return kind
