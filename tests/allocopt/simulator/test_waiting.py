"""What jobs waited for."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from support.workloads import MACHINE, crowds, workload

from allocopt.simulator.schedule import Schedule
from allocopt.simulator.simulate import simulate
from allocopt.simulator.waiting import DEPENDENCY, QUEUE, RESOURCES, waited_for
from allocopt.traces.workload import Workload


def test_a_job_waits_for_room_or_behind_others_of_its_part_or_for_a_preceding_job() -> None:
    jobs = workload([(job, float(job), 10.0, 1, 10.0) for job in range(6)])
    start = np.array([0.0, 5.0, 6.0, 3.0, 9.0, 8.0])
    release = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 8.0])
    made = Schedule(jobs, 8, release, start, start + 10.0)
    parts = ["a", "a", "a", "a", "b", "b"]
    assert waited_for(made, parts) == ["", RESOURCES, QUEUE, "", RESOURCES, DEPENDENCY]


@given(crowds(MACHINE))
def test_exactly_the_jobs_that_wait_have_a_reason_and_the_first_to_wait_lacks_room(jobs: Workload) -> None:
    made = simulate(jobs, MACHINE, "fcfs+easy")
    found = waited_for(made, [""] * len(jobs))
    assert [bool(reason) for reason in found] == (made.wait_s > 0).tolist()
    for job, reason in enumerate(found):
        others = [other for other in range(job) if made.release[other] <= made.release[job] < made.start[other]]
        assert reason == ("" if made.wait_s[job] == 0 else QUEUE if others else RESOURCES)
    # Parts wait apart from each other.
    apart = waited_for(replace(made), [str(job) for job in range(len(jobs))])
    assert set(apart) <= {"", RESOURCES}
