"""An allocator or execution model that breaks a rule or raises is named, with the job and the time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.workloads import workload

from allocopt.arrays import IntArray
from allocopt.cluster.platform import Platform
from allocopt.simulator.execution import Change
from allocopt.simulator.placement import Share
from allocopt.simulator.scheduler import SchedulerError
from allocopt.simulator.simulate import simulate

JOBS = workload([(7, 0.0, 5.0, 2, 5.0), (8, 1.0, 5.0, 2, 5.0), (9, 2.0, 5.0, 1, 5.0)])


@dataclass
class Ally:
    """An allocator that gives every job what a test wants it to."""

    answer: Callable[[IntArray], Any]
    name: str = "ally"

    def place(self, names: list[str], request: IntArray, free: IntArray) -> Any:
        return self.answer(request)


@dataclass
class Pace:
    """A model that answers what a test wants it to."""

    answer: Callable[[Change], Any]
    name: str = "pace"

    def speeds(self, change: Change) -> Any:
        return self.answer(change)


def share(*nodes: int, units: int = 1) -> Share:
    return Share(np.array(nodes, dtype=np.int64), np.full((len(nodes), 1), units))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda request: 1 / 0, "raised ZeroDivisionError"),
        (lambda request: [share(0)] * len(request), "job 7 gets 1 nodes, it asks for 2"),
        (lambda request: [share(0, 0)], "job 7 gets a node twice"),
        *((lambda _, at=at: [share(0, at)], f"job 7 gets node {at}, nodes are numbered 0 to 2") for at in (5, -1)),
        *((lambda _, units=units: [share(0, 1, units=units)], "job 7") for units in (2, -1, 0)),
        (lambda request: [], "places 0 jobs where 1 have started"),
        (lambda request: [share(0, 1)] * 2, "places 2 jobs where 1 have started"),
        *((lambda _, fault=fault: fault, "") for fault in (None, [3], [([0.5, 1.0], [[1], [1]])])),
        *((lambda _, fault=fault: fault, "") for fault in ([([0, 1], [1, 1])], [([[0, 1]], [[1], [1]])])),
    ],
)
def test_what_an_allocator_cannot_give_is_refused(answer: Callable[[IntArray], Any], message: str) -> None:
    with pytest.raises(SchedulerError, match=f"ally.*{message}") as caught:
        simulate(JOBS, Platform.whole_nodes(3), "fcfs", allocator=Ally(answer))
    assert ("ZeroDivision" in message) == isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_node_that_is_taken_is_named_with_who_holds_it() -> None:
    answer = {2: [share(0, 1)], 1: [share(1)]}
    jobs = workload([(7, 0.0, 5.0, 2, 5.0), (9, 2.0, 5.0, 1, 5.0)])
    with pytest.raises(SchedulerError, match=r"ally at time 2 s: job 9 over-commits node 1.* job 7"):
        simulate(jobs, Platform.whole_nodes(3), allocator=Ally(lambda request: answer[int(request[0, 0])]))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda change: 1 / 0, "raised ZeroDivisionError"),
        *(
            (lambda _, speed=speed: [(0, speed)], f"gives job 7 speed {speed}, must be a running job's, >= 0")
            for speed in (-1.0, float("nan"), float("inf"))
        ),
        (lambda change: [(2, 1.0)], "gives job 9 speed 1.0"),
        *((lambda _, job=job: [(job, 1.0)], f"names job number {job}") for job in (99, -1, 3)),
        *((lambda _, fault=fault: fault, "raised") for fault in (None, [1], [(0, "x")], [("x", 1.0)], [(0,)])),
    ],
)
def test_a_speed_that_cannot_be_is_refused(answer: Callable[[Change], Any], message: str) -> None:
    with pytest.raises(SchedulerError, match=f"pace.*{message}") as caught:
        simulate(JOBS, 2, "fcfs", execution=Pace(answer))
    assert ("ZeroDivision" in message) == isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_job_of_speed_zero_is_killed_at_its_limit() -> None:
    made = simulate(JOBS, 2, execution=Pace(lambda change: [(job, 0.0) for job in change.started.tolist()]))
    assert made.end.tolist() == [5.0, 10.0, 15.0]


def test_an_allocator_that_scribbles_on_what_it_is_shown_changes_nothing() -> None:
    class Scribbler:
        def place(self, names: list[str], request: IntArray, free: IntArray) -> list[Share]:
            nodes = np.flatnonzero(free[:, 0])[: int(request[0, 0])]
            free[:] = 100
            return [Share(nodes, np.ones((len(nodes), 1), dtype=np.int64))]

    schedule = simulate(JOBS, Platform.whole_nodes(5), "fcfs", allocator=Scribbler())
    assert schedule.nodes is not None
    assert [nodes.tolist() for nodes in schedule.nodes] == [[0, 1], [2, 3], [4]]
