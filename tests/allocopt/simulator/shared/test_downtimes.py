"""Downtimes of nodes; test_shared.py compares random downtimes with the slow simulator."""

from pathlib import Path

import numpy as np
import pytest

from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.cluster.downtime import Downtime, read_downtimes
from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import FatTree
from allocopt.errors import BadFileError, InvalidProblemError, UsageError
from allocopt.simulator.decisions import Start
from allocopt.simulator.execution import Change
from allocopt.simulator.explain import Explanation
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import SchedulerError, backfilled, get_policy
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

NODES = Cluster.of([ClusterNode(f"n{number}", 1) for number in range(4)], None, [])
ALL = NODES.topology.nodes


def jobs(*rows: tuple[float, float, int, float]) -> Workload:
    """Return jobs from rows of submission time, run time, processors and estimate."""
    submit, run, processors, estimate = (np.array(column) for column in zip(*rows, strict=True))
    ids = np.arange(1, len(rows) + 1)
    return Workload("jobs", ids, submit.astype(float), run.astype(float), processors, estimate.astype(float))


def schedule(workload: Workload, *downtimes: Downtime, policy: str = "fcfs+easy", kills: bool = True) -> Schedule:
    return simulate(workload, NODES, policy, Rules(kill_at_limit=kills), downtimes=downtimes)


def test_a_job_that_would_run_into_maintenance_waits_for_its_end() -> None:
    maintenance = Downtime(ALL, 100, 200)
    found = schedule(jobs((0, 50, 4, 101), (0, 50, 1, 100)), maintenance)
    assert found.start.tolist() == [200, 0]


def test_nodes_without_maintenance_still_take_jobs() -> None:
    found = schedule(jobs((0, 50, 1, 150), (0, 50, 1, 150)), Downtime(("n0", "n1", "n2"), 100, 200))
    assert found.start.tolist() == [0, 50]
    assert [nodes.tolist() for nodes in found.nodes or ()] == [[3], [3]]


def test_a_job_that_outlasts_its_estimate_continues_during_maintenance() -> None:
    found = schedule(jobs((0, 150, 1, 100)), Downtime(ALL, 100, 200), kills=False)
    assert (found.start.tolist(), found.end.tolist(), found.requeues) == ([0], [150], None)


def test_jobs_of_a_failed_node_lose_their_work_and_are_requeued() -> None:
    failure = Downtime(("n0",), 60, 80, is_announced=False)
    found = schedule(jobs((0, 100, 4, 100), (10, 30, 1, 30)), failure)
    # At 60 s job 1 joins the queue again, behind job 2, which starts on n1. Job 1 needs n0, too.
    assert found.start.tolist() == [90, 60]
    assert found.release.tolist() == [0, 10]
    assert found.requeues is not None
    assert found.lost_s is not None
    assert (found.requeues.tolist(), found.lost_s.tolist()) == ([1, 0], [60, 0])
    assert found.remarks == ("jobs stopped and queued again: 1, 0.1 processor hours of their work lost",)


def test_a_job_that_ends_when_its_node_fails_is_not_requeued() -> None:
    found = schedule(jobs((0, 60, 4, 60)), Downtime(ALL, 60, 80, is_announced=False))
    assert (found.end.tolist(), found.requeues) == ([60], None)


def test_a_failure_is_not_known_before_it_begins() -> None:
    found = schedule(jobs((0, 50, 4, 100)), Downtime(ALL, 60, 80, is_announced=False))
    assert found.start.tolist() == [0]


@pytest.mark.parametrize("policy", ["fcfs+easy", "fcfs+conservative"])
def test_the_end_of_maintenance_is_reserved_for_the_first_job(policy: str) -> None:
    # Job 1 needs all nodes, and gets them at 240 s. Job 3 would run on the only node that is up until 251 s.
    down = Downtime(("n0", "n1", "n2"), 0, 240)
    found = schedule(jobs((0, 60, 4, 60), (0, 60, 1, 230), (10, 60, 1, 241)), down, policy=policy)
    assert found.start[0] == 240
    assert found.start[1] == 0
    assert found.start[2] > 240


def test_jobs_that_wait_for_ever_for_nodes_that_stay_down_are_an_error() -> None:
    with pytest.raises(SchedulerError, match="leaves jobs waiting for ever"):
        schedule(jobs((0, 60, 4, 60)), Downtime(("n0",), 0, np.inf))


class _OnNode0:
    def schedule(self, view: View) -> list[Start]:
        return [Start(int(job), np.array([0])) for job in view.queue]


def test_a_scheduler_cannot_start_a_job_on_a_node_that_will_be_down() -> None:
    with pytest.raises(SchedulerError, match="gets node 0, which is down or will be down before the job ends"):
        simulate(jobs((0, 60, 1, 60)), NODES, _OnNode0(), downtimes=[Downtime(("n0",), 50, 60)])


class _SeesNodes:
    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def schedule(self, view: View) -> list[Start]:
        self.seen.append(view.idle_nodes.tolist())
        return [Start(int(job)) for job in view.queue if view.fits(int(job))]


def test_nodes_that_are_down_are_not_shown_as_idle() -> None:
    scheduler = _SeesNodes()
    simulate(jobs((0, 10, 1, 10)), NODES, scheduler, downtimes=[Downtime(("n1",), 0, 60)])
    assert scheduler.seen[0] == [0, 2, 3]


def test_explain_names_downtimes() -> None:
    workload = jobs((0, 60, 4, 60))
    scheduler = backfilled("fcfs", get_policy("fcfs"), "easy")
    explanation = Explanation(workload, "1", scheduler)
    simulate(workload, NODES, scheduler, observer=explanation, downtimes=[Downtime(("n0",), 0, 60)])
    assert "down for maintenance or a failure, or will be before it ends: 1 node" in explanation.reasons[0].text


