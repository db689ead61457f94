"""The compiled environment beside a slow, obvious one that keeps lists and dictionaries."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.envs.cush.dynamics import Weights
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import CushEpisodes, CushOptions
from allocopt.simulator.held_nodes import BreadthFirst, DepthFirst
from allocopt.simulator.state import FREE


class SlowEpisode:
    """What the paper says, in plain Python."""

    def __init__(self, jobs: JobSet, machine: Machine, queue: int, horizon: int, *, plans_ahead: bool) -> None:
        self.jobs, self.machine, self.horizon, self.now = jobs, machine, horizon, 0
        self.reach = horizon if plans_ahead else 1
        self.slots: list[int | None] = [None] * queue
        self.coming = list(range(len(jobs)))
        self.backlog: list[int] = []
        self.started: dict[int, tuple[int, int, int]] = {}
        self.planned: dict[int, tuple[int, int, int]] = {}
        self.owner: dict[tuple[str, int, int], int] = {}
        self.arrive()

    def arrive(self) -> None:
        while self.coming and self.jobs.arrival[self.coming[0]] <= self.now:
            self.backlog.append(self.coming.pop(0))
        for slot, job in enumerate(self.slots):
            if job is None and self.backlog:
                self.slots[slot] = self.backlog.pop(0)

    def units(self) -> list[tuple[str, int, int]]:
        machine, nodes = self.machine, range(self.machine.nodes)
        kinds = ("cpu", machine.cpus), ("gpu", machine.gpus)
        return [(kind, node, unit) for kind, units in kinds for node in nodes for unit in range(units)]

    def is_free(self, unit: tuple[str, int, int]) -> bool:
        return unit not in self.owner or self.started[self.owner[unit]][1] <= self.now

    def free(self) -> np.ndarray[Any, Any]:
        return np.array(
            [
                [sum(self.is_free(u) for u in self.units() if u[0] == kind and u[1] == node) for kind in ("cpu", "gpu")]
                for node in range(self.machine.nodes)
            ]
        )

    def takes(self, job: int, policy: int) -> int:
        return math.ceil(self.jobs.service[job, policy] - 1e-9)

    def free_at(self, time: int) -> np.ndarray[Any, Any]:
        chosen = (self.started | self.planned).items()
        held = [self.jobs.request[job] for job, (start, end, _) in chosen if start <= time < end]
        return np.array(self.machine.total) - np.array(held, dtype=int).reshape(-1, 2).sum(axis=0)

    def earliest(self, job: int, run: int) -> int | None:
        for start in range(self.now, self.now + self.reach):
            if all((self.jobs.request[job] <= self.free_at(time)).all() for time in range(start, start + run)):
                return start
        return None

    def fits(self, job: int) -> bool:
        return self.earliest(job, max(self.takes(job, policy) for policy in (0, 1))) is not None

    def waiting(self) -> list[int]:
        return [job for job in self.slots if job is not None] + self.backlog

    def local_reward(self) -> float:
        return -sum((self.now - self.jobs.arrival[job]) / self.jobs.length[job] for job in self.waiting())

    def holders(self) -> list[int]:
        return [-1 if self.is_free(unit) else self.owner[unit] for unit in self.units()]

    def step(self, slot: int, policy: int) -> float:
        job = self.slots[slot] if slot < len(self.slots) else None
        if job is not None and self.fits(job):
            start = self.earliest(job, self.takes(job, policy))
            assert start is not None
            self.planned[job] = start, start + self.takes(job, policy), policy
            self.slots[slot] = None
        else:
            self.now += 1
        for other in sorted(self.planned):
            if self.planned[other][0] == self.now:
                self.start(other)
        self.arrive()
        return self.local_reward()

    def start(self, job: int) -> None:
        policy = self.planned[job][2]
        allocator = BreadthFirst() if policy else DepthFirst()
        (share,) = allocator.place(["job"], self.jobs.request[[job]], self.free())
        taken = []
        for node, units in zip(share.nodes.tolist(), share.units.tolist(), strict=True):
            for kind, number in zip(("cpu", "gpu"), units, strict=True):
                free = [u for u in self.units() if u[:2] == (kind, node) and self.is_free(u)]
                taken += free[:number]
        self.started[job] = self.planned.pop(job)
        self.owner.update(dict.fromkeys(taken, job))

    def over(self) -> bool:
        n = len(self.jobs)
        return len(self.started) == n and all(end <= self.now for _, end, _ in self.started.values())

    def image(self) -> np.ndarray[Any, Any]:
        units, cpus = self.units(), self.machine.nodes * self.machine.cpus
        image = np.zeros((len(self.slots) + 1, self.horizon, len(units)))
        for row in range(self.horizon):
            for column, unit in enumerate(units):
                if unit in self.owner:
                    image[0, row, column] = self.started[self.owner[unit]][1] > self.now + row
            for job, (start, end, _) in self.planned.items():
                for first, last, wanted in (
                    (0, cpus, self.jobs.request[job, 0]),
                    (cpus, None, self.jobs.request[job, 1]),
                ):
                    if start <= self.now + row < end:
                        image[0, row, first:last][np.flatnonzero(image[0, row, first:last] == 0)[:wanted]] = 1
        for slot, job in enumerate(self.slots):
            if job is not None:
                wait = self.now - self.jobs.arrival[job]
                rows = min(self.horizon, math.ceil(self.jobs.length[job]))
                for first, wanted in zip((0, cpus), self.jobs.request[job], strict=True):
                    image[slot + 1, :rows, first : first + wanted] = 0.5 + 0.5 * wait / (wait + 10)
        return image


@st.composite
def cases(draw: st.DrawFn) -> tuple[JobSet, Machine, int, int, int]:
    """Draw a small job set with a machine, a queue, a horizon and a seed for the actions."""
    machine = Machine(draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 4)))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n = draw(st.integers(1, 9))
    length = rng.integers(1, 7, n).astype(float)
    request = np.stack([rng.integers(0, units + 1, n) for units in machine.total], axis=1)
    request[request.sum(axis=1) == 0, 1] = 1
    service = length[:, np.newaxis] + np.round(rng.uniform(0, 3, (n, 2)), draw(st.integers(0, 2)))
    jobs = JobSet(rng.integers(0, 6, n), length, request, service, rng.random((n, 3)))
    return jobs, machine, draw(st.integers(1, 4)), draw(st.integers(1, 6)), seed


@given(cases(), st.booleans())
def test_every_step_of_an_episode_is_that_of_the_slow_twin(
    case: tuple[JobSet, Machine, int, int, int], plans_ahead: bool
) -> None:
    jobs, machine, queue, horizon, seed = case
    slow = SlowEpisode(jobs, machine, queue, horizon, plans_ahead=plans_ahead)
    options = CushOptions(queue, horizon, observation="image", plans_ahead=plans_ahead)
    fast = CushEpisodes([jobs], machine, 1, options)
    fast.begin(np.array([0]))
    rng = np.random.default_rng(seed)
    total, over = 0.0, False
    while not over:
        images, legal = fast.observe()
        fits = [job is not None and slow.fits(job) for job in slow.slots]
        assert legal[0].tolist() == [*fits, True]
        assert fast.jobs()[0].tolist() == [-1 if job is None else job for job in slow.slots]
        assert fast.backlog[0] == len(slow.backlog)
        np.testing.assert_allclose(images[0], slow.image(), atol=1e-6)
        assert [job for held in fast.placement(0) for job in held.ravel().tolist()] == slow.holders()
        assert fast._batch.units[0, FREE].tolist() == slow.free().sum(axis=0).tolist()
        slot, policy = int(rng.integers(0, queue + 1)), int(rng.integers(0, 2))
        rewards, ended = fast.step(np.array([slot]), np.array([policy]))
        expected = slow.step(slot, policy)
        total += expected
        over = slow.over()
        assert rewards[0] == pytest.approx(expected)
        assert bool(ended[0]) == over
    starts, ends, policies = fast.times(0)
    assert list(zip(starts.tolist(), ends.tolist(), policies.tolist(), strict=True)) == [
        slow.started[job] for job in range(len(jobs))
    ]
    waits = starts - jobs.arrival
    service = jobs.service[np.arange(len(jobs)), policies]
    metrics = {name: float(values[0]) for name, values in fast.metrics().items()}
    assert metrics["wait"] == pytest.approx(waits.mean())
    assert metrics["turnaround"] == pytest.approx((waits + service).mean())
    assert metrics["normalized_turnaround"] == pytest.approx(((waits + service) / service).mean())
    assert metrics["penalty"] == pytest.approx((service - jobs.length).mean())
    assert metrics["rewards"] == pytest.approx(total)


@given(cases(), st.booleans(), st.booleans())
def test_accrued_rewards_add_up_to_the_normalized_turnaround(
    case: tuple[JobSet, Machine, int, int, int], plans_ahead: bool, over_requested: bool
) -> None:
    jobs, machine, queue, horizon, seed = case
    weights = Weights(waiting=0.0, normalized_turnaround=2.0, penalty=0.5)
    for skips in (False, True):
        options = CushOptions(
            queue, horizon, reward=weights, skips_forced=skips, plans_ahead=plans_ahead, over_requested=over_requested
        )
        fast = CushEpisodes([jobs], machine, 1, options)
        fast.begin(np.array([0]))
        rng, over = np.random.default_rng(seed), np.zeros(1, dtype=bool)
        while not over.all():
            _, over = fast.step(rng.integers(0, queue + 1, 1), rng.integers(0, 2, 1))
        tally, n = fast.tally[0], len(jobs)
        starts, _, policies = fast.times(0)
        service = jobs.service[np.arange(n), policies]
        normalized = (starts - jobs.arrival + service) / (jobs.length if over_requested else service)
        assert tally["normalized_turnaround"] == pytest.approx(normalized.sum())
        expected = -2.0 * (tally["normalized_turnaround"] / n - 1.0) - 0.5 * tally["penalty"]
        # What is paid while the first job is waited for belongs to no action; nobody waits then.
        assert tally["total_reward"] == pytest.approx(expected)


@given(cases())
def test_no_planned_job_is_delayed_and_nothing_is_held_twice(case: tuple[JobSet, Machine, int, int, int]) -> None:
    jobs, machine, queue, horizon, seed = case
    fast = CushEpisodes([jobs], machine, 1, CushOptions(queue, horizon, plans_ahead=True))
    fast.begin(np.array([0]))
    rng, over, planned = np.random.default_rng(seed), False, {}
    while not over:
        seen, legal = fast.observe()
        slot = int(rng.choice(np.flatnonzero(legal[0])))
        if slot < queue:
            # What the agent is told holds for the slower policy.
            delay = seen[0, slot, 10]
            latest = int(fast.now[0]) + round(10 * delay / (1 - delay))
            planned[int(fast.jobs()[0, slot])] = latest
        over = bool(fast.step(np.array([slot]), rng.integers(0, 2, 1))[1][0])
    starts, ends, _ = fast.times(0)
    assert all(starts[job] <= latest for job, latest in planned.items())
    for time in range(int(ends.max())):
        runs = (starts <= time) & (time < ends)
        assert (jobs.request[runs].sum(axis=0) <= machine.total).all()
