"""Makes simulations from specifications: the only place where machine and policy are made."""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from allocopt.cluster.cluster import Cluster
from allocopt.cluster.downtime import Downtime, read_downtimes
from allocopt.cluster.multicore import Machine
from allocopt.cluster.named import NamedTree
from allocopt.cluster.platform import NODES, Platform
from allocopt.cluster.platform_files import read_machine
from allocopt.cluster.reading import read_cluster, read_topology
from allocopt.cluster.topology import FatTree
from allocopt.errors import BadFileError, UsageError
from allocopt.experiments.fields import FieldError
from allocopt.experiments.specs import SimulationSpec
from allocopt.files.faults import problem_faults_named
from allocopt.kernels.ready import make_ready
from allocopt.report.rows import SimulateRow
from allocopt.simulator.described import Described
from allocopt.simulator.engine import is_built_in_only
from allocopt.simulator.execution import ExecutionModel
from allocopt.simulator.explain import Explanation
from allocopt.simulator.held_nodes import Allocator
from allocopt.simulator.metrics import Metrics, Trim, measure
from allocopt.simulator.multicore.policies import Action
from allocopt.simulator.multicore.simulation import MulticoreSchedule, PlacedJobs
from allocopt.simulator.multicore.state import IDLE, Execution, ExecutionKind, check_jobs
from allocopt.simulator.quota.execution import QuotaExecution
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.simulator.rooms import kernels_of
from allocopt.simulator.rules import EventOrder, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import AnyScheduler, WithExecution, backfilled, get_policy
from allocopt.simulator.shared.admission import admitted, machine_of
from allocopt.simulator.shared.room import BySolver, allocation_named
from allocopt.simulator.shared.state import AllocationRule
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.simulator.window import TopologyAllocator, WindowScheduler
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import get_solver
from allocopt.traces.applications import Executables, profiled_jobs, read_profiles
from allocopt.traces.components import with_joined_components
from allocopt.traces.csv_columns import Columns
from allocopt.traces.reading import read_workload
from allocopt.traces.tasks import TaskWorkload, read_irmasim
from allocopt.traces.variants import Interval, varied_run_times
from allocopt.traces.workload import Workload


