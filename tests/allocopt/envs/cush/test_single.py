import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import allocopt.envs  # noqa: F401 - registers the environments
from allocopt.envs.cush.dynamics import Weights
from allocopt.envs.cush.jobsets import JobSet, Machine, Recipe
from allocopt.envs.cush.task import CushEnv, CushVectorEnv, Episodes, Options
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.simulator.locality import SIERRA_TABLE

SMALL = Machine(4, 2, 4)


def small_sets(count: int = 3) -> list[JobSet]:
    return Recipe(jobs=6).draw_each(SMALL, SIERRA_TABLE, range(count))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [None, Options(observation="slots"), Options(queue=2, horizon=3, observation="image")]
)
@pytest.mark.parametrize("machine", ["summit", SMALL])
def test_gymnasium_finds_no_fault(machine: Machine | str, options: Options | None) -> None:
    env = gymnasium.make("allocopt/CuSH-v0", machine=machine, options=options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_images_have_the_shape_of_the_paper() -> None:
    seen, info = CushEnv().reset(seed=1)
    assert seen["image"].shape == (6, 5, 128 * 6)
    assert CushEnv("summit").reset(seed=1)[0]["image"].shape == (6, 5, 128 * 8)
    assert info["action_mask"].shape == (8,)


def test_the_same_seed_gives_the_same_episode() -> None:
    first, second = (CushEnv(SMALL, options=Options()).reset(seed=5)[0]["slots"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_step_outside_an_episode_or_the_actions_is_refused() -> None:
    env = CushEnv(SMALL, small_sets())
    with pytest.raises(UsageError, match="call reset first"):
        env.step(np.array([0, 0]))
    env.reset(seed=0)
    for action in ([6, 0], [0, 2], [-1, 0]):
        with pytest.raises(UsageError, match="out of range"):
            env.step(np.array(action))
    with pytest.raises(UsageError, match="shape"):
        env.step(np.array([0]))


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


def test_what_is_not_an_option_is_refused() -> None:
    with pytest.raises(UsageError, match="queue is 0"):
        Options(queue=0)
    with pytest.raises(UsageError, match="one of image, slots"):
        Options(observation="film")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="finite"):
        Weights(waiting=float("nan"))
    with pytest.raises(UsageError, match="one of sierra, summit"):
        CushEnv("k")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no jobsets"):
        CushEnv("sierra", [])
    with pytest.raises(UsageError, match="asks for"):
        Episodes(Recipe().draw_each(Machine.of("sierra"), SIERRA_TABLE, [0]), SMALL)


def test_features_do_not_depend_on_the_size_of_the_machine() -> None:
    jobs = small_sets(1)[0]
    twice = JobSet(jobs.arrival, jobs.length, 2 * jobs.request, jobs.service, jobs.traits)
    rows = []
    for sets, machine in ((jobs, SMALL), (twice, Machine(8, 2, 4))):
        fast = Episodes([sets], machine)
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


def test_jobs_that_cannot_be_are_refused() -> None:
    one = np.ones(1)
    with pytest.raises(InvalidProblemError, match="shapes"):
        JobSet(np.zeros(1, dtype=int), one, np.ones((2, 2), dtype=int), np.ones((1, 2)), np.ones((1, 3)))
    with pytest.raises(InvalidProblemError, match="positive"):
        JobSet(np.zeros(1, dtype=int), one, np.ones((1, 2), dtype=int), np.zeros((1, 2)), np.ones((1, 3)))
    with pytest.raises(InvalidProblemError, match="ask for some"):
        JobSet(np.zeros(1, dtype=int), one, np.zeros((1, 2), dtype=int), np.ones((1, 2)), np.ones((1, 3)))
    with pytest.raises(UsageError, match="share"):
        Recipe(share=1.5)


def test_numbers_are_whole() -> None:
    env = CushEnv(SMALL, small_sets())
    env.reset(seed=0)
    with pytest.raises(UsageError, match="dtype float64, must be whole numbers"):
        env.step(np.array([0.5, 0.0]))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"the jobset is 3, must be within 0 \.\. 2"):
        env.reset(options={"jobset": 3})
    with pytest.raises(UsageError, match=r"there are 2 jobsets for 3 episodes"):
        CushVectorEnv(3, SMALL, small_sets()).reset(options={"jobset": [0, 1]})
    with pytest.raises(UsageError, match=r"queue is 1\.5, must be a whole number"):
        Options(queue=1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"number of nodes is 1\.5, must be a whole number"):
        Machine(1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the machine is 3, must be one of sierra, summit, or a Machine"):
        CushEnv(3)  # type: ignore[arg-type]
