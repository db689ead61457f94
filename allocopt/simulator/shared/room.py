"""Room on a cluster with shared nodes: cores, memory and GPUs, in partitions, with constraints."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray, frozen_integers, read_only
from allocopt.cluster.cluster import UNKNOWN_MEMORY_MIB, Cluster, amounts_in_words
from allocopt.cluster.downtime import Downtime
from allocopt.cluster.platform import Platform
from allocopt.cluster.request import ClusterRequest
from allocopt.errors import InvalidProblemError, InvalidSolutionError, UsageError
from allocopt.interruption import run_in_slices
from allocopt.kernels.ready import make_ready
from allocopt.plugins import no_such_part
from allocopt.problems.placement.problem import NodeTasks, PlacementJob, PlacementProblem, Placements
from allocopt.problems.relocation.problem import PlacedJob, RelocationProblem, WaitingGang
from allocopt.problems.windows import window_problem, window_solution
from allocopt.simulator.held_nodes import Share
from allocopt.simulator.kernels.in_order import CHOOSE_NODES, OVER
from allocopt.simulator.pool import Pool
from allocopt.simulator.posed import LeaveCosts, PosedRelocation, SharedNodesWindow
from allocopt.simulator.rules import Backfill, QueueKeys, Rules
from allocopt.simulator.schedule import HOP_COST, ClusterSchedule
from allocopt.simulator.scheduler import ListScheduler, keys_of
from allocopt.simulator.shared.admission import asked_of, refuse
from allocopt.simulator.shared.downtimes import downtime_records, nodes_meeting_downtime
from allocopt.simulator.shared.passes import simulate_shared
from allocopt.simulator.shared.state import (
    ALONE,
    NOW,
    AllocationRule,
    Shared,
    SharedJobs,
    SharedMachine,
    SharedRules,
    amounts_asked,
    new_shared,
)
from allocopt.simulator.shared.stepping import (
    advance_shared,
    change_speed_shared,
    choose_shared,
    next_backfillable_shared,
    queue_shared,
    requeue_shared,
    reserve_shared,
    schedule_shared,
    shadow_shared,
    start_shared,
)
from allocopt.simulator.state import CAPACITY, FREE, NOBODY, QUEUE, RUNNING, new_state, waits
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver, solver_names
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify
from allocopt.traces.workload import Workload

MOST_IN_WINDOW = 1000
"""Largest number of waiting jobs in a window."""
_ROUNDING = 1e-9  # rounding error of a share
_SLICE = 2**20
"""Work of kernels between two checks for Ctrl-C."""


def places_of(state: Shared, job: int) -> dict[int, int]:
    """Return the tasks of a job by node; none if it has not started."""
    first, used = int(state.jobs["first"][job]), int(state.jobs["n_nodes"][job])
    return dict(state.held[:, first : first + used].T.tolist())


class PlacedBySolver(NamedTuple):
    """Chooses nodes for jobs of several nodes by a solver of placement problems, one job at a time.

    If the solver finds none, a job gets the nodes that the rule of the lowest switch chooses.
    """

    cluster: Cluster
    requests: Sequence[ClusterRequest]  # distinct ones
    request: IntArray  # number of each job's request, shape ``(n,)``
    solver: Solver
    budget: Budget  # for a job
    seed: int = 0

    def __call__(self, state: Shared, job: int) -> Sequence[NodeTasks]:
        """Return nodes and tasks for a starting job, leaving reservations their room; () if the solver finds none."""
        free, users = state.room[NOW].copy(), state.users[NOW].copy()
        for partition in np.flatnonzero(state.respected):
            nodes = state.reserved[partition]
            free[nodes] = np.minimum(free[nodes], state.room[1 + partition, nodes])
            users[nodes] = np.maximum(users[nodes], state.users[1 + partition, nodes])
        request = self.requests[self.request[job]]
        is_open = (users < ALONE) & ~state.closed & ~nodes_meeting_downtime(state, float(state.jobs["estimate"][job]))
        request = request._replace(masks=request.masks & is_open)
        tree, resources = self.cluster.topology.tree, self.cluster.resources
        problem = PlacementProblem(tree, resources, free, users > 0, (PlacementJob(str(job), request),))
        # Compile first, so that the solver's time excludes it.
        make_ready(self.solver.kernels(problem))
        found = solve(
            problem,
            solver=self.solver,
            time_limit=self.budget.seconds,
            seed=self.seed,
            iterations=self.budget.iterations,
        ).solution
        return () if found is None else found.of_jobs[0]


class BySolver(NamedTuple):
    """A solver of placement problems as an allocator, and its budget for a job."""

    solver: Solver
    budget: Budget


def allocation_named(name: str, budget: Budget) -> AllocationRule | BySolver:
    """Return a rule, such as ``first`` or ``best-fit``, or a solver of placement problems by its name.

    Raises `UsageError` if there is no such rule or solver.
    """
    rules = {rule.name.lower().replace("_", "-").replace("first-fit", "first"): rule for rule in AllocationRule}
    solvers = [one for one in solver_names("placement") if one not in rules]
    if name not in rules and name not in solvers:
        if name not in solver_names():
            raise no_such_part("allocator", name, [*rules, *solvers])
        fault = "cannot be used on a cluster with shared nodes, blocks or a forest; use one of"
        raise UsageError(f"allocator {name!r} {fault} {', '.join([*rules, *solvers])}")
    return rules[name] if name in rules else BySolver(get_solver(name, None, "placement"), budget)


class SharedNodes:
    """Room for jobs on the nodes of a cluster.

    Parameters
    ----------
    state
        State of the simulation.
    cluster
        The machine.
    requests
        Distinct requests of the jobs, from which ``state`` was made.
    request_of
        Position of each job's request among them, shape ``(n,)``.
    ids
        Ids of the jobs, for messages.
    placed_by
        Chooses nodes for jobs of several nodes; None for the rule in ``state``.
    rng
        Source of randomness, see `Room.rng`; None for a new one.
    """

    def __init__(
        self,
        state: Shared,
        cluster: Cluster,
        requests: Sequence[ClusterRequest],
        request_of: IntArray,
        ids: IntArray,
        placed_by: PlacedBySolver | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.state, self.cluster, self.guests = state, cluster, None
        self.rng = np.random.default_rng(0) if rng is None else rng
        self._requests, self._request_of, self._ids, self._placed_by = requests, request_of, ids, placed_by
        state.rules["is_asking"][:] = placed_by is not None

    @classmethod
    def of(
        cls,
        workload: Workload,
        cluster: Cluster,
        built_in: ListScheduler | None,
        rules: Rules,
        seed: int,
        *,
        demands: Mapping[str, IntArray] | None = None,
        allocator: object = None,
        is_watched: bool = False,
        downtimes: Sequence[Downtime] = (),
    ) -> "SharedNodes":
        """Return the room before the first event; see `allocopt.simulator.rooms.room_of`."""
        if demands is not None:
            raise UsageError("demands need a platform; on a cluster jobs have requests instead")
        if not isinstance(allocator, AllocationRule | BySolver):
            if not isinstance(allocator, str | None):
                known = "an `AllocationRule`, a solver of placement problems, or the name of one"
                raise UsageError(f"the allocator is {allocator!r}, on a cluster it must be {known}")
            allocator = allocation_named(allocator or "first", Budget())
        if not len(workload):
            raise InvalidProblemError("workload", f"{workload.name} holds no jobs")
        requests, request_of, faults = asked_of(workload, cluster)
        refuse(workload, faults)
        placed_by, rng = None, np.random.default_rng(seed)
        if isinstance(allocator, BySolver):
            placed_by = PlacedBySolver(cluster, requests, request_of, *allocator, seed)
            allocator = AllocationRule.LOWEST_SWITCH
        # Schedulers that use `View` see the queue in the order of arrival.
        backfill, order, tried, predicts = Backfill.FIRST_FIT, QueueKeys.by_arrival(len(workload)), None, False
        if built_in is not None:
            backfill, predicts, order = built_in.backfill, built_in.predicts, keys_of(built_in.order, workload, rng)
            if backfill is Backfill.CONSERVATIVE and not built_in.compression:
                raise UsageError(
                    "conservative backfilling on a cluster plans again in every period, so compression must be True"
                )
            if built_in.backfill_order is not None:
                tried = keys_of(built_in.backfill_order, workload, rng)
        jobs = SharedJobs(
            request_of,
            workload.submit,
            workload.run,
            workload.estimate,
            workload.estimate if rules.kill_at_limit else None,
            workload.users,
            workload.preceding_rows() if rules.dependencies else None,
            workload.think_s if rules.dependencies else None,
        )
        followed = SharedRules(allocator, backfill, event_order=rules.event_order, predicts=predicts)
        down = downtime_records(cluster, downtimes)
        state = new_shared(SharedMachine.of(cluster), requests, jobs, followed, order, tried, down)
        return cls(state, cluster, requests, request_of, workload.ids, placed_by, rng)

    @staticmethod
    def kernels(
        cluster: Cluster, built_in: ListScheduler | None, *, is_built_in_only: bool, changes_speed: bool
    ) -> tuple[Callable[..., Any], ...]:
        """Return the kernels that a simulation calls; see `allocopt.simulator.rooms.kernels_of`."""
        if is_built_in_only:
            return (simulate_shared,)
        steps = (advance_shared, change_speed_shared) if changes_speed else (advance_shared,)
        if built_in is not None:
            return (*steps, schedule_shared)
        asked = (queue_shared, shadow_shared, reserve_shared, next_backfillable_shared)
        return (*steps, *asked, choose_shared, start_shared, requeue_shared)

    @cached_property
    def _shown(self) -> IntArray:
        """Columns of resources that schedulers see; see the function `_shown`."""
        return _shown(self._requests, self.cluster)

    @cached_property
    def platform(self) -> Platform:
        """The machine as schedulers see it: cores and GPUs in thousandths, memory in MiB."""
        names = tuple(self.cluster.resources[column] for column in self._shown.tolist())
        return Platform(names, self.cluster.capacity[:, self._shown], topology=self.cluster.topology.tree)

    @cached_property
    def request(self) -> IntArray:
        """Request of each job over all nodes, if it gets the fewest nodes that it accepts."""
        asked = np.stack([amounts_asked(one, self.cluster.capacity) for one in self._requests])
        return read_only(asked[:, self._shown][self._request_of])

    @cached_property
    def _pool(self) -> Pool:
        units, size = self.cluster.processors, pool_sizes(self._requests, self.cluster)[self._request_of]
        # Agents must not see run times, so use the estimates instead.
        estimate = self.state.jobs["estimate"].copy()
        jobs = Workload("jobs", self._ids, self.state.jobs["submit"].copy(), estimate, size, estimate)
        by_arrival = QueueKeys.by_arrival(len(size))
        rules = Rules(dependencies=False)
        state = new_state(jobs, size[:, None], np.array([units]), rules, Backfill.EASY, by_arrival)
        return Pool(state, Platform.pool(units), self._ids)

    def as_pool(self) -> Pool:
        """Return a pool with the jobs that wait or run now; see `View.as_pool`."""
        pool, jobs = self._pool, self.state.jobs
        waiting, running = self.first(len(self._ids)), self.running
        state = pool.state
        state.lists[QUEUE, : len(waiting)], state.lists[RUNNING, : len(running)] = waiting, running
        state.jobs["release"][waiting] = jobs["release"][waiting]
        state.jobs["expected_end"][running] = jobs["expected_end"][running]
        # The total may exceed the pool, because jobs may have their largest shares of different resources.
        state.units[FREE] = max(0, int(state.units[CAPACITY, 0]) - int(state.request[running, 0].sum()))
        state.clock["now"][0] = self.state.clock["now"][0]
        state.clock["n_queued"][0], state.clock["n_running"][0] = len(waiting), len(running)
        return pool

    @property
    def tracks_nodes(self) -> bool:
        """Whether the nodes of each job are known; always true."""
        return True

    @property
    def can_run_to_end(self) -> bool:
        """Whether `run` can simulate a built-in scheduler to the end; always true."""
        return True

    def run(self) -> None:
        """Simulate the built-in scheduler until no event is left."""
        run_in_slices(lambda work: self._answered(simulate_shared(self.state, work)) * work, _SLICE)

    def advance(self, until: float) -> int:
        """Advance to the next scheduling point, but not beyond ``until``, in seconds."""
        self.state.clock["wake"][0] = min(self.state.clock["wake"][0], self.state.clock["next_walk"][0])
        return advance_shared(self.state, until)

    def schedule(self) -> None:
        """Run a pass of the built-in scheduler."""
        while self._answered(schedule_shared(self.state, _SLICE)):
            pass

    def _answered(self, said: int) -> bool:
        """Let the solver choose nodes if the kernel asks for it; return whether the kernel must be called again."""
        if said == CHOOSE_NODES and self._placed_by is not None:
            job = int(self.state.queue["looked_at"][self.state.waiting[1, 0]])
            self.state.clock["n_chosen"][0] = self._choose(job, self.state.clock["n_chosen"][0])
        return said != OVER

    def _choose(self, job: int, used: int) -> int:
        """Let the solver, if any, replace the nodes that the rule has chosen for a job; return their number."""
        chosen = () if self._placed_by is None or used < 2 else self._placed_by(self.state, job)
        for at, place in enumerate(chosen):
            self.state.chosen[[0, 3], at] = place
        return len(chosen) or used

    def change_speed(self, job: int, speed: float) -> None:
        """Change the speed of a running job from now on."""
        change_speed_shared(self.state, job, speed)

    @property
    def head(self) -> int | None:
        """The first waiting job; None if no job waits."""
        first = self.first(1)
        return int(first[0]) if len(first) else None

    def first(self, most: int) -> IntArray:
        """Return the first waiting jobs in the order of the queue, ``most`` at most."""
        jobs = np.empty(min(most, int(self.state.clock["n_queued"][0])), dtype=np.int64)
        queue_shared(self.state, jobs)
        return jobs

    def fits(self, job: int) -> bool:
        """Whether a waiting job fits now."""
        return choose_shared(self.state, job) > 0

    def fitting(self, jobs: IntArray) -> BoolArray:
        """Return whether each of some waiting jobs fits now; each shape is checked only once."""
        shapes = self.state.jobs["shape"][jobs]
        _, first, of_job = np.unique(shapes, return_index=True, return_inverse=True)
        return np.array([self.fits(job) for job in jobs[first].tolist()], dtype=np.bool_)[of_job.reshape(-1)]

    def shadow(self, job: int) -> tuple[float, IntArray]:
        """Return when a waiting job can start by the estimates, and the spare units then; see `View.shadow`."""
        time, running = float(shadow_shared(self.state, job)), self.running
        over = running[np.maximum(self.state.jobs["expected_end"][running], self.state.clock["now"][0]) <= time]
        spare: IntArray = self.free + self.request[over].sum(axis=0) - self.request[job]
        return time, spare

    def backfillable(self, heads: Sequence[int]) -> Iterator[int]:
        """Yield waiting jobs that may start now without delaying the heads; see `View.backfillable`."""
        partitions = self.state.shapes["partition"][self.state.jobs["shape"][list(heads)]] if heads else []
        if len(np.unique(partitions)) < len(heads):
            raise UsageError("only one job of each partition can have a reservation")
        reserve_shared(self.state, np.array(heads, dtype=np.int64))
        job = NOBODY
        while (job := int(next_backfillable_shared(self.state, job))) != NOBODY:
            yield job

    def window(
        self, jobs: IntArray, name: str, hop_cost: float = HOP_COST, *, overtaking: bool = False
    ) -> SharedNodesWindow:
        """Return the problem of choosing nodes for those jobs that the rule of the lowest switch can place.

        The rule places the jobs in the given order. If not ``overtaking``, jobs after the first one of their partition
        that does not fit are left out. See `View.window`.
        """
        fits = self.fitting(jobs) if len(jobs) else np.zeros(0, dtype=np.bool_)
        fitting = (jobs[fits] if overtaking else self._before_first(jobs, ~fits))[:MOST_IN_WINDOW]
        if not len(fitting):
            return SharedNodesWindow((), None, None)
        free, users = self.state.room[NOW], self.state.users[NOW]
        asked = {job: self._requests[self._request_of[job]] for job in fitting.tolist()}
        asked = {job: one._replace(masks=one.masks & self._is_open(job)) for job, one in asked.items()}
        named = {str(self._ids[job]): one for job, one in asked.items()}
        problem = PlacementProblem.of(self.cluster, named, free, users > 0, hop_cost, name)
        found = dict(zip(asked, solve(problem, solver="cons-tres").found().of_jobs, strict=True))
        is_placed = np.array([bool(found[job]) for job in asked])
        placed = (fitting[is_placed] if overtaking else self._before_first(fitting, ~is_placed)).tolist()
        named = {str(self._ids[job]): asked[job] for job in placed}
        posed = window_problem(self.cluster, named, free, users > 0, name, hop_cost)
        return SharedNodesWindow(tuple(placed), posed, window_solution(posed, [dict(found[job]) for job in placed]))

    def relocation(self, gangs: Mapping[int, float], leaving: Mapping[int, LeaveCosts], name: str) -> PosedRelocation:
        """Return the problem of stopping or moving running jobs for waiting jobs; see `View.relocation`."""
        running, now = self.running.tolist(), self.state.clock["now"][0]
        capacity, placed = self.state.room[NOW].copy(), []
        for job in running:
            request, places = self._requests[self._request_of[job]], places_of(self.state, job)
            nodes, tasks = np.array(list(places.items()), dtype=np.int64).reshape(-1, 2).T
            capacity[nodes] += self.cluster.capacity[nodes] if request.is_exclusive else request.use(tasks)
            # A job that ends now can neither be stopped nor moved.
            costs = leaving.get(job, LeaveCosts()) if self.state.jobs["end"][job] > now else LeaveCosts()
            at = tuple(map(NodeTasks, nodes.tolist(), tasks.tolist()))
            placed.append(PlacedJob(str(self._ids[job]), self._request_now(job), at, costs.stop, costs.move))
        problem = RelocationProblem(
            topology=self.cluster.topology.tree,
            resources=self.cluster.resources,
            capacity=capacity,
            running=tuple(placed),
            waiting=tuple(
                WaitingGang(str(self._ids[job]), self._request_now(job), cost) for job, cost in gangs.items()
            ),
            emptied=np.zeros(self.cluster.size, dtype=np.bool_),
            name=name,
        )
        return PosedRelocation(problem, {str(self._ids[job]): job for job in (*running, *gangs)})

    def _request_now(self, job: int) -> ClusterRequest:
        """Return the request of a job, without the nodes whose downtimes it would meet if it started now."""
        request: ClusterRequest = self._requests[self._request_of[job]]
        is_down = self._is_down(job)
        return request._replace(masks=request.masks & ~is_down) if is_down.any() else request

    def least_nodes(self, job: int) -> int:
        """Return the fewest nodes that a job requests."""
        request: ClusterRequest = self._requests[self._request_of[job]]
        return request.least_nodes

    def _before_first(self, jobs: IntArray, is_refused: BoolArray) -> IntArray:
        """Return the jobs before the first refused one of their partition."""
        partitions = self.state.shapes["partition"][self.state.jobs["shape"][jobs]]
        first = np.full(self.state.partitions.size, len(jobs))
        np.minimum.at(first, partitions[is_refused], np.flatnonzero(is_refused))
        kept: IntArray = jobs[np.arange(len(jobs)) < first[partitions]]
        return kept

    def _is_open(self, job: int) -> BoolArray:
        """Return for each node whether a job may use it: no job holds it exclusively, and no downtime would be met."""
        is_open: BoolArray = (self.state.users[NOW] < ALONE) & ~self._is_down(job)
        return is_open

    def _is_down(self, job: int) -> BoolArray:
        """Return whether each node has a known downtime that a job would meet if it started now."""
        return nodes_meeting_downtime(self.state, float(self.state.jobs["estimate"][job]))

    def start(self, job: int, nodes: IntArray | None = None, tasks: IntArray | None = None) -> bool:
        """Start a job, on given nodes and with given tasks if any; return False if it does not wait, or does not fit.

        Raises `InvalidSolutionError` if the nodes do not satisfy its request, or are not free.
        """
        if not waits(self.state, job):
            return False
        if nodes is None and tasks is not None:
            raise InvalidSolutionError(f"tasks are given for job {self._ids[job]}, but no nodes")
        used = self._choose(job, choose_shared(self.state, job)) if nodes is None else self._take(job, nodes, tasks)
        if used > 0:
            start_shared(self.state, job, used)
        return used > 0

    def _take(self, job: int, chosen: IntArray, given: IntArray | None) -> int:
        """Write the given nodes and tasks to ``chosen``; raise `InvalidSolutionError` if the job cannot have them."""
        nodes, tasks = frozen_integers(chosen), None if given is None else frozen_integers(given)
        request, free, size = self._requests[self._request_of[job]], self.state.room[NOW], len(self.state.order)
        name = f"job {self._ids[job]}"
        if nodes.ndim != 1 or (tasks is not None and tasks.shape != nodes.shape):
            shapes = f"shape {nodes.shape}" if tasks is None else f"shapes {nodes.shape} and {tasks.shape}"
            raise InvalidSolutionError(f"{name} gets nodes and tasks of {shapes}, must be lists of the same length")
        wrong = nodes[(nodes < 0) | (nodes >= size)]
        if wrong.size:
            raise InvalidSolutionError(f"{name} gets node {wrong[0]}, but nodes are numbered 0 to {size - 1}")
        alone = nodes[self.state.users[NOW, nodes] >= ALONE]
        if alone.size:
            raise InvalidSolutionError(f"{name} gets node {alone[0]}, which another job holds exclusively")
        down = nodes[self._is_down(job)[nodes]]
        if down.size:
            raise InvalidSolutionError(f"{name} gets node {down[0]}, which is down or will be down before the job ends")
        placement = PlacementProblem.of(self.cluster, {str(self._ids[job]): request}, free, self.state.users[NOW] > 0)
        tasks = request.spread(free, nodes) if tasks is None else tasks
        verify(placement, Placements((tuple(map(NodeTasks, nodes.tolist(), tasks.tolist())),)))
        self.state.chosen[0, : len(nodes)], self.state.chosen[3, : len(nodes)] = nodes, tasks
        return len(nodes)

    def requeue(self, job: int) -> None:
        """Stop a running job and put it into the queue again."""
        requeue_shared(self.state, job)

    def settle(self) -> None:
        """Do nothing, as jobs have nodes when they start."""

    def held_by(self, job: int) -> Share:
        """Return the share of a started job."""
        nodes, tasks = np.array(list(places_of(self.state, job).items()), dtype=np.int64).reshape(-1, 2).T
        request = self._requests[self._request_of[job]]
        units = request.per_node + tasks[:, None] * request.per_task
        held = self.cluster.capacity[nodes] if request.is_exclusive else units
        return Share(nodes, held[:, self._shown])

    def partition_of(self, job: int) -> str:
        """Return the name of the partition in whose queue a job is; empty on a cluster without partitions."""
        partitions = self.cluster.partitions
        return partitions[self._requests[self._request_of[job]].partition].name if partitions else ""

    def asks(self, job: int) -> str:
        """Return the request of a job in words: tasks, amounts of each task, and nodes."""
        request = self._requests[self._request_of[job]]
        least, most = request.least_nodes, request.most_nodes
        on_nodes = _counted(least, "node") if least == most else f"{least} to {most} nodes"
        per_task, per_node = (
            amounts_in_words(self.cluster.resources, amounts) for amounts in (request.per_task, request.per_node)
        )
        of_task = f" of {per_task}" if per_task else ""
        of_node = f" with {per_node} each" if per_node else ""
        alone = " (exclusive)" if request.is_exclusive else ""
        return f"{_counted(request.tasks, 'task')}{of_task} on {on_nodes}{of_node}{alone}"

    def there_for(self, job: int) -> str:
        """Return in words for how many tasks of a job there is room, and on how many nodes."""
        request, users = self._requests[self._request_of[job]], self.state.users[NOW]
        is_open = request.masks.any(axis=0) & self._is_open(job) & ((users == 0) | (not request.is_exclusive))
        room = request.room(self.state.room[NOW]) * is_open
        tasks, nodes = min(int(room.sum()), request.tasks), int((room > 0).sum())
        down = int((request.masks.any(axis=0) & self._is_down(job)).sum())
        told = f"room for {tasks} of them on {_counted(nodes, 'node')} now"
        is_down = "down for maintenance or a failure, or will be before it ends"
        return f"{told} ({is_down}: {_counted(down, 'node')})" if down else told

    def in_words(self, units: IntArray) -> str:
        """Return amounts of each resource that schedulers see, in words."""
        amounts = np.zeros(len(self.cluster.resources), dtype=np.int64)
        amounts[self._shown] = units
        return amounts_in_words(self.cluster.resources, amounts) or "nothing"

    @property
    def running(self) -> IntArray:
        """Running jobs by their expected ends."""
        return self.state.lists[RUNNING, : self.state.clock["n_running"][0]]

    @property
    def free(self) -> IntArray:
        """Idle units of each resource over all nodes."""
        idle: IntArray = self.free_units.sum(axis=0)
        return idle

    @property
    def free_units(self) -> IntArray:
        """Idle units of each resource on each node."""
        idle: IntArray = self.state.room[NOW][:, self._shown] * ~nodes_meeting_downtime(self.state, 0.0)[:, None]
        return idle

    @property
    def idle_nodes(self) -> IntArray:
        """Nodes that are not down and that no job holds, in ascending order."""
        return np.flatnonzero((self.state.users[NOW] == 0) & ~nodes_meeting_downtime(self.state, 0.0))

    def result(self, workload: Workload, release: FloatArray, start: FloatArray, end: FloatArray) -> ClusterSchedule:
        """Return the schedule of a finished simulation."""
        first, used = self.state.jobs["first"].tolist(), self.state.jobs["n_nodes"].tolist()
        parts = [slice(at, at + n) for at, n in zip(first, used, strict=True)]
        nodes, tasks = (tuple(row[part] for part in parts) for row in self.state.held.copy())
        ends = np.cumsum(used)
        whole = np.add.reduceat(self.cluster.capacity[np.concatenate(nodes)], np.append(0, ends[:-1]))
        shared = np.array([one.tasks * one.per_task for one in self._requests])[self._request_of]
        shared += np.array(used)[:, None] * np.array([one.per_node for one in self._requests])[self._request_of]
        is_exclusive = np.array([one.is_exclusive for one in self._requests])[self._request_of]
        amounts = np.where(is_exclusive[:, None], whole, shared)
        times = {"release": release, "start": start, "end": end}
        return ClusterSchedule.of(workload, self.cluster, **times, nodes=nodes, tasks=tasks, amounts=amounts)


def _shown(requests: Sequence[ClusterRequest], cluster: Cluster) -> IntArray:
    """Return the columns of resources that schedulers see: cores, and requested ones whose amounts are known."""
    asked = np.stack([amounts_asked(one, cluster.capacity) for one in requests]).max(axis=0)
    most = cluster.capacity.max(axis=0)
    return np.flatnonzero((asked > 0) & (most < UNKNOWN_MEMORY_MIB) | (np.arange(len(asked)) == 0))


def pool_sizes(requests: Sequence[ClusterRequest], cluster: Cluster) -> IntArray:
    """Return the units of each request in a pool with as many units as a cluster has cores, shape ``(k,)``.

    They are the largest share of the request over all resources, rounded up; see `View.as_pool`.
    """
    shown, units = _shown(requests, cluster), cluster.processors
    asked = np.stack([amounts_asked(one, cluster.capacity) for one in requests])[:, shown]
    share = (asked / np.maximum(cluster.capacity[:, shown].sum(axis=0), 1)).max(axis=1)
    sizes: IntArray = np.clip(np.ceil(share * units - _ROUNDING), 1, units).astype(np.int64)
    return sizes


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