class Site(NamedTuple):
    """A trace as read, the jobs of it that fit on a machine, the machine, and remarks on both.

    If only the topology of nodes is known, all ``jobs`` request whole nodes; ``asked`` are the same jobs with the
    requests of the trace.
    """

    trace: Workload
    jobs: Workload
    asked: Workload
    machine: Platform | Cluster
    tree: NamedTree | None
    machine_remarks: tuple[str, ...]
    remarks: tuple[str, ...]

    @classmethod
    def of(cls, spec: SimulationSpec) -> "Site":
        """Read the trace and the machine of a specification, which must not be multicore."""
        columns = None if spec.columns is None else Columns.parse(spec.columns)
        trace = read_workload(spec.trace, columns, strict=spec.strict, dependencies=spec.dependencies)
        trace = with_joined_components(trace, shares_nodes=spec.cluster is not None)
        jobs, per_node, labels = trace.in_nodes(spec.processors_per_node), spec.processors_per_node, spec.labels or ()
        include = spec.include_unavailable or ()
        files, tree = "", None
        machine: Platform | Cluster
        if spec.topology is not None:
            files, tree = spec.topology, read_topology(spec.topology, labels, include_unavailable=include)
            machine = machine_of(tree) if spec.downtimes is None else Cluster.whole_nodes(tree)
            about = (tree.summary(), *tree.remarks)
        elif spec.cluster is not None:
            files = ",".join(Path(name).name for name in spec.cluster)
            machine = read_cluster(spec.cluster, labels, include_unavailable=include)
            tree, about = machine.topology, (machine.summary(), *machine.remarks)
        elif spec.fat_tree is not None:
            pods, leaves_per_pod, nodes_per_leaf = spec.fat_tree
            machine, about = Platform.whole_nodes(FatTree(pods, leaves_per_pod, nodes_per_leaf)), ()
        else:
            size = jobs.machine_processors if spec.processors is None else spec.processors // per_node
            if spec.processors is not None and not size:
                raise FieldError("processors", f"{spec.processors} are less than one node of {per_node}")
            if not size:
                raise BadFileError(f"{jobs.name}: the trace does not say how large its machine is: give processors")
            machine, about = Platform.pool(size) if per_node == 1 else Platform.pool(size, NODES), ()
        if isinstance(machine, Cluster):
            jobs = admitted(jobs, machine, in_nodes=per_node > 1, skip_oversized=spec.skip_oversized)
        elif spec.skip_oversized:
            jobs = jobs.fitting(machine.size)
        jobs = jobs if spec.max_jobs is None else jobs.first(spec.max_jobs)
        size = machine.processors if isinstance(machine, Cluster) and per_node == 1 else machine.size
        asked = jobs
        if isinstance(machine, Cluster) and machine.is_bare:
            asked = replace(jobs, requests=trace.requests[np.isin(trace.ids, jobs.ids)])
        told = tuple(f"{files}: {remark}" for remark in about)
        return cls(trace, jobs, asked, machine, tree, told, tuple(jobs.remarks(size)))

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes by their numbers; empty if they have no names."""
        return () if self.tree is None else self.tree.nodes

    @property
    def has_partitions(self) -> bool:
        """Whether jobs run in partitions of the machine."""
        return isinstance(self.machine, Cluster) and bool(self.machine.partitions)

    @property
    def described(self) -> Described:
        """Information in the files on jobs and nodes that a schedule does not hold."""
        cluster = self.machine if isinstance(self.machine, Cluster) else None
        return Described(self.asked, cluster, self.node_names)


@dataclass(frozen=True, slots=True, eq=False)
class SimulationInputs:
    """Content of the files of a specification, which can be sent to another process."""

    workload: Workload | TaskWorkload
    machine: Platform | Cluster | Machine
    executables: Executables | None = None  # Profiles of jobs that share cores
    placed: PlacedJobs | None = None  # Given starts and places of jobs
    source: str = ""  # File to name if a job of tasks can never start
    remarks: tuple[str, ...] = ()  # Counts of dropped and repaired jobs, and remarks on the machine
    described: Described | None = None  # Further information on jobs and nodes
    downtimes: tuple[Downtime, ...] = ()  # Times at which nodes of a cluster take no jobs

    @classmethod
    def of(cls, spec: SimulationSpec) -> "SimulationInputs":
        """Read the files of a specification."""
        if spec.platform is None:
            site, executables = Site.of(spec), None if spec.profiles is None else read_profiles(Path(spec.profiles))
            remarks = (*site.machine_remarks, *site.remarks)
            downtimes = () if spec.downtimes is None else read_downtimes(Path(spec.downtimes), set(site.node_names))
            return cls(
                *(site.jobs, site.machine, executables),
                remarks=remarks,
                described=site.described,
                downtimes=downtimes,
            )
        machine, jobs = read_machine(spec.platform, spec.types), read_irmasim(Path(spec.trace))
        placed = None if spec.placement is None else PlacedJobs.read(spec.placement, jobs.names)
        jobs, source = jobs if spec.max_jobs is None else jobs.first(spec.max_jobs), spec.placement or spec.trace
        with problem_faults_named(source):
            check_jobs(machine, jobs, np.full(len(jobs), IDLE))
        return cls(jobs, machine, placed=placed, source=source)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSimulation:
    """A simulation that is ready to run once."""

    inputs: SimulationInputs
    policy: AnyScheduler | Action  # A scheduler, or on a multicore machine a pair of selections
    rules: Rules
    seed: int
    allocator: Allocator | AllocationRule | BySolver | None = None  # None: jobs get the first idle nodes
    execution: ExecutionModel | Execution | None = None  # None: jobs run at speed 1

    @classmethod
    def of(cls, spec: SimulationSpec, inputs: SimulationInputs | None = None) -> "PreparedSimulation":
        """Make a simulation; ``inputs`` saves reading the files if they have been read for another specification."""
        if spec.machine_kind == "multicore":
            if spec.options:
                raise FieldError("options", f"policy {spec.policy!r} has no options on a multicore machine")
            action = Action.named(spec.policy)
            execution = Execution(ExecutionKind(spec.execution), spec.sharing, bool(spec.kill_at_limit))
            inputs = inputs or SimulationInputs.of(spec)
            return cls(inputs, action, Rules(kill_at_limit=execution.kill_at_limit), spec.seed, execution=execution)
        scheduler = _scheduler(spec)
        inputs = inputs or SimulationInputs.of(spec)
        workload, platform = inputs.workload, inputs.machine
        assert isinstance(workload, Workload)
        assert not isinstance(platform, Machine)
        kills = not isinstance(scheduler, WithExecution) if spec.kill_at_limit is None else spec.kill_at_limit
        if spec.exact_estimates:
            workload = (workload.killed_at_limit() if kills else workload).with_exact_estimates()
            inputs = replace(inputs, workload=workload)
        rules = Rules(EventOrder[spec.event_order.upper()], kills, spec.dependencies)
        shared: ExecutionModel | None = None
        if inputs.executables is not None:
            shared = QuotaExecution(profiled_jobs(workload, inputs.executables))
        elif isinstance(scheduler, WithExecution):
            shared = scheduler.execution(workload)
        allocator: Allocator | AllocationRule | BySolver | None = None
        if isinstance(platform, Cluster):
            if spec.strategy is not None:
                raise FieldError("strategy", "is for solvers that choose whole nodes of one tree")
            allocator = allocation_named(spec.allocator or "first", Budget(spec.time_limit, spec.iterations))
        elif spec.allocator is not None:
            assert platform.topology is not None
            solver, strategy = get_solver(spec.allocator), spec.strategy or "free"
            if strategy not in solver.capabilities.strategies:
                raise FieldError("allocator", f"{spec.allocator!r} does not take {strategy}")
            limits = spec.time_limit, spec.iterations
            allocator = TopologyAllocator(platform.topology, solver, strategy, *limits, seed=spec.seed)
        return cls(inputs, scheduler, rules, spec.seed, allocator, shared)

    def explanation(self, job: str) -> Explanation:
        """Return an observer that records why a job waits; raise `UsageError` if there is no such job."""
        if not isinstance(self.inputs.workload, Workload) or isinstance(self.policy, Action):
            raise UsageError("cannot explain why a job waits on a multicore machine")
        return Explanation(self.inputs.workload, job, self.policy)

    def timed(self, observer: Explanation | None = None) -> tuple[Schedule, float]:
        """Run the simulation; return its schedule and the seconds that it took, without those for compiling."""
        machine, policy, execution = self.inputs.machine, self.policy, self.execution
        if not isinstance(machine, Machine) and not isinstance(policy, Action):
            assert not isinstance(execution, Execution)
            built_in_only, changes_speed = is_built_in_only(policy, execution, observer), execution is not None
            make_ready(kernels_of(machine, policy, is_built_in_only=built_in_only, changes_speed=changes_speed))
        started = time.perf_counter()
        return self.run(observer), time.perf_counter() - started

    def run(self, observer: Explanation | None = None) -> Schedule:
        """Run the simulation and return its schedule."""
        workload, machine = self.inputs.workload, self.inputs.machine
        if isinstance(workload, TaskWorkload):
            assert isinstance(machine, Machine)
            assert isinstance(self.execution, Execution | None)
            assert isinstance(self.policy, Action)
            with problem_faults_named(self.inputs.source):
                if self.inputs.placed is not None:
                    return self.inputs.placed.replay(machine, workload, self.execution)
                return simulate(workload, machine, self.policy, seed=self.seed, execution=self.execution)
        assert not isinstance(self.execution, Execution)
        assert not isinstance(self.policy, Action)
        how: dict[str, Any] = {"allocator": self.allocator, "execution": self.execution, "observer": observer}
        how["downtimes"] = self.inputs.downtimes
        where: Any = machine
        schedule: Schedule = simulate(workload, where, self.policy, self.rules, self.seed, **how)
        return schedule

    def remarks(self, schedule: Schedule) -> tuple[str, ...]:
        """Return remarks on a schedule."""
        last_s = float(schedule.end.max(initial=0.0))
        late = sum(one.begin_s >= last_s for one in self.inputs.downtimes)
        unused = (f"downtimes that begin after all jobs have ended, {last_s:g} s: {late}",) if late else ()
        return (*schedule.remarks, *unused)

    def described(self, schedule: Schedule) -> Described:
        """Return further information in the files on the jobs and nodes of a schedule."""
        if isinstance(schedule, MulticoreSchedule):
            return Described(schedule.workload, node_names=[node.name for node in schedule.machine.nodes()])
        return self.inputs.described or Described(schedule.workload)

    def row(self, schedule: Schedule, metrics: Metrics, runtime_s: float) -> dict[str, Any]:
        """Return the measures of a schedule by column, on a multicore machine also energy, policy and execution."""
        row = asdict(SimulateRow.of(schedule, metrics, runtime_s))
        if not isinstance(schedule, MulticoreSchedule):
            return row
        assert isinstance(self.policy, Action)
        assert isinstance(self.execution, Execution)
        placed = self.inputs.placed
        row |= {name: getattr(schedule, name) for name in ("energy_j", "energy_delay_js", "flow_time_s")}
        row |= {"policy": self.policy.name if placed is None else None, "execution": str(self.execution.kind)}
        if placed is not None and placed.duration_s:
            measured = np.array([placed.duration_s[name] for name in schedule.jobs.names])
            errors = np.abs((schedule.end - schedule.start) / measured - 1.0)
            row |= {"mean_duration_error": float(errors.mean()), "max_duration_error": float(errors.max())}
        return row


VARIED = ("mean_wait_s", "max_wait_s", "mean_bounded_slowdown", "utilization")
"""Measures that are reported over variants, by their names in rows."""


def measures_of_variants(spec: SimulationSpec, variants: int) -> dict[str, Interval]:
    """Return the measures of `VARIED` over a number of variants of the jobs, drawn with the seed of the specification.

    Raises `UsageError` for fewer than two variants, and `FieldError` for jobs of tasks, as the machine determines their
    run times.
    """
    if variants < 2:
        raise UsageError(f"there are {variants} variants, must be at least 2: an interval needs several")
    inputs = SimulationInputs.of(spec)
    if not isinstance(inputs.workload, Workload):
        raise FieldError("platform", "cannot be combined with variants: the machine determines how long tasks run")
    rng, rows = np.random.default_rng(spec.seed), []
    for _ in range(variants):
        varied = replace(inputs, workload=varied_run_times(inputs.workload, rng))
        simulation = PreparedSimulation.of(spec, varied)
        schedule, runtime_s = simulation.timed()
        metrics = measure(schedule, Trim(spec.trim, spec.trim), spec.starvation)
        rows.append(simulation.row(schedule, metrics, runtime_s))
    return {name: Interval.of(np.array([row[name] for row in rows])) for name in VARIED}


def _scheduler(spec: SimulationSpec) -> AnyScheduler:
    policy = get_policy(spec.policy, spec.options)
    kinds = spec.backfill, spec.backfill_order
    scheduler = as_scheduler(backfilled(spec.policy, policy, *kinds, compression=spec.conservative_compression))
    if isinstance(scheduler, QuotaScheduler):
        for name in ("fat_tree", "topology", "cluster"):
            if getattr(spec, name) is not None:
                fault = f"cannot be combined with policy {spec.policy!r}, which lets jobs share cores of a pool"
                raise FieldError(name, f"{fault}: give processors")
    elif spec.profiles is not None:
        raise FieldError("profiles", f"is for policies that let jobs share cores, not for {spec.policy!r}")
    if isinstance(scheduler, WindowScheduler) and spec.allocator is not None:
        raise FieldError(
            "allocator", "policy 'window' has its own allocator: give options.solver and options.strategy instead"
        )
    return scheduler
