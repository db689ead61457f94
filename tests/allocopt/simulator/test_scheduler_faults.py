"""A scheduler that breaks a rule, raises or waits for ever is named, with the job and the time; nothing hangs."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.workloads import workload

from allocopt.cluster.platform import Platform
from allocopt.simulator import engine
from allocopt.simulator.rules import Rules
from allocopt.simulator.scheduler import Reserve, SchedulerError, Start, Wait
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View

JOBS = workload([(7, 0.0, 5.0, 2, 5.0), (8, 1.0, 5.0, 2, 5.0), (9, 2.0, 5.0, 1, 5.0)])
WHOLE = Platform.whole_nodes(3)


@dataclass
class Mine:
    """A scheduler that does what a test wants it to."""

    decide: Callable[[View], Any]
    name: str = "mine"

    def schedule(self, view: View) -> Iterable[Any]:
        return self.decide(view)


def fails(decide: Callable[[View], Any], message: str, platform: Platform | int = 2, **given: Any) -> SchedulerError:
    """Run a scheduler that must fail with a message that names it."""
    with pytest.raises(SchedulerError, match=message) as caught:
        simulate(JOBS, platform, Mine(decide), **given)
    assert "mine" in str(caught.value)
    return caught.value


def raising(error: BaseException) -> Callable[[View], Iterable[Start]]:
    """Decide one thing, then raise."""

    def decide(view: View) -> Iterable[Start]:
        yield Start(0)
        raise error

    return decide


def test_a_scheduler_that_raises_is_named_with_its_exception_as_the_cause_unless_it_is_interrupted() -> None:
    assert isinstance(fails(lambda view: view.now / 0, "mine raised Zero.* at time 0 s").__cause__, ZeroDivisionError)
    assert isinstance(fails(raising(KeyError("lost")), "mine raised KeyError: 'lost'").__cause__, KeyError)
    with pytest.raises(KeyboardInterrupt):
        simulate(JOBS, 2, Mine(raising(KeyboardInterrupt())))


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        *((lambda _, fault=fault: [fault], "which is no decision") for fault in (0, "x", None, 3.5, (0, None))),
        *((lambda _, answer=answer: answer, "mine raised TypeError") for answer in (None, 3, Start)),
        (lambda view: [Start(0), Start(0)], "mine at time 0 s: job 7 is started twice, first at 0 s"),
        (lambda view: [Start(0)], "mine at time 1 s: job 7 is started twice, first at 0 s"),
        (lambda view: [Start(2)], "mine at time 0 s: job 9 is started before it is submitted"),
        (lambda view: map(Start, view.queue), r"mine at time 1 s: job 8 .* \[2\] units where \[0\]"),
        *(
            (lambda view, job=job: [Start(job)], f"mine names job number {job}, there are 3 jobs")
            for job in (3, -1, 99)
        ),
        *((lambda _, job=job: [Start(job)], "mine") for job in (0.5, "7", None, np.float64(0))),
        (lambda view: [Reserve(2, 99.0)], "mine reserves a time for job 9, which does not wait"),
        (lambda view: [], "mine leaves jobs waiting for ever: 3 jobs wait, the first is job 7, which asks for 2"),
        (lambda view: [Wait(view.now + 1.0)], "mine waits for nothing: 3 jobs wait, the first is job 7"),
        (lambda view: [Wait(view.now + 1e9)], "mine waits for nothing: 3 jobs wait, the first is job 7"),
        (lambda view: sys.exit(0), "mine raised SystemExit: 0 at time 0 s"),
    ],
)
def test_a_decision_that_cannot_be_taken_is_named_with_job_and_time(
    decide: Callable[[View], Any], message: str
) -> None:
    fails(decide, message)


@pytest.mark.parametrize("time", [0.0, -1.0, float("nan")])
def test_a_call_in_the_past_is_refused(time: float) -> None:
    fails(lambda view: [Wait(view.now + min(time, 0))], "mine wants to be called at .*not after")
    fails(lambda view: [Wait(time)], "mine wants to be called at .*not after 0 s")
    fails(lambda view: [Reserve(0, time)], "mine wants to be called at .*not after 0 s")


def test_a_scheduler_that_waits_for_ever_after_some_jobs_is_stopped() -> None:
    def decide(view: View) -> Iterable[Start | Wait]:
        yield from (Start(job) for job in view.queue if job != 1 and view.fits(job))
        yield Wait(view.now + 1)

    fails(decide, "mine waits for nothing: 1 jobs? waits?, the first is job 8")


def test_a_scheduler_that_only_waits_while_jobs_come_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_PATIENCE", 10)
    monkeypatch.setattr(engine, "_IDLE_PATIENCE", 100)
    jobs = workload([(job, 20.0 * job, 5.0, 1, 5.0) for job in range(50)])
    with pytest.raises(SchedulerError, match="mine waits for nothing: 6 jobs wait, the first is job 0"):
        simulate(jobs, 2, Mine(lambda view: [Wait(view.now + 1)]))


class Still:
    """No job makes progress."""

    name = "still"

    def speeds(self, change: Any) -> list[tuple[int, float]]:
        return [(job, 0.0) for job in change.started.tolist()]


@pytest.mark.parametrize("waits", [False, True], ids=["returns", "waits"])
def test_jobs_that_stand_still_for_ever_are_named(waits: bool) -> None:
    def decide(view: View) -> Iterable[Start | Wait]:
        yield from (Start(job) for job in view.queue if view.fits(job))
        if waits:
            yield Wait(view.now + 10)

    with pytest.raises(SchedulerError, match="job 7"):
        simulate(JOBS, 9, Mine(decide), Rules(kill_at_limit=False), execution=Still())


def choose(*nodes: int) -> Callable[[View], list[Start]]:
    """Start whoever fits on the first of these nodes."""
    return lambda view: [Start(job, np.array(nodes[: view.processors[job]])) for job in view.queue if view.fits(job)]


def test_the_job_that_holds_an_over_committed_node_now_is_named_not_one_that_has_left() -> None:
    # Job 2 has left node 0 to job 1, which stands before it in the workload.
    jobs = workload([(1, 0.0, 9.0, 1, 9.0), (2, 0.0, 2.0, 1, 2.0), (3, 3.0, 9.0, 1, 9.0)])

    def decide(view: View) -> list[Start]:
        chosen = {0.0: [1], 2.0: [0], 3.0: [2]}
        return [Start(job, np.array([0])) for job in chosen.get(view.now, [])]

    with pytest.raises(SchedulerError, match=r"job 3 over-commits node 0.* job 1$"):
        simulate(jobs, WHOLE, Mine(decide))


@pytest.mark.parametrize(
    ("decide", "platform", "message"),
    [
        (choose(0, 1), WHOLE, "at time 2 s: job 9 over-commits node 0: gets 1 nodes of which 0 are free; .* job 7"),
        (choose(0, 0), WHOLE, "at time 0 s: job 7 gets a node twice"),
        (choose(0, 3), WHOLE, "at time 0 s: job 7 gets node 3, nodes are numbered 0 to 2"),
        (choose(0, -1), WHOLE, "at time 0 s: job 7 gets node -1, nodes are numbered 0 to 2"),
        (lambda view: [Start(0, np.array([0]))], WHOLE, "at time 0 s: job 7 gets 1 nodes, it asks for 2"),
        (lambda view: [Start(0, np.arange(3))], WHOLE, "at time 0 s: job 7 gets 3 nodes, it asks for 2"),
        (lambda view: [Start(0, np.arange(0))], WHOLE, "at time 0 s: job 7 gets 0 nodes, it asks for 2"),
        (lambda view: [Start(0, np.array([0.2, 1.7]))], WHOLE, "raised TypeError"),
        (choose(0, 1), 2, "chooses nodes for job 7, but the platform is a pool"),
    ],
)
def test_nodes_that_cannot_be_chosen_are_refused(
    decide: Callable[[View], Any], platform: Platform | int, message: str
) -> None:
    fails(decide, f"mine {message}", platform)


def test_chosen_nodes_are_taken_as_they_are_chosen() -> None:
    def decide(view: View) -> list[Start]:
        return [Start(job, view.idle_nodes[::-1][: view.processors[job]]) for job in view.queue[:1] if view.fits(job)]

    made = simulate(JOBS, WHOLE, Mine(decide))
    assert made.nodes is not None
    assert [sorted(nodes.tolist()) for nodes in made.nodes] == [[1, 2], [1, 2], [2]]


def both_nodes(view: View) -> list[Start]:
    """Start the first in the queue on node 1, or on both nodes if that is not enough."""
    return [Start(job, np.array([1, 0])) for job in view.queue[:1] if view.fits(job)]


def test_units_are_taken_from_the_chosen_nodes_in_their_order_and_only_where_there_are_any() -> None:
    idle: list[list[int]] = []
    made = simulate(
        JOBS,
        Platform(("cores", "gpus"), np.array([[4, 1], [4, 1]])),
        Mine(both_nodes),
        demands={"gpus": np.array([1, 0, 2])},
        observer=lambda simulation: idle.append(simulation.view.idle_nodes.tolist()),
    )
    assert made.nodes is not None
    assert [nodes.tolist() for nodes in made.nodes] == [[1], [1], [1, 0]]
    assert idle == [[0], [0], [0], [], [], [0, 1]]


def test_nodes_of_one_unit_of_each_resource_can_be_chosen() -> None:
    platform = Platform(("cores", "gpus"), np.ones((2, 2), dtype=np.int64))
    made = simulate(JOBS, platform, Mine(both_nodes), demands={"gpus": np.array([1, 2, 1])})
    assert made.start.tolist() == [0.0, 5.0, 10.0]
