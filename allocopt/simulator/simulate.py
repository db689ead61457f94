"""`simulate`: one function for all schedulers, workloads and machines."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, cast, overload, runtime_checkable

from allocopt.arrays import IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.downtime import Downtime, checked_downtimes
from allocopt.cluster.platform import Platform
from allocopt.errors import UsageError
from allocopt.kernels.ready import make_ready
from allocopt.simulator.engine import Observer, Simulation, is_built_in_only
from allocopt.simulator.execution import ExecutionModel
from allocopt.simulator.held_nodes import Allocator
from allocopt.simulator.multicore.policies import ACTION_NAMES, Action
from allocopt.simulator.rooms import Size, kernels_of
from allocopt.simulator.rules import QueueOrder, Rules
from allocopt.simulator.schedule import ClusterSchedule, Schedule
from allocopt.simulator.scheduler import (
    AnyScheduler,
    ListScheduler,
    Policy,
    Scheduler,
    WithExecution,
    get_policy,
    name_of,
)
from allocopt.simulator.shared.room import BySolver
from allocopt.simulator.shared.state import AllocationRule
from allocopt.traces.workload import Workload

if TYPE_CHECKING:
    from allocopt.cluster.multicore import Machine
    from allocopt.simulator.multicore.simulation import MulticoreSchedule
    from allocopt.simulator.multicore.state import Execution
    from allocopt.traces.tasks import TaskWorkload


@runtime_checkable
class _MeasuringModel(ExecutionModel, Protocol):
    """An execution model that adds its own measurements to a schedule."""

    def measured(self, schedule: Schedule) -> Schedule:
        """Return the schedule of a finished simulation with the model's measurements."""


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
    workload: Workload,
    platform: Cluster,
    scheduler: str | Policy = "fcfs",
    rules: Rules | None = None,
    seed: int = 0,
    *,
    allocator: AllocationRule | BySolver | str | None = None,
    execution: ExecutionModel | None = None,
    observer: Observer | None = None,
    downtimes: Iterable[Downtime] = (),
) -> ClusterSchedule: ...
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
    platform: "Platform | Cluster | Size | Machine",
    scheduler: str | Policy = "fcfs",
    rules: Rules | None = None,
    seed: int = 0,
    *,
    demands: Mapping[str, IntArray] | None = None,
    allocator: Allocator | AllocationRule | BySolver | str | None = None,
    execution: "ExecutionModel | Execution | None" = None,
    observer: Observer | None = None,
    downtimes: Iterable[Downtime] = (),
) -> Schedule:
    """Simulate a workload on a machine and return its schedule.

    Parameters
    ----------
    workload
        The jobs; jobs of tasks run on a multicore machine.
    platform
        The machine; a number means a pool of that many processors. On a `Cluster`, jobs get what they request. A job
        without a request gets a core for each processor, or a node for each if all jobs get nodes exclusively.
    scheduler
        A policy, or its name (see `get_policy`), such as ``sjf``, ``sjf+easy`` or ``asax``. On a multicore machine, a
        pair of selections, such as ``shortest-low_power``; there ``fcfs`` means ``first-high_gflops``.
    rules
        Rules for events, and whether jobs are killed. None for the defaults, except that jobs are not killed under a
        scheduler with its own execution model. Not for multicore machines, whose rules are in ``execution``.
    demands
        For each resource of the platform except the first, by name: the units that each job requests.
    allocator
        Chooses the nodes, if the platform has nodes; None for the first free ones. On a cluster, an `AllocationRule`
        or its name: ``first``, ``best-fit``, ``least-loaded``, ``lowest-switch``; or a solver of placement problems or
        its name.
    execution
        Determines the speed of jobs. None for the model of the scheduler (see `WithExecution`). If it has none, jobs
        run at speed 1, or on multicore machines under contention.
    observer
        Called with the simulation after every pass; must not change it.
    downtimes
        Times at which nodes of a cluster take no jobs: maintenance and failures. A failure requeues the node's jobs.

    Returns
    -------
    Schedule
        When and where every job ran. Includes the energy on a multicore machine (`MulticoreSchedule`), the cores used
        if jobs share cores (`QuotaSchedule`), and the resources held if jobs share nodes (`ClusterSchedule`).

    Raises
    ------
    InvalidProblemError
        If there are no jobs, or a job requests more than the machine has; the message names it.
    SchedulerError
        If a scheduler, allocator or model breaks a rule, raises, or leaves jobs waiting for ever.
    UsageError
        If the policy does not exist, or the arguments cannot be combined.
    """
    if not isinstance(workload, Workload):
        if (rules, demands, allocator, observer, *checked_downtimes(downtimes)) != (None, None, None, None):
            raise UsageError(
                "rules, demands, allocator, observer and downtimes cannot be used with a multicore machine"
            )
        return _simulate_tasks(workload, platform, scheduler, seed, execution)
    if not isinstance(rules, Rules | None):
        raise UsageError(f"the rules are {rules!r}, must be `Rules`")
    if observer is not None and not callable(observer):
        raise UsageError(f"the observer is {observer!r}, must be a function of the simulation")
    if not isinstance(execution, ExecutionModel | None):
        raise UsageError(f"the execution model is {execution!r}, must have a method `speeds`")
    downtimes = checked_downtimes(downtimes)
    chosen = as_scheduler(scheduler)
    if isinstance(chosen, WithExecution):
        if isinstance(platform, Cluster) or (isinstance(platform, Platform) and platform.has_nodes):
            raise UsageError(
                f"policy {name_of(chosen)!r} lets jobs share cores, which needs a pool; this machine has nodes"
            )
        execution, rules = execution or chosen.execution(workload), rules or Rules(kill_at_limit=False)
    # `Simulation` refuses a multicore machine.
    machine = cast(Platform | Cluster | Size, platform)
    simulation = Simulation(
        *(workload, machine, chosen, rules, seed),
        demands=demands,
        allocator=allocator,
        execution=execution,
        is_watched=observer is not None,
        downtimes=downtimes,
    )
    built_in_only, changes_speed = is_built_in_only(chosen, execution, observer), execution is not None
    make_ready(kernels_of(machine, chosen, is_built_in_only=built_in_only, changes_speed=changes_speed))
    simulation.run(observer)
    schedule = simulation.schedule()
    return execution.measured(schedule) if isinstance(execution, _MeasuringModel) else schedule


