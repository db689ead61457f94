"""A part that breaks a rule, raises or waits for ever is named, with job and time, and a bad workload is refused."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.workloads import workload

from allocopt.arrays import IntArray
from allocopt.cluster.platform import Platform
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.simulator import engine
from allocopt.simulator.decisions import Reserve, Start, Wait
from allocopt.simulator.execution import Change
from allocopt.simulator.held_nodes import DepthFirst, Share
from allocopt.simulator.rules import Rules
from allocopt.simulator.scheduler import SchedulerError
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

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
        *((lambda _, fault=fault: [fault], "which is not a decision") for fault in (0, "x", None, 3.5, (0, None))),
        *((lambda _, answer=answer: answer, "mine raised TypeError") for answer in (None, 3, Start)),
        (lambda view: [Start(0), Start(0)], "mine at time 0 s: job 7 is started twice, first at 0 s"),
        (lambda view: [Start(0)], "mine at time 1 s: job 7 is started twice, first at 0 s"),
        (lambda view: [Start(2)], "mine at time 0 s: job 9 is started before it is submitted"),
        (
            lambda view: map(Start, view.queue),
            "job 8 .* asks for 2 processors with 0 processors free",
        ),
        *(
            (lambda view, job=job: [Start(job)], f"mine names job number {job}, but jobs are numbered from 0 to 2")
            for job in (3, -1, 99)
        ),
        *((lambda _, job=job: [Start(job)], "mine") for job in (0.5, "7", None, np.float64(0))),
        (lambda view: [Reserve(2, 99.0)], "mine reserves a time for job 9, which does not wait"),
        (lambda view: [], "mine leaves jobs waiting for ever: 3 jobs wait, the first is job 7, which asks for 2"),
        (lambda view: [Wait(view.now + 1.0)], "mine starts no more jobs: 3 jobs wait, the first is job 7"),
        (lambda view: [Wait(view.now + 1e9)], "mine starts no more jobs: 3 jobs wait, the first is job 7"),
        (lambda view: sys.exit(0), "mine raised SystemExit: 0 at time 0 s"),
    ],
)
def test_a_decision_that_cannot_be_taken_is_named_with_job_and_time(
    decide: Callable[[View], Any], message: str
) -> None:
    fails(decide, message)


@pytest.mark.parametrize("time", [0.0, -1.0, float("nan")])
def test_a_call_in_the_past_is_refused(time: float) -> None:
    fails(lambda view: [Wait(view.now + min(time, 0))], "mine asks to be called at .*not after")
    fails(lambda view: [Wait(time)], "mine asks to be called at .*not after 0 s")
    fails(lambda view: [Reserve(0, time)], "mine asks to be called at .*not after 0 s")


def test_a_scheduler_that_waits_for_ever_after_some_jobs_is_stopped() -> None:
    def decide(view: View) -> Iterable[Start | Wait]:
        yield from (Start(job) for job in view.queue if job != 1 and view.fits(job))
        yield Wait(view.now + 1)

    fails(decide, "mine starts no more jobs: 1 jobs? waits?, the first is job 8")


def test_a_scheduler_that_only_waits_while_jobs_come_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_MAX_STALLED_NO_EVENT", 10)
    monkeypatch.setattr(engine, "_MAX_STALLED_IDLE", 100)
    jobs = workload([(job, 20.0 * job, 5.0, 1, 5.0) for job in range(50)])
    with pytest.raises(SchedulerError, match="mine starts no more jobs: 6 jobs wait, the first is job 0"):
        simulate(jobs, 2, Mine(lambda view: [Wait(view.now + 1)]))


@dataclass
class Pace:
    """A model that answers what a test wants it to."""

    answer: Callable[[Change], Any]
    name: str = "pace"

    def speeds(self, change: Change) -> Any:
        return self.answer(change)


STILL = Pace(lambda change: [(job, 0.0) for job in change.started.tolist()])


@pytest.mark.parametrize("waits", [False, True], ids=["returns", "waits"])
def test_jobs_that_stand_still_for_ever_are_named(waits: bool) -> None:
    def decide(view: View) -> Iterable[Start | Wait]:
        yield from (Start(job) for job in view.queue if view.fits(job))
        if waits:
            yield Wait(view.now + 10)

    with pytest.raises(SchedulerError, match="job 7"):
        simulate(JOBS, 9, Mine(decide), Rules(kill_at_limit=False), execution=STILL)


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
        (choose(0, 3), WHOLE, "at time 0 s: job 7 gets node 3, but nodes are numbered 0 to 2"),
        (choose(0, -1), WHOLE, "at time 0 s: job 7 gets node -1, but nodes are numbered 0 to 2"),
        (lambda view: [Start(0, np.array([0]))], WHOLE, "at time 0 s: job 7 gets 1 nodes, but asks for 2"),
        (lambda view: [Start(0, np.arange(3))], WHOLE, "at time 0 s: job 7 gets 3 nodes, but asks for 2"),
        (lambda view: [Start(0, np.arange(0))], WHOLE, "at time 0 s: job 7 gets 0 nodes, but asks for 2"),
        (lambda view: [Start(0, np.array([0.2, 1.7]))], WHOLE, "raised TypeError"),
        (choose(0, 1), 2, "at time 0 s: nodes are chosen for job 7, but the platform is a pool"),
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


@dataclass
class Ally:
    """An allocator that gives every job what a test wants it to."""

    answer: Callable[[IntArray], Any]
    name: str = "ally"

    def place(self, names: list[str], request: IntArray, free: IntArray) -> Any:
        return self.answer(request)


def share(*nodes: int, units: int = 1) -> Share:
    return Share(np.array(nodes, dtype=np.int64), np.full((len(nodes), 1), units))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda request: 1 / 0, "raised ZeroDivisionError"),
        (lambda request: [share(0)] * len(request), "job 7 gets 1 nodes, but asks for 2"),
        (lambda request: [share(0, 0)], "job 7 gets a node twice"),
        *((lambda _, at=at: [share(0, at)], f"job 7 gets node {at}, but nodes are numbered 0 to 2") for at in (5, -1)),
        *((lambda _, units=units: [share(0, 1, units=units)], "job 7") for units in (2, -1, 0)),
        (lambda request: [], "places 0 jobs, but 1 have started"),
        (lambda request: [share(0, 1)] * 2, "places 2 jobs, but 1 have started"),
        *((lambda _, fault=fault: fault, "") for fault in (None, [3], [([0.5, 1.0], [[1], [1]])])),
        *((lambda _, fault=fault: fault, "") for fault in ([([0, 1], [1, 1])], [([[0, 1]], [[1], [1]])])),
    ],
)
def test_what_an_allocator_cannot_give_is_refused(answer: Callable[[IntArray], Any], message: str) -> None:
    with pytest.raises(SchedulerError, match=f"ally.*{message}") as caught:
        simulate(JOBS, Platform.whole_nodes(3), "fcfs", allocator=Ally(answer))
    assert ("ZeroDivision" in message) == isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda change: 1 / 0, "raised ZeroDivisionError"),
        *(
            (
                lambda _, speed=speed: [(0, speed)],
                f"gives job 7 speed {speed}; the job must run, its speed be finite and >= 0",
            )
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
    made = simulate(JOBS, 2, execution=STILL)
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


LARGE = workload([(7, 0.0, 5.0, 2, 5.0), (8, 1.0, 5.0, 4, 5.0), (9, 2.0, 5.0, 3, 5.0)])
TWO_RESOURCES = Platform(("cores", "gpus"), np.array([[8, 2]]), has_nodes=False)


NOTHING = np.empty(0, dtype=np.int64)
EMPTY = Workload("nothing", NOTHING, 0.0 * NOTHING, 0.0 * NOTHING, NOTHING, 0.0 * NOTHING)


@pytest.mark.parametrize(
    ("jobs", "platform", "given", "message"),
    [
        (LARGE, 3, {}, "job 8: asks for 4 processors, the machine has 3"),
        (LARGE, Platform.whole_nodes(3), {}, "job 8: asks for 4 nodes, the machine has 3"),
        (LARGE, TWO_RESOURCES, {"demands": {"gpus": np.array([0, 2, 3])}}, "job 9: asks for 3 gpus, the machine has 2"),
        (LARGE, TWO_RESOURCES, {"demands": {"gpus": np.array([0, 2, -1])}}, "job 9: asks for -1 gpus"),
        (EMPTY, 3, {}, "nothing holds no jobs"),
    ],
)
def test_jobs_that_can_never_run_are_named(
    jobs: Workload, platform: Platform | int, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        simulate(jobs, platform, **given)


WHOLE_NUMBERS = "demands for 'gpus' must be 3 integers"


@pytest.mark.parametrize(
    ("platform", "given", "message"),
    [
        (TWO_RESOURCES, {"demands": {"gpus": np.array([1])}}, WHOLE_NUMBERS),
        (TWO_RESOURCES, {"demands": {"gpus": np.array([0.5, 0.5, 0.0])}}, WHOLE_NUMBERS),
        (TWO_RESOURCES, {"demands": {"gpus": np.ones((3, 1), dtype=np.int64)}}, WHOLE_NUMBERS),
        (TWO_RESOURCES, {"demands": {"tpus": np.array([0, 0, 0])}}, "'tpus'.*gpus"),
        (8, {"demands": {"gpus": np.array([0, 0, 0])}}, "'gpus'.*none"),
        (4, {"scheduler": "fcsf"}, "no policy 'fcsf'; did you mean 'fcfs'"),
        (4, {"scheduler": object()}, "no method `schedule`"),
        (4, {"allocator": DepthFirst()}, "an allocator needs a platform with nodes"),
    ],
)
def test_what_does_not_go_together_is_refused(platform: Platform | int, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(LARGE, platform, **given)


def test_the_size_of_a_pool_may_be_a_numpy_integer() -> None:
    assert simulate(LARGE, np.int64(4)).start.tolist() == simulate(LARGE, 4).start.tolist()  # type: ignore[arg-type]
