"""Episodes side by side: what they keep, what they pay, and what they show, against plain Python."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workloads import MACHINE, crowds, random_workload

from allocopt.envs.dras.dynamics import CAPABILITY, CAPACITY, FEATURES, Weights
from allocopt.envs.dras.task import DrasEpisodes, DrasOptions
from allocopt.heuristics.scheduling.two_level import AtRandom
from allocopt.simulator.rules import EventOrder, Level, Mode, Reservations, Rules
from allocopt.simulator.two_level import Choice
from allocopt.traces.workload import Workload

ALL_PARTS = Weights(0.5, 0.25, 0.125, 2.0, 1.0, 0.01, 0.1, 0.3, unit_s=60.0)


@given(jobs=crowds(MACHINE), seed=st.integers(0, 5), window=st.integers(1, 9), order=st.sampled_from(EventOrder))
def test_no_reserved_job_starts_after_its_reserved_time(
    jobs: Workload, seed: int, window: int, order: EventOrder
) -> None:
    episodes = DrasEpisodes([jobs], MACHINE, 1, DrasOptions(window=window, rules=Rules(event_order=order)))
    episodes.begin(np.array([0]))
    promised = np.full(len(jobs), np.inf)
    while not episodes.tally["over"][0]:
        episodes.step(np.array([AtRandom(seed).select(episodes.choice(0))]))
        assert (episodes.promised(0) <= promised).all(), "a reservation never moves to a later time"
        promised = episodes.promised(0)
    start, modes = episodes.schedule(0).start, episodes.modes(0)
    assert (start <= promised).all()
    np.testing.assert_array_equal(modes == Mode.RESERVED, np.isfinite(promised))


def paid(choice: Choice, slot: int, weights: Weights) -> float:
    """Eq. 1 and 2 of a choice, from the queue as it stands before it."""
    view, job = choice.view, int(choice.jobs[slot])
    queue, size = view.queue, int(view.processors[job])
    waits = np.array([view.waited(other) for other in queue.tolist()])
    starts = view.fits(job)
    used = MACHINE - view.free_processors + (size if starts else 0)
    share = view.waited(job) / waits.max() if waits.max() > 0 else 0.0
    left = queue[queue != job] if starts else queue
    rate = -(weights.unit_s / view.estimate[left]).sum() / len(queue)
    machine = float(MACHINE)
    terms = weights.oldest * share, weights.size * size / machine, weights.used * used / machine
    return float(sum(terms) + weights.capacity * rate)


@pytest.mark.parametrize("reservations", Reservations)
@pytest.mark.parametrize("weights", [CAPABILITY, CAPACITY, ALL_PARTS], ids=["capability", "capacity", "all"])
def test_rewards_are_those_of_the_equations_and_add_up(weights: Weights, reservations: Reservations) -> None:
    jobs = random_workload(120, 3)
    episodes = DrasEpisodes([jobs], MACHINE, 1, DrasOptions(window=10, reservations=reservations, reward=weights))
    episodes.begin(np.array([0]))
    total = by_choice = 0.0
    only_paid = replace(Weights(), **{part: asdict(weights)[part] for part in ("oldest", "size", "used", "capacity")})
    is_all_paid = replace(only_paid, unit_s=weights.unit_s) == weights
    while not episodes.tally["over"][0]:
        choice = episodes.choice(0)
        slot = AtRandom(1).select(choice)
        expected = paid(choice, slot, weights)
        rewards, _ = episodes.step(np.array([slot]))
        total, by_choice = total + rewards[0], by_choice + expected
        if is_all_paid:
            assert rewards[0] == pytest.approx(expected, rel=1e-12)
    waits = episodes.schedule(0).job_times.wait_s / weights.unit_s
    slowdowns = episodes.schedule(0).job_times.bounded_slowdown
    objective = weights.mean_wait * waits.mean() + weights.mean_square_wait * (waits**2).mean()
    objective += weights.longest_wait * waits.max() + weights.bounded_slowdown * slowdowns.mean()
    assert total == pytest.approx(by_choice - objective, rel=1e-9)
    assert episodes.tally["total_reward"][0] == pytest.approx(total, rel=1e-12)


def described(choice: Choice, slot: int, window: int) -> dict[str, float]:
    """Features of a slot, from what a scheduler sees."""
    view, job = choice.view, int(choice.jobs[slot])
    queue, free, second = view.queue, view.free_processors, choice.level is Level.SECOND
    size, estimate, wait = int(view.processors[job]), float(view.estimate[job]), view.waited(job)
    gap = choice.shadow - view.now if second else 0.0
    longest = max(view.waited(other) for other in queue.tolist())

    def log(seconds: float) -> float:
        return min(2.0, float(np.log2(1 + seconds / 60)) / 10)

    def delay(units: int) -> float:
        idle, ends = free, [(max(0.0, view.expected_end[j] - view.now), view.processors[j]) for j in view.running]
        for left, given_back in sorted(ends):
            if idle >= units:
                break
            idle, last = idle + given_back, left
        return 0.0 if free >= units else last

    load = sum(view.processors[j] * view.estimate[j] for j in queue) / MACHINE
    return {
        "size": size / MACHINE,
        "log_size": np.log(1 + size) / np.log(1 + MACHINE),
        "size_over_free": size / (size + free),
        "log_estimate": log(estimate),
        "log_wait": log(wait),
        "wait_over_response": wait / (wait + estimate),
        "wait_over_longest": wait / longest if longest else 0.0,
        "rank": slot / window,
        "fits": float(size <= free),
        "log_delay": log(delay(size)),
        "log_area": log(size * estimate / MACHINE),
        "estimate_over_gap": estimate / (estimate + gap) if second else 0.0,
        "within_spare": float(second and size <= choice.spare[0]),
        "level": float(second),
        "free": free / MACHINE,
        "log_gap": log(gap),
        "spare": choice.spare[0] / MACHINE if second else 0.0,
        "log_half": log(delay(MACHINE // 2)),
        "log_all": log(delay(MACHINE)),
        "queue": len(queue) / (len(queue) + window),
        "log_load": log(load),
    }


@pytest.mark.parametrize("reservations", Reservations)
def test_slots_are_described_as_documented(reservations: Reservations) -> None:
    options = DrasOptions(window=6, reservations=reservations)
    episodes = DrasEpisodes([random_workload(80, 2)], MACHINE, 1, options)
    episodes.begin(np.array([0]))
    levels = set()
    while not episodes.tally["over"][0]:
        (observation,), (legal,) = episodes.observe()
        choice = episodes.choice(0)
        levels.add(choice.level)
        assert legal[: len(choice.jobs)].tolist() == choice.legal.tolist()
        assert not legal[len(choice.jobs) :].any()
        assert not observation[len(choice.jobs) :].any()
        for slot in range(len(choice.jobs)):
            features = described(choice, slot, 6)
            assert tuple(features) == FEATURES
            np.testing.assert_allclose(observation[slot], list(features.values()), rtol=1e-6)
        episodes.step(np.array([AtRandom(3).select(choice)]))
    assert levels == ({Level.FIRST} if reservations is Reservations.NONE else {Level.FIRST, Level.SECOND})


def test_the_state_is_that_of_the_paper() -> None:
    options = DrasOptions(window=6, observation="state")
    episodes = DrasEpisodes([random_workload(80, 2)], MACHINE, 1, options)
    episodes.begin(np.array([0]))
    while not episodes.tally["over"][0]:
        (state,), _ = episodes.observe()
        assert state.shape == (2 * 6 + MACHINE, 2)
        choice = episodes.choice(0)
        view = choice.view
        expected = np.zeros_like(state)
        for slot, job in enumerate(choice.jobs.tolist()):
            expected[2 * slot] = view.processors[job] / MACHINE, view.estimate[job] / 86_400
            expected[2 * slot + 1] = 0, view.waited(job) / 86_400
        left = [max(0.0, view.expected_end[j] - view.now) for j in view.running for _ in range(view.processors[j])]
        expected[12:, 0] = [1] * view.free_processors + [0] * len(left)
        expected[12:, 1] = [0] * view.free_processors + [seconds / 86_400 for seconds in left]
        np.testing.assert_allclose(state, expected, rtol=1e-6)
        episodes.step(np.array([AtRandom(3).select(choice)]))


@pytest.mark.parametrize("reservations", Reservations)
def test_skipping_forced_choices_changes_no_schedule(reservations: Reservations) -> None:
    schedules, totals, choices = [], [], []
    for skips in (False, True):
        options = DrasOptions(window=5, reservations=reservations, skips_forced=skips, reward=ALL_PARTS)
        episodes = DrasEpisodes([random_workload(91, 3)], MACHINE, 1, options)
        episodes.begin(np.array([0]))
        n_choices = 0
        while not episodes.tally["over"][0]:
            _, (legal,) = episodes.observe()
            assert not skips or legal.sum() > 1
            episodes.step(np.array([np.flatnonzero(legal)[-1]]))
            n_choices += 1
        schedules.append(episodes.schedule(0).start)
        totals.append(episodes.tally["total_reward"][0])
        choices.append(n_choices)
    np.testing.assert_array_equal(*schedules)
    assert totals[0] == pytest.approx(totals[1], rel=1e-12)
    assert choices[1] < choices[0]
