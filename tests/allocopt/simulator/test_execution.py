"""Execution models: jobs whose speed depends on where they run, on who runs beside them, and on their guests."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.schedulers import PlainEasy, PlainFcfs
from support.simulations import machine_of, rules, small_workloads
from support.workloads import workload

from allocopt.cluster.platform import Part, Platform
from allocopt.cluster.topology import FatTree, Pairs
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.simulator.decisions import Decision, PlaceGuest, Start
from allocopt.simulator.execution import Change, HopSlowdown, Locality
from allocopt.simulator.held_nodes import BreadthFirst, DepthFirst, Guest
from allocopt.simulator.metrics import measure
from allocopt.simulator.rules import Backfill, Rules
from allocopt.simulator.scheduler import ListScheduler, SchedulerError
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload


def pace(running: int) -> Fraction:
    """Return a speed that floats keep exactly, so that no tie is lost to rounding."""
    return Fraction(1, {1: 1, 2: 2}.get(running, 4))


def share_slowly(jobs: Workload, machine: int, rules: Rules) -> tuple[list[float], list[float]]:
    """Start and end of every job, when all run at a speed that depends on how many run; events are batched."""
    submit, processors = [Fraction(time) for time in jobs.submit], jobs.processors.tolist()
    left = [Fraction(time) for time in jobs.run]
    start: dict[int, Fraction] = {}
    end: dict[int, Fraction] = {}
    now, queue, arrived = Fraction(0), [], 0
    while len(end) < len(jobs):
        running = [job for job in start if job not in end]
        speed = pace(len(running))
        limit = {job: start[job] + Fraction(jobs.estimate[job]) for job in running if rules.kill_at_limit}
        ends = {job: min(now + left[job] / speed, limit.get(job, now + left[job] / speed)) for job in running}
        time = min([*submit[arrived : arrived + 1], *ends.values()])
        for job in running:
            left[job] -= (time - now) * speed
        now = time
        end |= {job: now for job in running if ends[job] == now}
        while arrived < len(jobs) and submit[arrived] == now:
            queue.append(arrived)
            arrived += 1
        free = machine - sum(processors[job] for job in start if job not in end)
        while queue and processors[queue[0]] <= free:
            free -= processors[queue[0]]
            start[queue.pop(0)] = now
    rows = range(len(jobs))
    return [float(start[job]) for job in rows], [float(end[job]) for job in rows]


NOT_KILLED = Rules(kill_at_limit=False)


@dataclass
class Crowding:
    """Jobs slow each other down by powers of two; what a model is told adds up."""

    running: set[int] = field(default_factory=set)
    started: list[int] = field(default_factory=list)

    def speeds(self, change: Change) -> Iterator[tuple[int, float]]:
        assert set(change.ended.tolist()) <= self.running
        self.running = self.running - set(change.ended.tolist()) | set(change.started.tolist())
        assert set(change.running.tolist()) == self.running
        self.started.extend(change.started.tolist())
        return ((job, float(pace(len(change.running)))) for job in change.running.tolist())


@given(jobs=small_workloads(), kill=st.booleans())
def test_speeds_that_change_at_every_event_give_the_slow_schedule(jobs: Workload, kill: bool) -> None:
    rules = Rules(kill_at_limit=kill)
    starts, ends = share_slowly(jobs, machine_of(jobs), rules)
    for scheduler in ("fcfs", PlainFcfs()):
        made = simulate(jobs, machine_of(jobs), scheduler, rules, execution=Crowding())
        assert made.start.tolist() == starts
        assert made.end.tolist() == ends


@given(jobs=small_workloads(following=True), rules=rules)
def test_easy_sees_the_same_running_jobs_in_python_and_compiled_while_speeds_change(
    jobs: Workload, rules: Rules
) -> None:
    built_in = ListScheduler(FirstComeFirstServed(), Backfill.EASY)
    made, expected = (
        simulate(jobs, machine_of(jobs), scheduler, rules, execution=Crowding())
        for scheduler in (PlainEasy(), built_in)
    )
    assert made.start.tolist() == expected.start.tolist()
    assert made.end.tolist() == expected.end.tolist()


@given(jobs=small_workloads(following=True), backfill=st.sampled_from(Backfill), rules=rules)
def test_a_model_is_told_who_started_who_ended_and_who_runs(jobs: Workload, backfill: Backfill, rules: Rules) -> None:
    model = Crowding()
    simulate(jobs, machine_of(jobs), ListScheduler(FirstComeFirstServed(), backfill), rules, execution=model)
    assert not model.running
    assert sorted(model.started) == list(range(len(jobs)))


class Pausing:
    """The job that started first runs alone, the others stand still."""

    def speeds(self, change: Change) -> Iterator[tuple[int, float]]:
        first = min(change.running.tolist(), default=-1)
        return ((job, float(job == first)) for job in change.running.tolist())


def test_a_job_may_stand_still_until_another_has_ended() -> None:
    jobs = workload([(1, 0.0, 4.0, 1, 99.0), (2, 1.0, 3.0, 1, 99.0), (3, 2.0, 5.0, 1, 99.0)])
    for kill in (Rules(), NOT_KILLED):
        assert simulate(jobs, 3, rules=kill, execution=Pausing()).end.tolist() == [4.0, 7.0, 12.0]


JOBS = workload([(1, 0.0, 10.0, 4, 99.0), (2, 0.0, 20.0, 2, 99.0)])
LOCALITY = Locality(JOBS.run, np.array([1, 1]), np.array([4, 2]), np.array([0.0, 1.0]), np.array([6.0, 2.0]))


@pytest.mark.parametrize(
    ("nodes", "cores", "allocator", "ends"),
    [
        # Packed on one node each, with no second and one second more.
        (2, 4, DepthFirst(), [10.0, 21.0]),
        # On all four nodes, and on the two first ones.
        (4, 2, BreadthFirst(), [16.0, 22.0]),
        # Job 1 on two of one to four nodes: a third of 6 s.
        (2, 3, BreadthFirst(), [12.0, 22.0]),
    ],
    ids=["packed", "spread", "between"],
)
def test_a_job_takes_longer_the_more_nodes_it_is_spread_over(
    nodes: int, cores: int, allocator: DepthFirst | BreadthFirst, ends: list[float]
) -> None:
    platform = Platform.of_parts([Part(nodes, {"cores": cores})])
    made = simulate(JOBS, platform, execution=LOCALITY, allocator=allocator)
    assert made.end.tolist() == pytest.approx(ends)


def test_the_locality_model_needs_nodes() -> None:
    with pytest.raises(UsageError, match="needs a platform with nodes"):
        simulate(JOBS, 8, execution=LOCALITY)


@pytest.mark.parametrize(
    ("fewest", "most", "packed_s", "fault"),
    [([1, 1], [4, 2], [-10.0, 0.0], "leaves no run time"), ([1, 2], [4, 1], [0.0, 0.0], "fewer nodes when spread")],
)
def test_a_locality_that_contradicts_is_refused(
    fewest: list[int], most: list[int], packed_s: list[float], fault: str
) -> None:
    with pytest.raises(InvalidProblemError, match=fault):
        Locality(JOBS.run, np.array(fewest), np.array(most), np.array(packed_s), np.zeros(2))


def hops(tree: FatTree, first: int, second: int) -> int:
    a, b = tree.groups_of(np.array([first, second])).T
    return tree.hops[0] if a[0] == b[0] else tree.hops[1] if a[1] == b[1] else tree.hops[2]


@given(st.integers(1, 8), st.floats(0, 3), st.sampled_from(["ordered", "unordered"]))
def test_a_job_takes_longer_by_the_mean_hops_of_its_pairs(nodes: int, share: float, pairs: Pairs) -> None:
    tree = FatTree(2, 2, 2, (1, 3, 6), pairs)
    workload = Workload("one", np.array([1]), np.zeros(1), np.array([100.0]), np.array([nodes]), np.array([1e6]))
    schedule = simulate(workload, Platform.whole_nodes(tree), execution=HopSlowdown(tree, share))
    distances = [hops(tree, a, b) for a in range(nodes) for b in range(a)]
    longer = share * (np.mean(distances) / tree.hops[0] - 1) if distances else 0.0
    assert schedule.end[0] == pytest.approx(100 * (1 + longer), rel=1e-9)


def test_a_share_out_of_range_and_a_tree_without_hops_are_refused() -> None:
    for share in (-0.1, 1e9, float("nan")):
        with pytest.raises(UsageError, match="the slowdown by hops is"):
            HopSlowdown(FatTree(1, 1, 2), share)
    with pytest.raises(UsageError, match="at least one hop within a leaf"):
        HopSlowdown(FatTree(1, 1, 2, (0, 1, 2)), 0.1)


def test_a_pool_of_processors_has_no_hops() -> None:
    workload = Workload("one", np.array([1]), np.zeros(1), np.ones(1), np.array([2]), np.ones(1))
    with pytest.raises(UsageError, match="needs a platform with nodes"):
        simulate(workload, 4, execution=HopSlowdown(FatTree(1, 1, 4), 0.1))


class Halves:
    """Everybody has exactly the share of its units that its quota says."""

    def speeds(self, change: Change) -> Iterator[tuple[int, float]]:
        shares = dict.fromkeys(change.running.tolist(), 1.0)
        for host, guest in change.guests.items():
            shares[host], shares[guest.job] = 1 - guest.percent / 100, guest.percent / 100
        return iter(shares.items())


@dataclass
class Script:
    """Decides what is written down for a time, and notes what it sees."""

    lines: dict[float, list[Decision]]
    seen: list[tuple[float, int, dict[int, Guest]]] = field(default_factory=list)

    name = "script"

    def schedule(self, view: View) -> Iterator[Decision]:
        yield from self.lines.get(view.now, [])
        self.seen.append((view.now, view.free_processors, dict(view.guests)))


def jobs_of(*jobs: tuple[int, float]) -> Workload:
    """Return jobs of so many processors and seconds, all submitted at once."""
    processors, run = zip(*jobs, strict=True)
    times = np.array(run)
    return Workload("jobs", np.arange(1, len(jobs) + 1), np.zeros(len(jobs)), times, np.array(processors), times)


def test_a_guest_uses_its_hosts_units_and_then_holds_its_own() -> None:
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, 50)], 20.0: [Start(2)]})
    done = simulate(jobs_of((8, 10.0), (4, 30.0), (4, 5.0)), 8, script, NOT_KILLED, execution=Halves())
    # Half a second of work per second for 20 s, then the guest's other 20 s alone on the four that it asked for.
    assert done.end.tolist() == [20.0, 40.0, 25.0]
    assert script.seen == [(0.0, 0, {0: Guest(1, 50)}), (20.0, 0, {}), (25.0, 4, {}), (40.0, 8, {})]


def test_host_and_guest_that_end_together_give_back_all_units_once() -> None:
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, 50)], 20.0: [Start(2)]})
    done = simulate(jobs_of((8, 10.0), (8, 10.0), (8, 1.0)), 8, script, NOT_KILLED, execution=Halves())
    assert done.end.tolist() == [20.0, 20.0, 21.0]
    assert script.seen[-1] == (21.0, 8, {})


class Weather:
    """All jobs stand still every other ten seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def speeds(self, change: Change) -> Iterator[tuple[int, float]]:
        self.now = change.now
        return ((job, float(change.now % 20 < 10)) for job in change.running.tolist())

    def next_change(self) -> float:
        return 10 * (self.now // 10 + 1)


def test_speeds_of_a_staged_model_change_between_events() -> None:
    weather = Weather()
    script = Script({0.0: [Start(0)], 10.0: [Start(1)]})
    done = simulate(jobs_of((1, 25.0), (1, 5.0)), 2, script, NOT_KILLED, execution=weather)
    assert done.end.tolist() == [45.0, 25.0]
    assert [now for now, _, _ in script.seen] == [0.0, 10.0, 20.0, 25.0, 30.0, 40.0, 45.0]


@dataclass
class Stuck:
    """Says that speeds change at a time, which may have passed."""

    at: float
    name = "stuck"

    def speeds(self, change: Change) -> Iterator[tuple[int, float]]:
        return iter(())

    def next_change(self) -> float:
        return self.at


@pytest.mark.parametrize("at", [-1.0, 0.0, float("nan")])
def test_a_model_that_goes_back_in_time_is_named(at: float) -> None:
    with pytest.raises(SchedulerError, match=f"stuck changes speeds at {at:g} s, which is not after 0 s"):
        simulate(jobs_of((1, 25.0)), 2, "fcfs", NOT_KILLED, execution=Stuck(at))


@pytest.mark.parametrize("platform", [Platform.whole_nodes(8), Platform.pool(8)], ids=["nodes", "pool"])
def test_guests_need_a_pool_and_a_model_for_them(platform: Platform) -> None:
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, 50)]})
    execution = Halves() if platform.has_nodes else None
    with pytest.raises(SchedulerError, match="script returned PlaceGuest: jobs can share processors only on a pool"):
        simulate(jobs_of((8, 10.0), (4, 30.0)), platform, script, NOT_KILLED, execution=execution)


def test_the_machine_is_used_by_who_holds_it_not_by_guests() -> None:
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, 50)]})
    done = simulate(jobs_of((8, 10.0), (4, 30.0)), 8, script, NOT_KILLED, execution=Halves())
    assert done.held_from is not None
    assert done.held_from.tolist() == [0.0, 20.0]
    assert measure(done).machine.utilization == (8 * 20 + 4 * 20) / (8 * 40)
