"""Runnable jobs start until no waiting job fits."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from support.simulations import assert_lawful, machine_of, rules, small_workloads

from allocopt.errors import UsageError
from allocopt.simulator.engine import Simulation
from allocopt.simulator.registry import get_policy
from allocopt.simulator.rules import Rules
from allocopt.simulator.scheduler import Start
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload
from heuristics.scheduling.runnable import RandomRunnable


class PlainBinPacking:
    """Starts the largest runnable job, the first submitted of equal ones, until none is left."""

    def schedule(self, view: View) -> Iterator[Start]:
        while runnable := [job for job in view.queue.tolist() if view.fits(job)]:
            yield Start(min(runnable, key=lambda job: (-view.processors[job], job)))


class PlainRandomRunnable(RandomRunnable):
    """Asks the jobs in the drawn order, one after the other."""

    def schedule(self, view: View) -> Iterator[Start]:
        moment = int(np.float64(view.now + 0.0).view(np.uint64))
        queue = view.queue
        for job in np.random.default_rng((self.seed, moment, len(queue))).permutation(queue).tolist():
            if view.fits(job):
                yield Start(job)


def nobody_fits(simulation: Simulation) -> None:
    view = simulation.view
    assert not any(view.fits(job) for job in view.queue.tolist())


@given(jobs=small_workloads(following=True), rules=rules)
def test_binpacking_starts_the_largest_runnable_job_again_and_again(jobs: Workload, rules: Rules) -> None:
    schedule = simulate(jobs, machine_of(jobs), "binpacking", rules, observer=nobody_fits)
    assert schedule.start.tolist() == simulate(jobs, machine_of(jobs), PlainBinPacking(), rules).start.tolist()


@given(jobs=small_workloads(following=True), rules=rules)
def test_random_runnable_leaves_nobody_who_fits_and_its_seed_fixes_the_schedule(jobs: Workload, rules: Rules) -> None:
    schedules = [simulate(jobs, machine_of(jobs), RandomRunnable(3), rules, observer=nobody_fits) for _ in range(2)]
    assert_lawful(schedules[0], machine_of(jobs), rules)
    assert schedules[0].start.tolist() == schedules[1].start.tolist()


@given(jobs=small_workloads(following=True), rules=rules)
def test_random_runnable_starts_what_fits_in_the_drawn_order(jobs: Workload, rules: Rules) -> None:
    schedules = [simulate(jobs, machine_of(jobs), one(3), rules) for one in (RandomRunnable, PlainRandomRunnable)]
    assert schedules[0].start.tolist() == schedules[1].start.tolist()


@pytest.mark.slow
def test_every_job_is_as_likely_as_another_and_seeds_differ() -> None:
    one = np.ones(12)
    jobs = Workload("equal", np.arange(12), 0 * one, 10 * one, np.ones(12, dtype=np.int64), 10 * one)
    first = [int(np.argmin(simulate(jobs, 1, RandomRunnable(seed)).start)) for seed in range(600)]
    counts = np.bincount(first, minlength=12)
    # Binomial with mean 50 and standard deviation 6.8.
    assert counts.min() > 20
    assert counts.max() < 80


def test_a_job_is_drawn_anew_at_every_scheduling_point() -> None:
    rng = np.random.default_rng(0)
    n = 200
    jobs = Workload("queue", np.arange(n), np.zeros(n), np.ones(n), rng.integers(1, 3, n), np.ones(n))
    order = np.argsort(simulate(jobs, 4, RandomRunnable(0)).start, kind="stable")
    fixed = np.argsort(simulate(jobs, 4, "random").start, kind="stable")
    assert order.tolist() != fixed.tolist()


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="the seed is -1"):
        get_policy("random-runnable", {"seed": -1})
