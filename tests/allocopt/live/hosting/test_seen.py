"""What policies see of real jobs: slowdowns over running alone, cores that they wish for, time that is left."""

import pytest

from allocopt.live.hosting.guests import Guest
from allocopt.live.hosting.hosts import Host
from allocopt.live.hosting.processes import Use
from allocopt.live.hosting.seen import MIB_PER_CORE, SeenGuest, SeenHost
from allocopt.traces.job_profile import StageKind


def host(cores: int = 1, limit_s: float = 100.0) -> SeenHost:
    return SeenHost(Host("7", "solver", frozenset((1,)), cores, 1000.0, limit_s), 5, 0.0)


def test_a_host_is_as_slow_as_it_gets_less_of_its_demand_than_alone() -> None:
    seen = host()
    seen.record(Use(1.0, 0.0, 0, 1.0, 1.0), 1.0, is_alone=True)
    assert seen.slowdown == 1.0
    seen.record(Use(0.5, 0.5, 0, 0.5, 1.0), 1.0, is_alone=False)
    assert seen.slowdown == pytest.approx(2.0)
    assert seen.mean_slowdown == pytest.approx(2 / 1.5)
    # Whoever is on its cores already is none of the guest's fault.
    crowded = host()
    for _ in range(50):
        crowded.record(Use(0.5, 0.5, 0, 0.5, 1.0), 1.0, is_alone=True)
    crowded.record(Use(0.4, 0.6, 0, 0.4, 1.0), 1.0, is_alone=False)
    assert crowded.slowdown == pytest.approx(1.25)


def test_a_host_that_mostly_waits_is_slower_only_while_it_runs() -> None:
    # 10 ms of work and 10 ms of delay in 110 ms, which were 100 ms alone.
    seen = host()
    seen.record(Use(0.01, 0.01, 0, 0.5, 0.02 / 0.11), 0.11, is_alone=False)
    assert seen.slowdown == pytest.approx(1.1)
    idle = host()
    idle.record(Use(0.0, 0.0, 0), 1.0, is_alone=False)
    assert (idle.slowdown, idle.progress(1001.0, {}).stage.cpu) == (1.0, 1e-9)


def test_a_host_is_shown_by_its_wishes_and_the_time_that_it_still_needs() -> None:
    seen = host(cores=4)
    seen.record(Use(0.5, 0.25, round(2 * MIB_PER_CORE * 2**20)), 1.0, is_alone=True)
    shown = seen.progress(1010.0, {})
    assert shown.stage.cpu == 0.18
    assert shown.stage.memory == pytest.approx(0.5)
    assert shown.stage.kind is StageKind.SEQUENTIAL
    # 80 seconds are expected of a limit of 100, of which 10 are over; 30 where the application took as long before.
    assert (shown.work_left_s, seen.progress(1010.0, {"solver": 40.0}).work_left_s) == (70.0, 30.0)
    assert shown.happiness(1010.0) == pytest.approx(90 / 70)


def test_a_guest_asks_for_what_its_file_says() -> None:
    asked = SeenGuest(Guest("g", ("true",), "app", 2, 0.5, MIB_PER_CORE, 125.0), 3).queued
    assert (asked.application, asked.job.cores, asked.job.mean("cpu")) == ("app", 2, 0.5)
    assert (asked.job.peak_memory(), asked.job.remaining_s, asked.job.walltime_s) == (0.5, 100.0, 125.0)
