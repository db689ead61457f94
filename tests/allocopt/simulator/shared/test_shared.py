"""Jobs that share nodes: the kernel schedules as the slow simulation does, and no node is ever overcommitted."""

import contextlib
import math
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.named import Switch, tree_of_switches
from allocopt.cluster.request import ClusterRequest, Request
from allocopt.errors import InvalidProblemError
from allocopt.simulator.rules import Backfill
from allocopt.simulator.shared.simulation import PlacedBySolver, SharedSchedule, run_shared
from allocopt.simulator.shared.state import Allocation, SharedRules, new_shared
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import get_solver

PERIOD_S = 4.0


@dataclass
class _Running:
    job: int
    request: ClusterRequest
    end: float
    expected_end: float
    tasks: dict[int, int]


@dataclass
class _Plan:
    job: int
    shadow: float
    tasks: dict[int, int]
    is_stale: bool = False


@dataclass
class SlowShared:
    """The simulation once more, as plain as can be, of jobs with their kinds of requests, times and estimates."""

    cluster: Cluster
    requests: list[ClusterRequest]
    request: IntArray
    submit: FloatArray
    run: FloatArray
    estimate: FloatArray
    rank: IntArray
    allocation: Allocation
    backfill: Backfill
    depth: int
    queue: list[int] = field(default_factory=list)
    running: list[_Running] = field(default_factory=list)
    plans: dict[int, _Plan] = field(default_factory=dict)
    started: dict[int, tuple[float, dict[int, int]]] = field(default_factory=dict)

    def simulate(self) -> dict[int, tuple[float, dict[int, int]]]:
        """Return start and tasks by node of every job that starts."""
        coming = list(range(len(self.submit)))
        walk = math.inf
        while coming or self.running:
            event = min([self.submit[job] for job in coming[:1]] + [one.end for one in self.running])
            now = min(event, walk)
            if event == now and self.backfill is Backfill.CONSERVATIVE:
                walk = min(walk, math.ceil(now / PERIOD_S) * PERIOD_S)
            for one in sorted((one for one in self.running if one.end == now), key=lambda one: one.job):
                self.running.remove(one)
                for plan in self.plans.values():
                    useful = self.requests[self.request[plan.job]].masks.any(axis=0)
                    plan.is_stale |= any(useful[node] for node in one.tasks)
            while coming and self.submit[coming[0]] == now:
                self.queue.append(coming.pop(0))
            self.queue.sort(key=lambda job: int(self.rank[job]))
            self.look(now)
            if walk <= now:
                planned = self.walk(now)
                walk = math.ceil(planned / PERIOD_S) * PERIOD_S if planned < math.inf else math.inf
        return self.started

    def look(self, now: float) -> None:
        """Start jobs without backfilling, or beside the reservations of the partitions."""
        blocked: dict[int, _Plan | None] = {}
        for job in list(self.queue):
            request = self.requests[self.request[job]]
            if request.partition in blocked and self.backfill is not Backfill.EASY:
                continue
            tables = [self.free(self.running)]
            tables += [
                self.free(self.still_at(plan.shadow), plan)
                for plan in blocked.values()
                if plan is not None and now + self.estimate[job] > plan.shadow
            ]
            tasks = self.choose(request, tables)
            if tasks:
                self.start(job, now, tasks)
            elif request.partition not in blocked:
                plan = self.plans.get(request.partition)
                if self.backfill is Backfill.EASY and (
                    plan is None or plan.job != job or plan.is_stale or plan.shadow <= now
                ):
                    plan = self.plan(job, now)
                    self.plans[request.partition] = plan
                blocked[request.partition] = plan if self.backfill is Backfill.EASY else None
        self.plans = {partition: plan for partition, plan in self.plans.items() if partition in blocked}

    def start(self, job: int, now: float, tasks: dict[int, int]) -> None:
        self.queue.remove(job)
        self.started[job] = now, tasks
        request, end, expected = self.requests[self.request[job]], now + self.run[job], now + self.estimate[job]
        self.running.append(_Running(job, request, end, expected, tasks))

    def walk(self, now: float) -> float:
        """Start jobs that fit beside the reservations of all before them; return the first time that is planned."""
        slots: list[tuple[float, float, set[int]]] = []
        planned = math.inf
        for job in list(self.queue):
            opens = now
            while opens < math.inf:
                since, until = opens, opens + self.estimate[job]
                over = [slot for slot in slots if slot[1] > since and slot[0] <= until]
                opens = min([slot[1] for slot in over], default=math.inf)
                closed = set().union(*(slot[2] for slot in over))
                begin, tasks = self.first_fit(job, now, closed)
                begin = max(begin, since)
                if not tasks or begin > opens:
                    continue
                if begin <= now:
                    self.start(job, now, tasks)
                    break
                first, last = (math.floor(time / 60) * 60.0 for time in (begin, begin + self.estimate[job]))
                last = max(last, first + 60.0)
                if begin > since and any(a < last and b > first and nodes & tasks.keys() for a, b, nodes in slots):
                    opens = begin
                    continue
                slots.append((first, last, set(tasks)))
                planned = min(planned, begin)
                break
            if len(slots) == self.depth:
                break
        return planned

    def first_fit(self, job: int, now: float, closed: set[int]) -> tuple[float, dict[int, int]]:
        """Return when a job fits by the estimates on nodes that are not closed, and where."""
        request = self.requests[self.request[job]]
        request = request._replace(masks=request.masks & ~np.isin(np.arange(self.cluster.size), list(closed)))
        if tasks := self.choose(request, [self.free(self.running)]):
            return now, tasks
        open_nodes = set(np.flatnonzero(request.masks.any(axis=0)).tolist())
        ending = sorted(self.running, key=lambda one: one.expected_end)
        window, first = 30.0, math.nan
        while any(one.tasks.keys() & open_nodes for one in ending):
            time = now
            while ending:
                one = ending.pop(0)
                if not one.tasks.keys() & open_nodes:
                    continue
                time = max(one.expected_end, now)
                first = math.floor(time / 30) * 30 + 30 if math.isnan(first) else first
                if ending and ending[0].expected_end > first + window:
                    break
            window *= 2
            while ending and ending[0].expected_end > first + window:
                window *= 2
            if tasks := self.choose(request, [self.free(ending)]):
                return max(time, now + 1.0), tasks
        return now, {}

    def still_at(self, time: float) -> list[_Running]:
        return [one for one in self.running if one.expected_end > time]

    def free(self, running: list[_Running], plan: _Plan | None = None) -> tuple[IntArray, IntArray]:
        """Return amounts and numbers of jobs by node beside jobs that run, and one that is planned."""
        room, users = self.cluster.capacity.copy(), np.zeros(self.cluster.size, dtype=np.int64)
        held = [(one.request, one.tasks) for one in running]
        if plan is not None:
            held.append((self.requests[self.request[plan.job]], plan.tasks))
        for request, tasks in held:
            for node, count in tasks.items():
                users[node] += 1000 if request.is_exclusive else 1
                whole = self.cluster.capacity[node]
                room[node] -= whole if request.is_exclusive else request.per_node + count * request.per_task
        return room, users

    def plan(self, job: int, now: float) -> _Plan:
        """Return the reservation of a job that does not fit now."""
        request = self.requests[self.request[job]]
        for time in sorted({max(one.expected_end, now) for one in self.running}):
            plan = _Plan(job, time, {})
            tasks = self.choose(request, [self.free(self.still_at(time), plan)])
            if tasks:
                return _Plan(job, time, tasks)
        raise AssertionError("fits nowhere")

    def choose(self, request: ClusterRequest, tables: list[tuple[IntArray, IntArray]]) -> dict[int, int]:
        """Return tasks by node for a job that has to fit in all tables, none if it does not."""
        room = np.full(self.cluster.size, request.most_tasks)
        for free, users in tables:
            fits = request.room(free)
            room = np.minimum(room, np.where(users >= (1 if request.is_exclusive else 1000), 0, fits))
        for mask in request.masks:
            found = self.choose_from(request, np.where(mask, room, 0), tables[0][0][:, 0])
            if found:
                return found
        return {}

    def choose_from(self, request: ClusterRequest, room: IntArray, cores: IntArray) -> dict[int, int]:
        """Return tasks by node of nodes with some room."""
        groups, limits = self.cluster.topology.tree.groups, request.most_groups
        level = next((level for level, most in enumerate(limits) if most == 1), None)
        if self.allocation is Allocation.LOWEST_SWITCH and not (level and limits[level - 1]):
            for lower in range(len(groups) if level is None else level):
                if found := self.within(request, room, cores, groups[lower]):
                    return found
        if level is None:
            return self.among(request, room, cores)
        return self.within(request, room, cores, groups[level], groups[level - 1] if level else None, limits[level - 1])

    def within(
        self, request: ClusterRequest, room: IntArray, cores: IntArray, groups: IntArray,
        below: IntArray | None = None, most_below: int = 0,
    ) -> dict[int, int]:  # fmt: skip
        """Return tasks by node of the fullest group that has room."""
        sums = [(int(room[groups == group].sum()), group) for group in np.unique(groups)]
        for total, group in sorted(sums):
            inside: BoolArray = groups == group
            if total < request.tasks or np.count_nonzero(room[inside]) < request.least_nodes:
                continue
            if below is not None and most_below:
                parts = sorted((-int(room[below == part].sum()), part) for part in np.unique(below[inside]))
                inside = inside & np.isin(below, [part for total, part in parts[:most_below] if total])
            if found := self.among(request, np.where(inside, room, 0), cores):
                return found
        return {}

    def among(self, request: ClusterRequest, room: IntArray, cores: IntArray) -> dict[int, int]:
        """Return tasks by node of nodes in the order of the rule, or of those with most room."""
        least = request.tasks if request.most_nodes == 1 else 1
        order = sorted(range(self.cluster.size), key=lambda node: (self.cluster.nodes[node].weight, node))
        nodes = [node for node in order if room[node] >= least]
        sign = {Allocation.FIRST_FIT: 0, Allocation.LEAST_LOADED: -1}.get(self.allocation, 1)
        if sign:
            nodes.sort(key=lambda node: (sign * cores[node], node))
        by_room = sorted(nodes, key=lambda node: (-room[node], node))
        return self.taken(request, room, nodes) or self.taken(request, room, by_room)

    @staticmethod
    def taken(request: ClusterRequest, room: IntArray, nodes: list[int]) -> dict[int, int]:
        """Give tasks to nodes in order, so many that every node that is needed gets one."""
        tasks: dict[int, int] = {}
        left = request.tasks
        for node in nodes[: request.most_nodes]:
            if left == 0 and len(tasks) >= request.least_nodes:
                break
            tasks[node] = int(min(room[node], left - max(request.least_nodes - len(tasks) - 1, 0)))
            left -= tasks[node]
        return tasks if left == 0 and len(tasks) >= request.least_nodes else {}


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    names = [[f"n{leaf}-{node}" for node in range(size)] for leaf, size in enumerate(sizes)]
    switches = [Switch(f"s{leaf}", tuple(below)) for leaf, below in enumerate(names)]
    if draw(st.booleans()) and len(switches) > 1:
        switches.append(Switch("top", switches=tuple(switch.name for switch in switches)))
    nodes = [
        ClusterNode(
            name,
            draw(st.integers(1, 4)),
            draw(st.sampled_from([None, 10, 20])),
            draw(st.sampled_from([{}, {"a": 1}, {"a": 2}, {"b": 1}])),
            frozenset(draw(st.sets(st.sampled_from("xy")))),
            draw(st.integers(1, 2)),
        )
        for below in names
        for name in below
    ]
    flat = [name for below in names for name in below]
    partitions = [
        Partition(f"p{number}", tuple(draw(st.sets(st.sampled_from(flat), min_size=1))), is_exclusive=number == 2)
        for number in range(draw(st.integers(0, 3)))
    ]
    return Cluster.of(nodes, tree_of_switches(switches), partitions)


