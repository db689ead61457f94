"""Schedulers in Python, observers and execution models on clusters whose nodes jobs share."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from support.random_clusters import Case, random_case
from support.schedulers import AskingEasy, PlainFcfs

from allocopt.cluster import Request
from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.topology import hop_costs
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.simulator.decisions import Start
from allocopt.simulator.engine import Simulation
from allocopt.simulator.execution import Change, HopSlowdown
from allocopt.simulator.explain import Explanation
from allocopt.simulator.rules import Backfill, Rules
from allocopt.simulator.schedule import ClusterSchedule
from allocopt.simulator.scheduler import ListScheduler, Scheduler, SchedulerError
from allocopt.simulator.shared.admission import admitted
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.simulator.state import QUEUE
from allocopt.simulator.view import View
from allocopt.simulator.window import WindowScheduler
from allocopt.traces.workload import Workload

N_TRACES = 40


class FirstFit:
    """Whoever fits, by what the view answers."""

    def schedule(self, view: View) -> Iterator[Start]:
        return map(Start, view.backfillable())


def cases(first: int = 0, n: int = N_TRACES, most_partitions: int = 9) -> Iterator[tuple[int, Case]]:
    """Yield clusters of at most so many partitions, with jobs that can run on them."""
    for seed in range(first, first + n):
        case = random_case(seed, "any")
        try:
            jobs = admitted(case.workload, case.cluster, in_nodes=False, skip_oversized=True)
        except InvalidProblemError:
            continue
        if len(jobs) and len(case.cluster.partitions) <= most_partitions:
            yield seed, replace(case, workload=jobs)


def run(case: Case, scheduler: str | Scheduler) -> ClusterSchedule:
    """Simulate a case under another scheduler."""
    rules = Rules(kill_at_limit=case.kill_at_limit)
    return simulate(case.workload, case.cluster, scheduler, rules, allocator=case.allocator)


def rows(schedule: ClusterSchedule) -> list[tuple[float, list[int], list[int]]]:
    """Return when and where all jobs ran."""
    assert schedule.nodes is not None
    found = zip(schedule.start.tolist(), schedule.nodes, schedule.tasks, strict=True)
    return [(start, nodes.tolist(), tasks.tolist()) for start, nodes, tasks in found]


def test_first_fit_in_python_is_the_compiled_one() -> None:
    for seed, case in cases():
        assert rows(run(case, FirstFit())) == rows(run(case, "fcfs+first-fit")), f"seed {seed}"


@pytest.mark.parametrize(("plain", "compiled"), [(PlainFcfs(), "fcfs"), (AskingEasy(), "fcfs+easy")])
def test_in_one_partition_a_scheduler_in_python_is_the_compiled_one(plain: Scheduler, compiled: str) -> None:
    n_compared = 0
    for seed, case in cases(n=3 * N_TRACES, most_partitions=1):
        assert rows(run(case, plain)) == rows(run(case, compiled)), f"seed {seed}"
        n_compared += 1
    assert n_compared > N_TRACES // 2


def test_the_view_tells_what_is_free_and_who_fits() -> None:
    for _, case in cases(n=10):

        def look(simulation: Simulation) -> None:
            view = simulation.view
            running, waiting = view.running, view.queue
            free = view.platform.total - sum(
                (simulation.room.held_by(job).units.sum(axis=0) for job in running.tolist()),
                start=np.zeros(len(view.platform.resources), dtype=np.int64),
            )
            assert view.free.tolist() == free.tolist() == view.free_units.sum(axis=0).tolist()
            assert view.fitting(waiting).tolist() == [view.fits(job) for job in waiting.tolist()]
            assert len(waiting) == simulation.state.clock["n_queued"][0]
            assert view.head == (int(waiting[0]) if len(waiting) else None)
            assert view.first(2).tolist() == waiting[:2].tolist()

        simulate(case.workload, case.cluster, "wfp3+easy", observer=look)


def test_who_watches_changes_nothing() -> None:
    for seed, case in cases(n=20):
        alone = rows(run(case, case.policy))
        rules = Rules(kill_at_limit=case.kill_at_limit)
        explanation = Explanation(case.workload, int(case.workload.ids[-1]), as_scheduler(case.policy))
        seen = simulate(
            *(case.workload, case.cluster, case.policy, rules), allocator=case.allocator, observer=explanation
        )
        assert rows(seen) == alone, f"seed {seed}"


def test_hops_slow_jobs_down_on_a_cluster() -> None:
    slowed = 0
    for seed, case in cases(n=20):
        topology = case.cluster.topology.tree
        if topology.hops[0] < 1:
            continue
        rules = Rules(kill_at_limit=False)
        found = simulate(case.workload, case.cluster, "fcfs", rules, execution=HopSlowdown(topology, 0.5))
        assert found.nodes is not None
        for nodes, took, alone in zip(found.nodes, found.end - found.start, case.workload.run, strict=True):
            pairs = len(nodes) * (len(nodes) - 1)
            hops = hop_costs(topology, 1.0, [nodes])[0]
            assert took >= alone * (1 - 1e-12), f"seed {seed}"
            if pairs and hops:
                slowed += took > alone * (1 + 1e-9)
    assert slowed > 0


NODES = [ClusterNode(f"n{number}", 4) for number in range(3)]
CLUSTER = Cluster.of(NODES, None, [])


def three_jobs() -> Workload:
    """Return jobs of two nodes, of three, and of one core."""
    asked = Request(least_nodes=2, tasks=8, is_exclusive=True), Request(least_nodes=3, is_exclusive=True), Request()
    requests = np.empty(3, dtype=object)
    requests[:] = asked
    run_s = np.array([100.0, 10.0, 300.0])
    return Workload(
        "jobs", np.arange(1, 4), np.arange(3.0), run_s, np.ones(3, dtype=np.int64), run_s, requests=requests
    )


@pytest.mark.parametrize(
    ("job", "policy", "reasons"),
    [
        (
            2,
            "fcfs+easy",
            ["first in the queue, asks for 3 tasks of 1 core on 3 nodes (exclusive) with room for 1 of them "],
        ),
        (3, "fcfs", ["number 2 in the queue, no job overtakes its head, job 2, which asks for 3 tasks of 1 core on "]),
        (3, "fcfs+easy", ["number 2 in the queue, would fit, but run until 302 s, beyond 100 s, when the head, job 2"]),
    ],
)
def test_why_a_job_of_a_cluster_waits_is_told(job: int, policy: str, reasons: list[str]) -> None:
    explanation = Explanation(three_jobs(), job, as_scheduler(policy))
    simulate(three_jobs(), CLUSTER, policy, observer=explanation)
    assert [reason.text[: len(start)] for reason, start in zip(explanation.reasons, reasons, strict=False)] == reasons


class Chosen:
    """Starts every job on nodes of its own choice."""

    def __init__(self, *nodes: list[int]) -> None:
        self.nodes = nodes

    def schedule(self, view: View) -> Iterator[Start]:
        for job in view.queue.tolist():
            if view.fits(job):
                yield Start(job, np.array(self.nodes[job]))


class OnFirstNode:
    """Starts every job on the first node, whether that is free or not."""

    def schedule(self, view: View) -> Iterator[Start]:
        for job in view.queue.tolist():
            yield Start(job, np.array([0]))


def test_a_scheduler_may_choose_the_nodes() -> None:
    found = simulate(three_jobs(), CLUSTER, Chosen([2, 0], [0, 1, 2], [1]))
    assert rows(found)[0] == (0.0, [2, 0], [4, 4])
    assert rows(found)[2] == (2.0, [1], [1])


@pytest.mark.parametrize(
    ("nodes", "fault"),
    [
        ([0, 3], "gets node 3, but nodes are numbered 0 to 2"),
        ([0, 0], "twice"),
        ([0], "has 4 of 8 tasks placed"),
    ],
)
def test_nodes_that_a_job_cannot_have_are_refused(nodes: list[int], fault: str) -> None:
    with pytest.raises(SchedulerError, match=fault):
        simulate(three_jobs(), CLUSTER, Chosen(nodes, [0, 1, 2], [1]))


def test_no_job_is_started_on_a_node_that_another_one_has_for_itself() -> None:
    requests = np.array([Request.whole_nodes(1), Request(cores_per_task=0)], dtype=np.object_)
    jobs = replace(three_jobs().first(2), requests=requests)
    with pytest.raises(SchedulerError, match="node 0, which another job holds exclusively"):
        simulate(jobs, CLUSTER, OnFirstNode())


@pytest.mark.parametrize("solver", ["cons-tres", "lns"])
def test_windows_of_a_cluster_start_at_multiples_of_the_period(solver: str) -> None:
    for seed, case in cases(n=10):
        scheduler = WindowScheduler(30.0, solver, iterations=20)
        found = simulate(case.workload, case.cluster, scheduler, Rules(kill_at_limit=case.kill_at_limit))
        assert (found.start % 30.0 == 0).all(), f"seed {seed}"
        assert not any(row.reason for row in scheduler.windows), f"seed {seed}"


def test_no_window_of_a_partition_goes_beyond_a_job_that_does_not_fit() -> None:
    found = simulate(three_jobs(), CLUSTER, WindowScheduler(10.0, "cons-tres"))
    # At 10 s one node is idle, but the job of three nodes stands first.
    assert rows(found) == [(0.0, [0, 1], [4, 4]), (100.0, [0, 1, 2], [1, 1, 1]), (110.0, [0], [1])]
    both = [Partition("long", ("n0", "n1", "n2")), Partition("short", ("n0", "n1", "n2"))]
    jobs = three_jobs()
    requests = jobs.requests.copy()
    requests[2] = replace(requests[2], partition="short")
    found = simulate(
        replace(jobs, requests=requests), Cluster.of(NODES, None, both), WindowScheduler(10.0, "cons-tres")
    )
    assert rows(found)[2] == (10.0, [2], [1])


def test_a_pool_in_place_of_a_cluster_counts_the_scarcest_resource() -> None:
    nodes = [ClusterNode(f"n{number}", 4, gpus={"": 2}) for number in range(2)]
    requests = np.empty(3, dtype=object)
    requests[:] = Request(tasks=3), Request(gpus_per_task=(("", 1.0),)), Request(least_nodes=2, is_exclusive=True)
    ids, ones = np.arange(1, 4), np.ones(3)
    jobs = Workload("jobs", ids, 0 * ones, ones, np.ones(3, dtype=np.int64), ones, requests=requests)
    simulation = Simulation(jobs, Cluster.of(nodes, None, []), AskingEasy())
    assert simulation.advance()
    pool = simulation.view.as_pool
    # Of 8 cores and 4 GPUs: 3 cores are 3 of 8, a GPU is 2 of 8, and two nodes alone are all.
    assert (pool.platform.size, pool.request[:, 0].tolist()) == (8, [3, 2, 8])
    simulation.decide()
    assert simulation.view.queue.tolist() == [2]
    pool = simulation.view.as_pool
    assert pool.state.units[0].tolist() == [8 - 5]
    assert pool.state.lists[QUEUE, :1].tolist() == [2]


def test_one_partition_has_one_reservation_at_most() -> None:
    simulation = Simulation(three_jobs(), CLUSTER, PlainFcfs())
    while simulation.view.now < 2.0:
        assert simulation.advance()
        simulation.decide()
    with pytest.raises(UsageError, match="only one job of each partition"):
        list(simulation.view.backfillable(*simulation.view.queue.tolist()))


def jobs_of(*asked: tuple[Request, float, float]) -> Workload:
    """Return jobs that run as long as they ask for: what each requests, when it comes, and for how long."""
    requests = np.empty(len(asked), dtype=object)
    requests[:] = [request for request, _, _ in asked]
    submit, run = (np.array([one[column] for one in asked]) for column in (1, 2))
    ids, ones = np.arange(1, len(asked) + 1), np.ones(len(asked), dtype=np.int64)
    return Workload("jobs", ids, submit, run, ones, run, requests=requests)


def on_nodes(number: int, partition: str) -> Request:
    """Return a request for all cores of some nodes of four cores."""
    return Request(tasks=4 * number, least_nodes=number, most_nodes=number, partition=partition)


OVERLAPPING = Cluster.of(
    [ClusterNode(f"n{number}", 4) for number in range(4)],
    None,
    [Partition("a", ("n0", "n1", "n2", "n3"), tier=2), Partition("b", ("n2", "n3"))],
)


def told(jobs: Workload, job: int) -> list[str]:
    """Return why a job waits under EASY backfilling."""
    explanation = Explanation(jobs, job, as_scheduler("fcfs+easy"))
    simulate(jobs, OVERLAPPING, "fcfs+easy", observer=explanation)
    return [reason.text for reason in explanation.reasons]


def test_who_is_held_back_by_the_head_of_another_partition_is_told_so() -> None:
    a, b = on_nodes(1, "a"), on_nodes(1, "b")
    head = told(jobs_of((a, 0.0, 100.0), (on_nodes(4, "a"), 1.0, 50.0), (b, 2.0, 500.0)), 3)
    assert head[0].startswith("first in the queue of partition b, would fit, but run until 502 s, beyond 100 s, when ")
    assert "when the head of partition a, job 2, is to start" in head[0]
    behind = jobs_of((a, 0.0, 100.0), (b, 0.0, 400.0), (on_nodes(3, "a"), 1.0, 50.0), (on_nodes(2, "b"), 2.0, 50.0))
    last = jobs_of((a, 0.0, 100.0), (b, 0.0, 400.0), (on_nodes(4, "a"), 1.0, 50.0), (on_nodes(2, "b"), 2.0, 50.0))
    for jobs in (behind, last):
        for text in told(jobs, 4):
            assert "would fit" in text or "with room for" in text


class Odd:
    """Starts the second job on nodes and with tasks of its own choice, once the first runs."""

    def __init__(self, nodes: object, tasks: object) -> None:
        self.chosen = nodes, tasks

    def schedule(self, view: View) -> Iterator[Start]:
        for job in view.queue.tolist():
            yield Start(job) if job == 0 else Start(job, *self.chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("nodes", "tasks", "fault"),
    [
        (np.array([0, 1, 2]), np.array([2]), "must be lists of the same length"),
        (np.array([[0, 1]]), None, "must be lists of the same length"),
        (None, np.array([2]), "tasks are given for job 2, but no nodes"),
        (np.array([0, 1]), np.array([3, -1]), "tasks"),
    ],
)
def test_nodes_and_tasks_that_do_not_go_together_are_refused(nodes: object, tasks: object, fault: str) -> None:
    jobs = jobs_of((Request(tasks=1), 0.0, 10.0), (Request(tasks=2), 0.0, 10.0))
    with pytest.raises(SchedulerError, match=fault):
        simulate(jobs, CLUSTER, Odd(nodes, tasks))


@pytest.mark.parametrize("job", [-1, 3, 10**9, -(10**9)])
def test_the_view_knows_no_job_of_a_number_that_none_has(job: int) -> None:
    view = Simulation(three_jobs(), CLUSTER, PlainFcfs()).view
    for asked in (
        view.fits,
        view.shadow,
        view.partition_of,
        view.asks,
        view.wants,
        lambda one: [*view.backfillable(one)],
    ):
        with pytest.raises(IndexError, match=f"there is no job number {job}: jobs are numbered from 0 to 2"):
            asked(job)
    with pytest.raises(IndexError, match="no job number"):
        view.fitting(np.array([0, job]))


class Still:
    """Lets no job get on."""

    def speeds(self, change: Change) -> Iterator[tuple[int, float]]:
        return ((int(job), 0.0) for job in change.started)


@pytest.mark.parametrize("policy", ["fcfs+easy", "fcfs+conservative"])
def test_a_job_that_never_ends_ends_the_simulation(policy: str) -> None:
    jobs = jobs_of((on_nodes(3, ""), 0.0, 10.0), (on_nodes(3, ""), 0.0, 10.0))
    jobs = replace(jobs, requests=np.array([replace(one, partition=None) for one in jobs.requests], dtype=object))
    with pytest.raises(SchedulerError, match="job 1 never ends"):
        simulate(jobs, CLUSTER, policy, Rules(kill_at_limit=False), execution=Still())


@pytest.mark.parametrize("policy", ["optimization", "cush"])
def test_a_job_that_asks_for_nothing_runs(policy: str) -> None:
    jobs = jobs_of((Request(cores_per_task=0), 0.0, 10.0), (Request(tasks=2), 0.0, 10.0))
    assert np.isfinite(simulate(jobs, CLUSTER, policy).end).all()


def test_overtaking_windows_leave_out_who_does_not_fit() -> None:
    found = simulate(three_jobs(), CLUSTER, WindowScheduler(10.0, "cons-tres", overtakes=True))
    assert rows(found) == [(0.0, [0, 1], [4, 4]), (310.0, [0, 1, 2], [1, 1, 1]), (10.0, [2], [1])]


def test_what_a_cluster_does_not_know_is_refused() -> None:
    with pytest.raises(UsageError, match="compression"):
        simulate(three_jobs(), CLUSTER, ListScheduler(FirstComeFirstServed(), Backfill.CONSERVATIVE, compression=False))
    with pytest.raises(UsageError, match="lets jobs share cores, which needs a pool"):
        simulate(three_jobs(), CLUSTER, "asax")
    with pytest.raises(UsageError, match="the allocator is 3, on a cluster it must be"):
        simulate(three_jobs(), CLUSTER, allocator=3)  # type: ignore[call-overload]
