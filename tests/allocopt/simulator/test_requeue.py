"""Jobs that a scheduler stops and queues again: their work is lost, and they wait like one that has just come."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import FatTree
from allocopt.simulator.decisions import Decision, Requeue, Start
from allocopt.simulator.rules import Rules
from allocopt.simulator.scheduler import SchedulerError
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

SIZE = 8
MACHINES = {
    "pool": SIZE,
    "whole nodes": Platform.whole_nodes(FatTree(1, 2, 4)),
    "cluster": Cluster.of([ClusterNode(f"n{number}", 1) for number in range(SIZE)], None, []),
}
PRESSING = 1
"""Users below this number may take the place of others."""


class Preempting:
    """First come, first served; a job of a pressing user takes the place of the others that started last."""

    def schedule(self, view: View) -> Iterator[Decision]:
        for job in sorted(view.queue.tolist(), key=lambda one: (view.users[one] >= PRESSING, one)):
            others = [one for one in view.running.tolist() if view.users[one] >= PRESSING]
            for other in sorted(others, key=lambda one: (-view.start[one], -one)):
                if view.fits(job) or view.users[job] >= PRESSING:
                    break
                yield Requeue(other)
            if not view.fits(job):
                return
            yield Start(job)


def by_hand(jobs: Workload) -> list[float]:
    """Return the starts under `Preempting` of jobs of one processor a unit, one event at a time."""
    n, now, left = len(jobs), 0.0, SIZE
    start: list[float | None] = [None] * n
    over, waiting, running = set(), set(), set()
    while len(over) < n:
        ends = [start[job] + jobs.run[job] for job in running]  # type: ignore[operator]
        comes = [jobs.submit[job] for job in range(n) if job not in over | waiting | running]
        now = min([*ends, *comes])
        for job in [one for one in running if start[one] + jobs.run[one] == now]:  # type: ignore[operator]
            running.remove(job)
            over.add(job)
            left += jobs.processors[job]
        waiting |= {job for job in range(n) if job not in over | running and jobs.submit[job] <= now}
        for job in sorted(waiting, key=lambda one: (jobs.users[one] >= PRESSING, one)):
            if jobs.users[job] < PRESSING:
                others = [one for one in running if jobs.users[one] >= PRESSING]
                for other in sorted(others, key=lambda one: (-start[one], -one)):  # type: ignore[operator]
                    if jobs.processors[job] <= left:
                        break
                    running.remove(other)
                    waiting.add(other)
                    start[other] = None
                    left += jobs.processors[other]
            if jobs.processors[job] > left:
                break
            waiting.remove(job)
            running.add(job)
            start[job] = now
            left -= jobs.processors[job]
    return [float(one) for one in start]  # type: ignore[arg-type]


JOBS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 10), st.integers(1, SIZE), st.integers(0, 2)), min_size=1, max_size=12
)


def workload(jobs: list[tuple[int, int, int, int]]) -> Workload:
    """Return jobs by submission: when each comes, for how long it runs, its processors and its user."""
    submit, run, processors, users = np.array(sorted(jobs)).T
    times = submit.astype(float), run.astype(float)
    return Workload("jobs", np.arange(1, len(jobs) + 1), *times, processors, times[1], users=users)


@pytest.mark.parametrize("machine", MACHINES)
@given(jobs=JOBS)
def test_preempting_gives_the_schedule_that_it_gives_by_hand(
    machine: str, jobs: list[tuple[int, int, int, int]]
) -> None:
    made = workload(jobs)
    found = simulate(made, MACHINES[machine], Preempting(), Rules(kill_at_limit=False))
    assert found.start.tolist() == by_hand(made)
    assert (found.end - found.start == made.run).all()
    # The wait counts from when a job first came, whatever it has lost.
    assert found.release.tolist() == made.submit.tolist()


class Doing:
    """Starts the first job, and then does what it is told."""

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = decisions

    def schedule(self, view: View) -> Iterator[Decision]:
        yield Start(0)
        yield from self.decisions


@pytest.mark.parametrize(
    ("decisions", "fault"),
    [
        ([Requeue(1)], "requeues job 2, which does not run"),
        ([Requeue(0), Requeue(0)], "requeues job 1, which does not run"),
        ([Requeue(5)], "jobs are numbered from 0 to 1"),
        ([Requeue(0), Start(0)] * 10_001, "requeues job 1 more than 10,000 times"),
    ],
)
@pytest.mark.parametrize("machine", MACHINES)
def test_what_does_not_run_is_not_queued_again(machine: str, decisions: list[Decision], fault: str) -> None:
    with pytest.raises(SchedulerError, match=fault):
        simulate(workload([(0, 5, 2, 0), (0, 5, 2, 0)]), MACHINES[machine], Doing(*decisions))