@st.composite
def requests(draw: st.DrawFn, cluster: Cluster) -> Request:
    least = draw(st.integers(1, 3))
    return Request(
        draw(st.none() | st.integers(1, 6)), least, draw(st.none() | st.integers(least, 4)),
        draw(st.none() | st.integers(1, 4)), draw(st.sampled_from([0, 1, 2])), draw(st.sampled_from([None, 3, 10])),
        gpus_per_node=draw(st.sampled_from([(), (("", 1),), (("a", 1),)])),
        partition=draw(st.sampled_from([None, *(one.name for one in cluster.partitions)])),
        constraint=draw(st.sampled_from([None, "x", "x|y", "[x|y]", "x&y"])), is_exclusive=draw(st.booleans()),
    )  # fmt: skip


@st.composite
def simulations(draw: st.DrawFn) -> SlowShared:
    cluster, made = draw(clusters()), []
    for request in draw(st.lists(requests(cluster), min_size=1, max_size=4)):
        with contextlib.suppress(InvalidProblemError):
            made.append(request.on(cluster))
    assume(made)
    n = draw(st.integers(1, 14))

    def column(*values: float) -> FloatArray:
        return np.array(draw(st.lists(st.sampled_from(values), min_size=n, max_size=n)))

    estimate, run = column(3.0, 5.0, 20.0, 70.0, 100.0, 250.0), column(1.0, 3.0, 5.0, 30.0, 100.0)
    return SlowShared(
        cluster, made, column(*range(len(made))).astype(np.int64), np.sort(column(*map(float, range(13)))),
        run if draw(st.booleans()) else np.minimum(run, estimate), estimate,
        np.array(draw(st.permutations(range(n)) if draw(st.booleans()) else st.just(range(n)))),
        draw(st.sampled_from(Allocation)), draw(st.sampled_from([Backfill.NONE, Backfill.EASY, Backfill.CONSERVATIVE])),
        draw(st.sampled_from([1, 3, 100])),
    )  # fmt: skip


