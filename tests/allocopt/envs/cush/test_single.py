"""What the environment of CuSH shows, job sets that are drawn, and types of applications that become known."""

from functools import partial

import numpy as np
import pytest

from allocopt.envs.cush.jobsets import JobSet, Machine, Recipe
from allocopt.envs.cush.task import CushEnv, CushEpisodes, CushOptions, DynamicTypes
from allocopt.errors import UsageError
from allocopt.heuristics.scheduling.job_selection import baseline_episodes
from allocopt.simulator.locality import SIERRA_TABLE, TypeClassifier, WorkloadType
from allocopt.simulator.rules import Backfill

SMALL = Machine(4, 2, 4)


def small_sets(count: int = 3) -> list[JobSet]:
    return Recipe(jobs=6).draw_each(SMALL, SIERRA_TABLE, range(count))


def test_images_have_the_shape_of_the_paper() -> None:
    seen, info = CushEnv().reset(seed=1)
    assert seen["image"].shape == (6, 5, 128 * 6)
    assert CushEnv("summit").reset(seed=1)[0]["image"].shape == (6, 5, 128 * 8)
    assert info["action_mask"].shape == (8,)


def test_a_job_that_cannot_start_lets_time_pass_and_is_told() -> None:
    env = CushEnv(SMALL, small_sets())
    _, info = env.reset(seed=0)
    while info["action_mask"][0]:
        _, _, over, _, info = env.step(np.array([0, 0]))
        assert not over
    now = env.episodes.now[0]
    _, _, _, _, info = env.step(np.array([0, 0]))
    assert info["invalid_action"]
    assert env.episodes.now[0] == now + 1


def test_with_the_mask_of_the_paper_a_job_may_start_later_and_nothing_passes_it_that_would_delay_it() -> None:
    one_unit = np.array([[1, 1], [2, 1], [1, 1], [1, 1]])
    length = np.array([2.0, 3.0, 4.0, 1.0])
    jobs = JobSet(np.zeros(4, dtype=int), length, one_unit, np.tile(length[:, np.newaxis], 2), np.ones((4, 1)))
    # In the order of length: 1, 2, 3 timesteps (this one needs both CPUs) and 4.
    machine = Machine(1, 2, 4)
    for plans_ahead, fits in ((False, False), (True, True)):
        episodes = CushEpisodes([jobs], machine, 1, CushOptions(queue=4, plans_ahead=plans_ahead))
        episodes.begin(np.array([0]))
        zero = np.zeros(1, dtype=np.int64)
        episodes.step(np.array([1]), zero)  # two timesteps long
        assert bool(episodes.observe()[1][0, 2]) == fits
    episodes.step(np.array([2]), zero)
    assert episodes.times(0)[0].tolist() == [-1, 0, -1, -1]
    # The longest would delay it, and must start behind it, at 5, out of reach; the shortest fits beside the running.
    assert episodes.observe()[1][0].tolist() == [True, False, False, False, True]
    episodes.step(np.array([0]), zero)
    for _ in range(2):
        episodes.step(np.array([4]), zero)
    assert episodes.times(0)[0].tolist() == [0, 0, 2, -1]


def test_first_come_first_served_has_no_easy_backfilling_where_jobs_are_planned() -> None:
    planned = partial(
        baseline_episodes, small_sets(1), SMALL, "fcfs", "depth-first", options=CushOptions(plans_ahead=True)
    )
    with pytest.raises(UsageError, match="EASY"):
        list(planned(backfill=Backfill.EASY))
    assert [one.metrics()["wait"][0] >= 0 for one in planned()] == [True]


def test_features_do_not_depend_on_the_size_of_the_machine() -> None:
    jobs = small_sets(1)[0]
    twice = JobSet(jobs.arrival, jobs.length, 2 * jobs.request, jobs.service, jobs.traits)
    rows = []
    for sets, machine in ((jobs, SMALL), (twice, Machine(8, 2, 4))):
        fast = CushEpisodes([sets], machine)
        fast.begin(np.array([0]))
        rows.append(fast.observe()[0][0])
    changed = np.flatnonzero((np.abs(rows[0] - rows[1]) > 1e-6).any(axis=0)).tolist()
    # The logarithm of GPUs alone, on which penalties depend.
    assert changed in ([6], [])


def test_job_sets_are_drawn_as_the_paper_says() -> None:
    sets = Recipe(share=0.5).draw_each(Machine.of("summit"), SIERRA_TABLE, range(400))
    length = np.concatenate([jobs.length for jobs in sets])
    request = np.concatenate([jobs.request for jobs in sets])
    arrival = np.concatenate([jobs.arrival for jobs in sets])
    assert (length.min(), length.max(), arrival.min(), arrival.max()) == (1, 20, 0, 9)
    assert (length <= 10).mean() == pytest.approx(0.75, abs=0.02)
    assert request.min(axis=0).tolist() == [1, 1]
    assert request.max(axis=0).tolist() == [128, 384]
    traits = np.concatenate([jobs.traits for jobs in sets])
    assert traits.mean(axis=0) == pytest.approx([0.5, 0.5, 0.0], abs=0.03)


SETS = Recipe().draw_runs(SMALL, SIERRA_TABLE, range(4), 6)


@pytest.mark.slow
def test_jobs_take_the_time_of_their_type_which_is_told_once_three_runs_have_ended_and_is_right() -> None:
    episodes = CushEpisodes(SETS, SMALL)
    types = DynamicTypes(TypeClassifier(SIERRA_TABLE), episodes)
    runs = np.zeros(6, dtype=np.int64)
    assert SETS[0].penalty.argmin(axis=1).tolist() == (SETS[0].applications % 2).tolist()
    for number, one in enumerate(SETS):
        types.begin(number)
        over, before = False, runs.copy()
        while not over:
            legal = episodes.observe()[1][0]
            jobs, told = episodes.jobs()[0], episodes.descriptions()[0, :, :3]
            _, ends, _ = episodes.times(0)
            ended = (ends >= 0) & (ends <= episodes.now[0])
            runs = before + np.bincount(one.applications[ended], minlength=6)
            for job, traits in zip(jobs[jobs >= 0], told[jobs >= 0], strict=True):
                application = int(one.applications[job])
                true = (WorkloadType.COMPUTE, WorkloadType.NETWORK)[application % 2]
                expected = true if runs[application] >= 3 else WorkloadType.UNKNOWN
                assert traits.argmax() == expected
            over = bool(episodes.step(np.array([int(legal.argmax())]), np.array([number % 2]))[1].all())
            types.look()
        runs = before + np.bincount(one.applications, minlength=6)
    assert (runs >= 3).all()


def test_types_are_classified_in_one_episode_at_a_time_over_runs_of_applications() -> None:
    for episodes in (CushEpisodes(SETS, SMALL, 2), CushEpisodes(small_sets(), SMALL)):
        with pytest.raises(UsageError, match="one episode at a time; use jobsets with applications"):
            DynamicTypes(TypeClassifier(SIERRA_TABLE), episodes)
