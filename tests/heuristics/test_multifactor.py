"""Slurm's multifactor priorities: by its documented formula, and as lines of slurm.conf."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workloads import workload

from allocopt.errors import UsageError
from allocopt.heuristics.scheduling.multifactor import DAY_S, Multifactor
from allocopt.simulator.scheduler import get_policy

JOBS = [
    (1, 0.0, 50.0, 8, 61.0),
    (2, 30.0, 50.0, 1, 3600.0),
    (3, 400.0, 50.0, 16, 600.0),
    (4, 700.0, 9.0, 2, 59.0),
    (5, 90_000.0, 9.0, 2, 59.0),
]
MACHINE = 16


def priority(order: Multifactor, processors: int, limit_s: float, wait_s: float) -> float:
    """Return the priority of a job as https://slurm.schedmd.com/priority_multifactor.html has it."""
    size = processors / MACHINE
    if order.small_relative_to_time:
        size /= math.ceil(limit_s / 60)
    if order.favor_small:
        size = 1 - size
    return order.age * wait_s / (order.max_age_days * DAY_S) + order.job_size * size + order.cpu * processors / MACHINE


@given(*(st.floats(0.001, 100.0) for _ in range(3)), st.booleans(), st.booleans())
def test_jobs_stand_by_their_priority(age: float, size: float, cpu: float, relative: bool, favor_small: bool) -> None:
    order = Multifactor(age, size, cpu, 7.0, relative, favor_small)
    jobs, now = workload(JOBS), 100_000.0
    values = order.keys(jobs, np.random.default_rng(0)).values
    found = [priority(order, processors, limit, now - submit) for _, submit, _, processors, limit in JOBS]
    # The priorities of all jobs differ from the keys by the same.
    assert np.array(found) + values == pytest.approx(np.full(len(JOBS), found[0] + values[0]))


def test_the_lines_of_slurm_conf_keep_the_ratios_of_the_weights() -> None:
    lines = Multifactor(1.0, 3.0, 0.0, 14.0, small_relative_to_time=True).slurm_conf()
    assert lines == [
        "PriorityType=priority/multifactor",
        "PriorityMaxAge=14-0",
        "PriorityWeightAge=250000000",
        "PriorityWeightJobSize=750000000",
        "PriorityWeightTRES=CPU=0",
        "PriorityFavorSmall=NO",
        "PriorityFlags=SMALL_RELATIVE_TO_TIME",
    ]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"age": -1}, "age is -1, must be a weight of 0 or more"),
        ({"cpu": math.inf}, "cpu is inf"),
        ({"age": 0, "job_size": 0}, "at least one must be above 0"),
        ({"max_age_days": 0}, "max_age_days is 0, must be above 0"),
    ],
)
def test_weights_that_are_none_are_refused(options: dict[str, float], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        get_policy("multifactor", options)