def as_scheduler(scheduler: str | Policy) -> AnyScheduler:
    """Return a scheduler by its name or from a policy, see `get_policy`; a queue order gets no backfilling."""
    policy = get_policy(scheduler) if isinstance(scheduler, str) else scheduler
    if isinstance(policy, ListScheduler | Scheduler):
        return policy
    if isinstance(policy, QueueOrder):
        return ListScheduler(policy)
    if isinstance(policy, Action):
        raise UsageError(f"policy {policy.name!r} is for multicore machines: give such a machine and jobs of tasks")
    raise UsageError(f"{name_of(policy)} is not a scheduler: it has no method `schedule`")


def _simulate_tasks(
    workload: "TaskWorkload",
    platform: "Platform | Cluster | Size | Machine",
    scheduler: str | Policy,
    seed: int,
    execution: "ExecutionModel | Execution | None",
) -> "MulticoreSchedule":
    from allocopt.cluster.multicore import Machine
    from allocopt.simulator.multicore.simulation import MulticoreSimulation
    from allocopt.simulator.multicore.state import Execution
    from allocopt.traces.tasks import TaskWorkload

    if not isinstance(workload, TaskWorkload):
        fault = "must be a Workload; `read_workload` reads one from a file"
        raise UsageError(f"the workload is {workload!r}, {fault}")
    if not isinstance(platform, Machine):
        raise UsageError(f"the platform is {platform!r}, must be a Machine for jobs of tasks")
    if not isinstance(execution, Execution | None):
        raise UsageError(f"the execution is {execution!r}, must be an Execution for jobs of tasks")
    policy = Action.named(scheduler) if isinstance(scheduler, str) else scheduler
    if not isinstance(policy, Action):
        raise UsageError(f"{name_of(policy)} is not a multicore policy; these are {', '.join(ACTION_NAMES)}")
    if policy.jobs is None:
        raise UsageError(f"policy {policy.name!r} starts no jobs, so the simulation would never end")
    simulation = MulticoreSimulation(platform, workload, execution, seed)
    simulation.run(*policy.codes)
    return simulation.schedule()
