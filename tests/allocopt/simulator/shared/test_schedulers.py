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
from allocopt.simulator.decisions import Start
from allocopt.simulator.engine import Simulation
from allocopt.simulator.execution import HopSlowdown
from allocopt.simulator.explain import Explanation
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import ClusterSchedule
from allocopt.simulator.scheduler import Scheduler, SchedulerError
from allocopt.simulator.shared.admission import admitted
from allocopt.simulator.simulate import as_scheduler, simulate
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
        (2, "fcfs+easy", ["first in the queue, asks for 3 tasks of 1 core on 3 nodes, alone with room for 1 of them "]),
        (3, "fcfs", ["number 2 in the queue, nobody overtakes its head, job 2, which asks for 3 tasks of 1 core on "]),
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
        ([0, 3], "gets node 3, nodes are numbered 0 to 2"),
        ([0, 0], "twice"),
        ([0], "has 4 tasks placed, has 8"),
    ],
)
def test_nodes_that_a_job_cannot_have_are_refused(nodes: list[int], fault: str) -> None:
    with pytest.raises(SchedulerError, match=fault):
        simulate(three_jobs(), CLUSTER, Chosen(nodes, [0, 1, 2], [1]))


def test_no_job_is_started_on_a_node_that_another_one_has_for_itself() -> None:
    requests = np.array([Request.whole_nodes(1), Request(cores_per_task=0)], dtype=np.object_)
    jobs = replace(three_jobs().first(2), requests=requests)
    with pytest.raises(SchedulerError, match="node 0, which another job has for itself"):
        simulate(jobs, CLUSTER, OnFirstNode())


@pytest.mark.parametrize("solver", ["cons-tres", "lns"])
def test_windows_of_a_cluster_start_at_multiples_of_the_period(solver: str) -> None:
    for seed, case in cases(n=10):
        scheduler = WindowScheduler(30.0, solver, iterations=20)
        found = simulate(case.workload, case.cluster, scheduler, Rules(kill_at_limit=case.kill_at_limit))
        assert (found.start % 30.0 == 0).all(), f"seed {seed}"
        assert not any(scheduler.log), f"seed {seed}"


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
    assert pool.state.lists[4, :1].tolist() == [2]


def test_one_partition_has_one_reservation_at_most() -> None:
    simulation = Simulation(three_jobs(), CLUSTER, PlainFcfs())
    while simulation.view.now < 2.0:
        assert simulation.advance()
        simulation.decide()
    with pytest.raises(UsageError, match="one job of a partition"):
        list(simulation.view.backfillable(*simulation.view.queue.tolist()))