def run(slow: SlowShared, solver: str | None = None) -> SharedSchedule:
    times, rules = (slow.submit, slow.run, slow.estimate), (slow.allocation, slow.backfill, PERIOD_S, slow.depth)
    state = new_shared(slow.cluster, slow.requests, slow.request, *times, slow.rank, SharedRules(*rules))
    if solver is None:
        return run_shared(state)
    asked = get_solver(solver, None, "placement")
    return run_shared(state, PlacedBySolver(slow.cluster, slow.requests, slow.request, asked, Budget(1.0)))


def check_no_node_is_overcommitted(slow: SlowShared, schedule: SharedSchedule) -> None:
    for time in schedule.start:
        used = np.zeros_like(slow.cluster.capacity)
        alone = np.zeros(slow.cluster.size, dtype=np.int64)
        for job in np.flatnonzero((schedule.start <= time) & (schedule.end > time)):
            request = slow.requests[slow.request[job]]
            nodes, counts = schedule.nodes[job], schedule.tasks[job]
            assert counts.sum() == request.tasks
            assert counts.min() >= 1
            assert request.least_nodes <= len(set(nodes)) == len(nodes) <= request.most_nodes
            assert any(mask[nodes].all() for mask in request.masks)
            used[nodes] += request.per_node + counts[:, None] * request.per_task
            alone[nodes] += 1000 if request.is_exclusive else 1
            for row, most in zip(slow.cluster.topology.tree.groups, request.most_groups, strict=True):
                assert most == 0 or len(set(row[nodes])) <= most
        assert (used <= slow.cluster.capacity).all()
        assert ((alone < 1000) | (alone == 1000)).all()


@given(simulations())
def test_the_kernel_schedules_as_the_slow_simulation_does_and_overcommits_nothing(slow: SlowShared) -> None:
    schedule, expected = run(slow), slow.simulate()
    assert len(expected) == len(slow.submit)
    for job, (start, tasks) in expected.items():
        assert (schedule.start[job], dict(zip(schedule.nodes[job], schedule.tasks[job], strict=True))) == (start, tasks)
    check_no_node_is_overcommitted(slow, schedule)


@given(simulations())
def test_nodes_chosen_by_a_solver_are_kept_and_overcommit_nothing(slow: SlowShared) -> None:
    by_rule, by_solver = run(replace(slow, allocation=Allocation.LOWEST_SWITCH)), run(slow, "cons-tres")
    check_no_node_is_overcommitted(slow, by_solver)
    if slow.allocation is Allocation.LOWEST_SWITCH:
        # The solver follows the same rule.
        assert by_solver.start.tolist() == by_rule.start.tolist()
        assert [nodes.tolist() for nodes in by_solver.nodes] == [sorted(nodes.tolist()) for nodes in by_rule.nodes]