@pytest.mark.parametrize("solver", ["lns", "cons-tres"])
def test_a_solver_chooses_no_nodes_that_are_down(solver: str) -> None:
    found = simulate(jobs((0, 60, 2, 60)), NODES, "fcfs", allocator=solver, downtimes=[Downtime(("n0",), 10, 60)])
    assert found.nodes is not None
    assert 0 not in found.nodes[0]


def test_windows_use_no_nodes_that_are_down() -> None:
    found = simulate(jobs((0, 60, 2, 60), (0, 60, 1, 60)), NODES, "window", downtimes=[Downtime(("n0",), 10, 60)])
    assert found.nodes is not None
    assert 0 not in {node for nodes in found.nodes for node in nodes.tolist()}


@pytest.mark.parametrize("machine", [4, Platform.whole_nodes(FatTree(1, 1, 4))])
def test_downtimes_need_the_names_of_nodes(machine: int | Platform) -> None:
    with pytest.raises(UsageError, match="downtimes need a cluster"):
        simulate(jobs((0, 60, 1, 60)), machine, downtimes=[Downtime(("n0",), 10, 60)])  # type: ignore[call-overload]


def test_a_downtime_of_an_unknown_node_is_refused() -> None:
    with pytest.raises(InvalidProblemError, match="there is no node n9"):
        schedule(jobs((0, 60, 1, 60)), Downtime(("n9",), 10, 60))


@pytest.mark.parametrize(("begin", "end"), [(10, 10), (np.nan, 10), (np.inf, np.inf), (5, np.nan)])
def test_a_downtime_ends_after_it_begins(begin: float, end: float) -> None:
    with pytest.raises(InvalidProblemError, match="must begin at a finite time and end later"):
        Downtime(("n0",), begin, end)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (Downtime(("n0",), 10, 60), "must be a sequence of `Downtime`"),
        (None, "must be a sequence of `Downtime`"),
        (["n0"], "contain 'n0', must be only `Downtime` objects"),
    ],
)
def test_what_is_no_sequence_of_downtimes_is_refused(given: object, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        simulate(jobs((0, 60, 1, 60)), NODES, downtimes=given)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (("n0", 10, 60, True), "downtime.nodes: is 'n0', must be a tuple of names"),
        ((("n0",), "10", 60, True), "downtime.begin_s: is '10', must be seconds"),
        ((("n0",), 10, 60, "no"), "downtime.is_announced: is 'no', must be True or False"),
        (((), 10, 60, True), "downtime.nodes: must name at least one node"),
    ],
)
def test_a_downtime_of_wrong_types_is_refused(fields: tuple[object, ...], fault: str) -> None:
    with pytest.raises(InvalidProblemError, match=fault):
        Downtime(*fields)  # type: ignore[arg-type]


def test_downtimes_of_a_generator_all_count() -> None:
    downtimes = (one for one in [Downtime(ALL, 0, 80)])
    assert simulate(jobs((0, 60, 1, 60)), NODES, downtimes=downtimes).start.tolist() == [80]


class _StopsFirst:
    """The first job does not go on; it does when it has started anew."""

    def __init__(self) -> None:
        self.starts = 0

    def speeds(self, change: Change) -> list[tuple[int, float]]:
        self.starts += len(change.started)
        return [(int(job), 0.0 if self.starts == 1 else 1.0) for job in change.started]


def test_a_failure_stops_a_job_that_does_not_go_on() -> None:
    failure = Downtime(ALL, 50, 60, is_announced=False)
    found = simulate(
        jobs((0, 60, 1, 60)), NODES, "fcfs", Rules(kill_at_limit=False), execution=_StopsFirst(), downtimes=[failure]
    )
    assert found.start.tolist() == [60]


def test_explain_says_when_a_job_fits_after_a_downtime() -> None:
    workload = jobs((0, 60, 4, 60))
    scheduler = backfilled("fcfs", get_policy("fcfs"), "easy")
    explanation = Explanation(workload, "1", scheduler)
    simulate(workload, NODES, scheduler, observer=explanation, downtimes=[Downtime(("n0",), 0, 60)])
    assert explanation.reasons[0].text.endswith("; fits at 60 s by the estimates")


def test_downtimes_are_read_from_csv(tmp_path: Path) -> None:
    file = tmp_path / "down.csv"
    file.write_text('nodes,begin_s,end_s,announced\n"n[0-1],n3",10,20,yes\nn2,5,,No\n')
    assert read_downtimes(file) == (
        Downtime(("n0", "n1", "n3"), 10, 20),
        Downtime(("n2",), 5, np.inf, is_announced=False),
    )


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("n0,10,20,perhaps", "announced is 'perhaps', must be yes or no"),
        ("n0,-1,20,yes", "begin_s is '-1', must be seconds after the first submission, not negative"),
        ("n0,20,10,yes", "begins at 20 s and ends at 10 s; must begin at a finite time and end later"),
        ("n[0,10,20,yes", "line 2"),
        (",10,20,yes", "must name at least one node"),
    ],
)
def test_an_invalid_row_of_downtimes_is_reported_with_its_line(tmp_path: Path, row: str, fault: str) -> None:
    file = tmp_path / "down.csv"
    file.write_text(f"nodes,begin_s,end_s,announced\n{row}\n")
    with pytest.raises(BadFileError, match=r"down\.csv: line 2") as caught:
        read_downtimes(file)
    assert fault in str(caught.value)
