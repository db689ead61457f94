"""`simulate`: one call for every scheduler on every workload and machine."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload, runtime_checkable

import numpy as np

from allocopt.arrays import IntArray, frozen_integers
from allocopt.cluster.platform import Platform
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.interruption import run_in_slices
from allocopt.kernels.ready import make_ready
from allocopt.simulator.engine import PYTHON_KERNELS, Simulation, name_of
from allocopt.simulator.execution import ExecutionModel
from allocopt.simulator.kernels.backfilling import list_pass, run
from allocopt.simulator.kernels.conservative import conservative_pass, run_conservative
from allocopt.simulator.kernels.events import advance
from allocopt.simulator.multicore.policies import ACTION_NAMES, Action
from allocopt.simulator.placement import Allocator, DepthFirst
from allocopt.simulator.registry import AnyScheduler, Policy, get_policy
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, QueueOrder, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import Blame, ListScheduler, Scheduler, SchedulerError, WithExecution
from allocopt.simulator.state import new_state
from allocopt.traces.workload import Workload

if TYPE_CHECKING:
    from allocopt.cluster.multicore import Machine
    from allocopt.simulator.multicore.simulation import MulticoreSchedule
    from allocopt.simulator.multicore.state import Execution
    from allocopt.traces.tasks import TaskWorkload

# Called after every scheduling pass.
Observer = Callable[[Simulation], None]

S = TypeVar("S", bound=Schedule, covariant=True)

# A number of processors, which stands for a pool of so many.
Size = int | np.integer[Any]


@runtime_checkable
class _MeasuringModel(ExecutionModel, Protocol[S]):
    """An execution model that knows more of a schedule than when jobs ran."""

    def measured(self, schedule: Schedule) -> S:
        """Return the schedule of the simulation, which is over, with what was measured."""


@overload
def simulate(
    workload: Workload,
    platform: Platform | Size,
    scheduler: str | Policy = "fcfs",
    rules: Rules | None = None,
    seed: int = 0,
    *,
    execution: _MeasuringModel[S],
    observer: Observer | None = None,
) -> S: ...
@overload
def simulate(
    workload: Workload,
    platform: Platform | Size,
    scheduler: str | Policy = "fcfs",
    rules: Rules | None = None,
    seed: int = 0,
    *,
    demands: Mapping[str, IntArray] | None = None,
    allocator: Allocator | None = None,
    execution: ExecutionModel | None = None,
    observer: Observer | None = None,
) -> Schedule: ...
@overload
def simulate(
    workload: "TaskWorkload",
    platform: "Machine",
    scheduler: str | Policy = "fcfs",
    *,
    seed: int = 0,
    execution: "Execution | None" = None,
) -> "MulticoreSchedule": ...
def simulate(
    workload: "Workload | TaskWorkload",
    platform: "Platform | Size | Machine",
    scheduler: str | Policy = "fcfs",
    rules: Rules | None = None,
    seed: int = 0,
    *,
    demands: Mapping[str, IntArray] | None = None,
    allocator: Allocator | None = None,
    execution: "ExecutionModel | Execution | None" = None,
    observer: Observer | None = None,
) -> Schedule:
    """Simulate a workload on a machine.

    Parameters
    ----------
    workload
        The jobs; jobs of tasks run on a multicore machine.
    platform
        The machine; a number stands for a pool of so many processors.
    scheduler
        A policy, or its name (see `get_policy`), such as ``sjf``, ``sjf+easy`` or ``asax``. On a multicore machine a
        pair of selections, such as ``shortest-low_power``; ``fcfs`` is ``first-high_gflops`` there.
    rules
        How events are taken and whether jobs are killed. None for the defaults, and for not killing them under a
        scheduler with an execution model of its own; for multicore machines ``execution`` says it.
    demands
        Units that jobs ask for of the platform's resources but the first, by name, in the order of the workload.
    allocator
        Who chooses the nodes, where the platform has nodes; None for the first ones that are free.
    execution
        How fast jobs run; None for the model that goes with the scheduler (see `WithExecution`), else for speed 1, on
        multicore machines for contention.
    observer
        Called after every pass with the simulation; it must not change it.

    Returns
    -------
    Schedule
        When every job started and ended, and where; with the energy on a multicore machine (`MulticoreSchedule`), with
        what they used where jobs share cores (`QuotaSchedule`).

    Raises
    ------
    InvalidProblemError
        If there are no jobs, or one asks for more than the machine has; it is named.
    SchedulerError
        If a scheduler, allocator or model breaks a rule, raises, or leaves jobs waiting for ever.
    UsageError
        If the policy does not exist, or what is asked for does not go together.
    """
    if not isinstance(workload, Workload):
        if (rules, demands, allocator, observer) != (None, None, None, None):
            raise UsageError("rules, demands, an allocator and an observer do not go with a multicore machine")
        return _simulate_tasks(workload, platform, scheduler, seed, execution)
    if not isinstance(execution, ExecutionModel | None):
        raise UsageError(f"the execution model is {execution!r}, must have a method `speeds`")
    chosen, pool = as_scheduler(scheduler), _platform(platform)
    if isinstance(chosen, WithExecution):
        execution, rules = execution or chosen.execution(workload), rules or Rules(kill_at_limit=False)
    simulation = new_simulation(
        workload,
        pool,
        chosen,
        rules,
        seed,
        demands=demands,
        allocator=allocator,
        execution=execution,
        is_watched=observer is not None,
    )
    entries = entries_of(chosen, pool, execution, observer)
    make_ready(entries)
    if len(entries) == 1:
        # Each pass may look at every job.
        run_in_slices(partial(entries[0], simulation.state), max(1, 2**18 // len(workload)))
    else:
        while simulation.advance():
            if isinstance(chosen, ListScheduler):
                simulation.built_in_pass()
            else:
                simulation.python_pass(chosen)
            if observer is not None:
                observer(simulation)
    schedule = _finished(workload, simulation, name_of(chosen))
    return execution.measured(schedule) if isinstance(execution, _MeasuringModel) else schedule


def entries_of(
    scheduler: AnyScheduler,
    platform: Platform | Size,
    execution: ExecutionModel | None = None,
    observer: Observer | None = None,
) -> tuple[Callable[..., Any], ...]:
    """Return the kernels that `simulate` calls: one for all, or those for one scheduling point after the other."""
    if not isinstance(scheduler, ListScheduler):
        return PYTHON_KERNELS
    has_nodes = isinstance(platform, Platform) and platform.has_nodes
    if not has_nodes and execution is None and observer is None:
        return (run_conservative if scheduler.backfill is Backfill.CONSERVATIVE else run,)
    return advance, conservative_pass if scheduler.backfill is Backfill.CONSERVATIVE else list_pass


def new_simulation(
    workload: Workload,
    platform: Platform | Size,
    scheduler: ListScheduler | Scheduler,
    rules: Rules | None = None,
    seed: int = 0,
    *,
    demands: Mapping[str, IntArray] | None = None,
    allocator: Allocator | None = None,
    execution: ExecutionModel | None = None,
    is_watched: bool = False,
) -> Simulation:
    """Return a simulation before its first event, to be stepped by its owner; see `simulate`.

    ``is_watched`` says whether somebody looks at the running jobs besides the scheduler. Raises `InvalidProblemError`
    if there are no jobs, or one asks for more than the machine has; it is named; `UsageError` if what is asked for does
    not go together.
    """
    machine = _platform(platform)
    if not isinstance(workload, Workload):
        raise _no_workload(workload)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"the seed is {seed!r}, must be a whole number, not negative")
    if machine.has_nodes:
        allocator = allocator or DepthFirst()
    elif allocator is not None:
        raise UsageError("an allocator needs a platform with nodes, this one is a pool of processors")
    request = _requests(workload, machine, demands or {})
    posed = workload, request, machine.total, rules or Rules()
    rng = np.random.default_rng(seed)
    if isinstance(scheduler, ListScheduler):
        state = new_state(
            *posed,
            scheduler.backfill,
            _keys(scheduler.order, workload, rng),
            None if scheduler.backfill_order is None else _keys(scheduler.backfill_order, workload, rng),
            compression=scheduler.compression,
            track_running=is_watched or execution is not None,
        )
    else:
        # What the view tells of waiting jobs is by the rules of EASY.
        state = new_state(*posed, Backfill.EASY, QueueKeys(OrderKind.ARRIVAL, np.zeros(len(workload))))
    return Simulation(workload, machine, state, allocator, execution, rng)


def _platform(platform: object) -> Platform:
    if isinstance(platform, int | np.integer):
        return Platform.pool(int(platform))
    if not isinstance(platform, Platform):
        raise UsageError(f"the platform is {platform!r}, must be a Platform or a number of processors")
    return platform


def _no_workload(given: object) -> UsageError:
    return UsageError(f"the workload is {given!r}, must be a Workload; `read_workload` reads one from a file")


def as_scheduler(scheduler: str | Policy) -> AnyScheduler:
    """Find a scheduler by name, see `get_policy`; a queue order alone schedules without backfilling.

    Raises `UsageError` if there is none of that name, or it is no scheduler.
    """
    policy = get_policy(scheduler) if isinstance(scheduler, str) else scheduler
    if isinstance(policy, ListScheduler | Scheduler):
        return policy
    if isinstance(policy, QueueOrder):
        return ListScheduler(policy)
    if isinstance(policy, Action):
        raise UsageError(f"policy {policy.name!r} is for the tasks of a multicore machine: give jobs of tasks and one")
    raise UsageError(f"{name_of(policy)} is no scheduler: it has no method `schedule`")


def _simulate_tasks(
    workload: "TaskWorkload",
    platform: "Platform | Size | Machine",
    scheduler: str | Policy,
    seed: int,
    execution: "ExecutionModel | Execution | None",
) -> "MulticoreSchedule":
    from allocopt.cluster.multicore import Machine
    from allocopt.simulator.multicore.simulation import MulticoreSimulation
    from allocopt.simulator.multicore.state import Execution
    from allocopt.traces.tasks import TaskWorkload

    if not isinstance(workload, TaskWorkload):
        raise _no_workload(workload)
    if not isinstance(platform, Machine):
        raise UsageError(f"the platform is {platform!r}, must be a Machine where jobs are of tasks")
    if not isinstance(execution, Execution | None):
        raise UsageError(f"the execution is {execution!r}, must be an Execution where jobs are of tasks")
    policy = Action.named(scheduler) if isinstance(scheduler, str) else scheduler
    if not isinstance(policy, Action):
        raise UsageError(f"{name_of(policy)} is no policy of a multicore machine: {', '.join(ACTION_NAMES)}")
    if policy.jobs is None:
        raise UsageError(f"policy {policy.name!r} starts no job, so that none would ever end")
    simulation = MulticoreSimulation(platform, workload, execution, seed)
    simulation.run(policy)
    return simulation.schedule()


def _requests(workload: Workload, platform: Platform, demands: Mapping[str, IntArray]) -> IntArray:
    if not len(workload):
        raise InvalidProblemError("workload", f"{workload.name} holds no jobs")
    unknown = sorted(set(demands) - set(platform.resources[1:]))
    if unknown:
        known = ", ".join(platform.resources[1:]) or "none"
        raise UsageError(f"demands for {unknown[0]!r}: resources of this platform that can be asked for: {known}")
    columns = [workload.processors]
    for name in platform.resources[1:]:
        units = demands.get(name, np.zeros(len(workload), dtype=np.int64))
        if np.shape(units) != (len(workload),) or np.asarray(units).dtype.kind not in "iu":
            raise UsageError(f"demands for {name!r} must be {len(workload)} whole numbers, one for each job")
        columns.append(frozen_integers(units))
    request = np.stack(columns, axis=1)
    for name, units, total in zip(platform.resources, request.T, platform.total, strict=True):
        if units.min() < 0 or units.max() > total:
            job = int(np.argmax((units < 0) | (units > total)))
            fault = f"asks for {units[job]} {name}, the machine has {total}; skip_oversized = true drops such jobs"
            raise InvalidProblemError(f"job {workload.ids[job]}", fault)
    return request


def _keys(order: QueueOrder, workload: Workload, rng: np.random.Generator) -> QueueKeys:
    name = f"queue order {order.name!r}"
    with Blame(name):
        keys = order.keys(workload, rng)
    if not isinstance(keys, QueueKeys) or np.shape(keys.values) != (len(workload),):
        raise SchedulerError(f"{name} must return QueueKeys with one value for each of the {len(workload)} jobs")
    return keys


def _finished(workload: Workload, simulation: Simulation, name: str) -> Schedule:
    clock = simulation.state.clock
    if clock["n_running"][0]:
        raise SchedulerError(simulation.never_ends())
    if clock["n_queued"][0]:
        raise SchedulerError(f"{name} leaves jobs waiting for ever: {simulation.stalled()}")
    platform = simulation.view.platform
    jobs, guests = simulation.state.jobs, simulation.guests.ended_at
    held_from = jobs["start"].copy() if guests else None
    if held_from is not None:
        held_from[list(guests)] = list(guests.values())
    return Schedule(
        workload,
        platform.size,
        jobs["release"].copy(),
        jobs["start"].copy(),
        jobs["end"].copy(),
        None if simulation.placement is None else simulation.placement.nodes(),
        platform.topology,
        held_from,
    )
