"""Episodes of every task end, begin anew and go back by the same rules."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from support.environments import ARGUMENTS, action_of, task_of

from allocopt.envs import COALLOCATION, CUSH, TASKS
from allocopt.envs.side_by_side import STAY, SideBySide
from allocopt.errors import UsageError

Episodes = SideBySide[Any]
every_task = pytest.mark.parametrize("name", TASKS, ids=lambda name: TASKS[name][0])


def episodes_of(name: str, count: int) -> Episodes:
    episodes: Episodes = task_of(name)(**ARGUMENTS[name]()).episodes(count, np.random.default_rng(0))
    return episodes


def act(episodes: Episodes, name: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """Take a random legal action in every episode."""
    legal = episodes.observe()[1]
    actions = (rng.random(legal.shape) * legal).argmax(axis=1)
    return episodes.step(actions, 0 * actions) if name == CUSH else episodes.step(actions)


def play(episodes: Episodes, name: str) -> None:
    """Go on until the first episode ends."""
    rng = np.random.default_rng(3)
    while not act(episodes, name, rng)[1][0]:
        pass


def parts_of(observation: Any) -> list[Any]:
    return list(observation.values()) if isinstance(observation, dict) else [observation]


COPIES: tuple[Callable[[Any], Any], ...] = (copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env)))


def make(name: str, count: int | None = None) -> Any:
    if count is None:
        return gymnasium.make(name, disable_env_checker=True, **ARGUMENTS[name]()).unwrapped
    return gymnasium.make_vec(name, num_envs=count, **ARGUMENTS[name]()).unwrapped


@every_task
def test_every_task_has_an_environment_that_is_tried_here(name: str) -> None:
    assert sorted(ARGUMENTS) == sorted(TASKS)
    assert isinstance(make(name).task, type)


@every_task
def test_an_episode_that_is_over_stays_so_and_pays_nothing(name: str) -> None:
    episodes = episodes_of(name, 1)
    assert bool(episodes.tally["over"][0])
    episodes.begin(np.array([1]))
    assert not episodes.tally["over"][0]
    play(episodes, name)
    before = episodes.tally.copy()
    for _ in range(2):
        rewards, over = act(episodes, name, np.random.default_rng(0))
        assert (rewards[0], bool(over[0])) == (0.0, True)
    assert episodes.tally == before


@every_task
def test_of_an_episode_that_is_over_nothing_is_seen_and_one_action_is_legal(name: str) -> None:
    episodes = episodes_of(name, 2)
    episodes.begin(np.array([1, STAY]))
    play(episodes, name)
    for seen, legal in zip(*episodes.observe(), strict=True):
        assert not seen.any()
        assert legal.sum() == 1


@every_task
def test_what_an_episode_came_to_is_kept_whether_another_follows(name: str) -> None:
    ended, followed = episodes_of(name, 1), episodes_of(name, 1)
    for episodes, jobset in ((ended, STAY), (followed, 2)):
        assert episodes.last["jobset"][0] == 0
        episodes.begin(np.array([1]))
        episodes.follow(np.array([jobset]))
        play(episodes, name)
    assert ended.last == ended.tally == followed.last
    assert (ended.tally["jobset"][0], ended.tally["over"][0]) == (1, 1)
    assert (followed.tally["jobset"][0], followed.tally["over"][0], followed.tally["reward"][0]) == (2, 0, 0.0)


@every_task
def test_beginning_one_episode_leaves_the_others_as_they_are(name: str) -> None:
    episodes = episodes_of(name, 3)
    episodes.begin(np.array([1, 0, 2]))
    play(episodes, name)
    episodes.follow(np.array([2, 2, 2]))
    before = episodes.tally.copy()
    episodes.begin(np.array([STAY, STAY, 1]))
    assert (episodes.tally[:2] == before[:2]).all()
    assert (episodes.tally["jobset"][2], episodes.tally["over"][2]) == (1, 0)


@every_task
def test_jobsets_that_are_not_there_are_refused(name: str) -> None:
    episodes = episodes_of(name, 2)
    for jobsets, fault in (([0, episodes.n_jobsets], "must be within"), ([0], "shape"), ([-2, 0], "jobset is -2")):
        with pytest.raises(UsageError, match=fault):
            episodes.begin(np.array(jobsets))


@pytest.mark.parametrize("name", [name for name in TASKS if name != COALLOCATION], ids=lambda name: TASKS[name][0])
def test_a_snapshot_goes_back(name: str) -> None:
    episodes: Any = episodes_of(name, 3)
    episodes.begin(np.arange(3))
    episodes.follow(np.array([1, STAY, 0]))

    def gains(steps: int) -> list[float]:
        rng = np.random.default_rng(0)
        return [gain for _ in range(steps) for gain in act(episodes, name, rng)[0].tolist()]

    gains(5)
    snapshot, seen = episodes.snapshot(), episodes.observe()
    assert all(values.dtype.names is None for values in snapshot.values())
    first = gains(60)
    episodes.restore(snapshot)
    for one, other in zip(seen, episodes.observe(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert gains(60) == first


@every_task
def test_the_last_step_tells_what_the_episode_came_to_and_shows_nothing(name: str) -> None:
    env, rng = make(name), np.random.default_rng(1)
    with pytest.raises(UsageError, match="call reset first"):
        env.step(env.action_space.sample())
    for _ in range(2):
        observation, info = env.reset(seed=1)
        over, metrics = False, set(env.episodes.metrics())
        while not over:
            assert info["action_mask"].any()
            assert (info["action_mask"].dtype, env.action_masks().dtype) == (np.int8, np.bool_)
            assert (info["action_mask"] == env.action_masks()).all()
            assert env.observation_space.contains(observation)
            assert not metrics & info.keys()
            observation, reward, over, truncated, info = env.step(action_of(name, info["action_mask"], rng))
            assert not truncated
            assert isinstance(reward, float)
        assert not any(part.any() for part in parts_of(observation))
        assert not info["action_mask"].any()
        assert not env.action_masks().any()
        assert all(np.isfinite(info[metric]) for metric in metrics)
        with pytest.raises(UsageError, match="the episode is over"):
            env.step(env.action_space.sample())


@every_task
def test_an_episode_of_many_begins_anew_in_the_step_after_its_last(name: str) -> None:
    envs, rng = make(name, 3), np.random.default_rng(2)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observations, info = envs.reset(seed=4)
    metrics, was_over, ended = set(envs.episodes.metrics()), np.zeros(3, dtype=bool), 0
    while ended < 6:
        actions = np.array([action_of(name, mask, rng) for mask in info["action_mask"]])
        observations, rewards, over, _, info = envs.step(actions)
        assert not rewards[was_over].any()
        assert not over[was_over].any()
        assert not info["invalid_action"][was_over].any()
        assert info["action_mask"][~over].any(axis=1).all()
        assert not info["action_mask"][over].any()
        assert not any(part[over].any() for part in parts_of(observations))
        assert metrics & info.keys() == (metrics if over.any() else set())
        for metric in metrics if over.any() else ():
            assert (info[f"_{metric}"] == over).all()
            assert np.isfinite(info[metric][over]).all()
        was_over, ended = over, ended + int(over.sum())


@every_task
def test_one_of_many_is_the_single_environment(name: str) -> None:
    env, envs, rng = make(name), make(name, 1), np.random.default_rng(5)
    (one, told), (many, info) = env.reset(seed=9), envs.reset(seed=9)
    ended = 0
    while ended < 3:
        assert all((a == b[0]).all() for a, b in zip(parts_of(one), parts_of(many), strict=True))
        assert {key: np.asarray(value).tolist() for key, value in told.items()} == {
            key: value[0].tolist() for key, value in info.items() if not key.startswith("_")
        }
        action = action_of(name, told["action_mask"], rng)
        if ended_now := not told["action_mask"].any():
            (one, told), (many, _, _, _, info) = env.reset(), envs.step(np.array([action]))
            del info["invalid_action"]
        else:
            (one, *single, told), (many, *several, info) = env.step(action), envs.step(np.array([action]))
            assert single == [values[0] for values in several]
        ended += ended_now


@every_task
def test_gymnasium_finds_no_fault(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(name))


@every_task
def test_many_environments_behave_as_one_each(name: str) -> None:
    envs, singles, rng = make(name, 3), [make(name) for _ in range(3)], np.random.default_rng(7)
    option = envs.task.jobset_option
    seen, info = envs.reset(seed=3, options={option: np.arange(3)})
    for number, env in enumerate(singles):
        one = env.reset(options={option: number})[0]
        assert all((a == b[number]).all() for a, b in zip(parts_of(one), parts_of(seen), strict=True))
    running = np.ones(3, dtype=bool)
    while running.any():
        actions = np.array([action_of(name, mask, rng) for mask in info["action_mask"]])
        seen, rewards, over, _, info = envs.step(actions)
        for number in np.flatnonzero(running):
            one, reward, ended, _, told = singles[number].step(actions[number])
            assert (reward, ended) == (rewards[number], over[number])
            assert all((a == b[number]).all() for a, b in zip(parts_of(one), parts_of(seen), strict=True))
            assert (told["action_mask"] == info["action_mask"][number]).all()
            if ended:
                assert all(info[metric][number] == told[metric] for metric in envs.episodes.metrics())
        running &= ~over


@pytest.mark.parametrize("duplicate", COPIES, ids=["copy", "pickle"])
@pytest.mark.parametrize("name", [name for name in TASKS if name != COALLOCATION], ids=lambda name: TASKS[name][0])
def test_a_copy_goes_its_own_way(name: str, duplicate: Callable[[Any], Any]) -> None:
    env, rng = make(name), np.random.default_rng(8)
    _, info = env.reset(seed=3)
    for _ in range(3):
        info = env.step(action_of(name, info["action_mask"], rng))[-1]
    twin = duplicate(env)
    for _ in range(4):
        action = action_of(name, info["action_mask"], rng)
        (one, reward, _, _, info), (same, equal, *_) = env.step(action), twin.step(action)
        assert all((a == b).all() for a, b in zip(parts_of(one), parts_of(same), strict=True))
        assert reward == equal
    assert all((a == b).all() for a, b in zip(parts_of(env.reset()[0]), parts_of(twin.reset()[0]), strict=True))
