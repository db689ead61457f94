"""Episodes of every task end, begin anew and go back by the same rules."""

import copy
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from support.environments import ARGUMENTS, action_of, task_of

from allocopt.cluster.irmasim import irmasim_testbed
from allocopt.envs import COALLOCATION, CUSH, ENVIRONMENT, POLICY_SELECTION, TASKS, TWO_LEVEL
from allocopt.envs.cush import task as cush
from allocopt.envs.policy_selection.task import LEVELS, PolicySelectionOptions
from allocopt.envs.side_by_side import STAY, SideBySide
from allocopt.errors import UsageError
from allocopt.simulator.metrics import measure

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


def make(name: str, count: int | None = None, arguments: dict[str, Any] | None = None) -> Any:
    given = ARGUMENTS[name]() if arguments is None else arguments
    if count is None:
        return gymnasium.make(f"allocopt:{name}", disable_env_checker=True, **given).unwrapped
    return gymnasium.make_vec(name, num_envs=count, **given).unwrapped


SMALL = irmasim_testbed({3.4: 2})
DRAWN: dict[str, dict[str, Any]] = {
    ENVIRONMENT: {"processors": 32, "n_jobs": 200},
    TWO_LEVEL: {"window": 9},
    CUSH: {"machine": cush.Machine(4, 2, 4), "options": cush.CushOptions()},
    POLICY_SELECTION: {
        "machine": SMALL,
        "options": PolicySelectionOptions("normal", actions=("random-random", "first-high_gflops")),
    },
    COALLOCATION: {"cores": 64},
}
"""By id, arguments of environments whose jobs are drawn."""
OTHERS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in TASKS if name != COALLOCATION),
    (ENVIRONMENT, {"n_jobs": 12, "window": 3, "backfill": "none"}),
    (TWO_LEVEL, {"window": 4, "observation": "state"}),
    (TWO_LEVEL, {"reservations": "none", "can_end": True}),
    (TWO_LEVEL, {"reservations": "renewed"}),
    *((POLICY_SELECTION, {"machine": SMALL, "options": PolicySelectionOptions(level)}) for level in LEVELS),
    *(
        (CUSH, {"machine": machine, "options": options})
        for machine in ("summit", cush.Machine(4, 2, 4))
        for options in (
            cush.CushOptions(),
            cush.CushOptions(queue=2, horizon=3, observation="image"),
            cush.CushOptions(queue=3, plans_ahead=True),
            cush.CushOptions(observation="image", plans_ahead=True),
        )
    ),
]
"""Ids with other arguments than those of the contract."""


@every_task
def test_an_episode_that_is_over_stays_so_pays_nothing_and_shows_nothing_but_one_action(name: str) -> None:
    episodes = episodes_of(name, 2)
    assert episodes.tally["over"].all()
    episodes.begin(np.array([1, STAY]))
    assert episodes.tally["over"].tolist() == [0, 1]
    play(episodes, name)
    before = episodes.tally.copy()
    for _ in range(2):
        for seen, legal in zip(*episodes.observe(), strict=True):
            assert not seen.any()
            assert legal.sum() == 1
        rewards, over = act(episodes, name, np.random.default_rng(0))
        assert (rewards.tolist(), over.tolist()) == ([0.0, 0.0], [True, True])
    assert (episodes.tally == before).all()


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
def test_an_episode_of_many_begins_anew_in_the_step_after_its_last_and_steps_return_new_arrays(name: str) -> None:
    envs, rng = make(name, 3), np.random.default_rng(2)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observations, info = envs.reset(seed=4)
    metrics, was_over, ended = set(envs.episodes.metrics()), np.zeros(3, dtype=bool), 0
    returned: list[tuple[Any, Any]] = []
    while ended < 6:
        actions = np.array([action_of(name, mask, rng) for mask in info["action_mask"]])
        observations, rewards, over, _, info = envs.step(actions)
        assert not rewards[was_over].any()
        assert not over[was_over].any()
        assert not info["invalid_action"][was_over].any()
        assert info["action_mask"][~over].any(axis=1).all()
        assert not info["action_mask"][over].any()
        assert not any(part[over].any() for part in parts_of(observations))
        assert envs.observation_space.contains(observations)
        assert metrics & info.keys() == (metrics if over.any() else set())
        for metric in metrics if over.any() else ():
            assert (info[f"_{metric}"] == over).all()
            assert np.isfinite(info[metric][over]).all()
        was_over, ended = over, ended + int(over.sum())
        arrays = [*parts_of(observations), rewards, over, *info.values()]
        returned = [*returned[:20], (arrays, copy.deepcopy(arrays))]
    assert all((old == new).all() for arrays, kept in returned for old, new in zip(arrays, kept, strict=True))


@pytest.mark.parametrize(("name", "arguments"), [*((name, None) for name in TASKS), *OTHERS])
def test_gymnasium_finds_no_fault(name: str, arguments: dict[str, Any] | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(name, None, arguments))


@every_task
def test_many_environments_behave_as_one_each(name: str) -> None:
    one, many = make(name), make(name, 1)
    for seed in (9, None):
        drawn, told = one.reset(seed=seed), many.reset(seed=seed)
        assert all((a == b[0]).all() for a, b in zip(parts_of(drawn[0]), parts_of(told[0]), strict=True))
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
            assert all((np.asarray(value) == info[key][number]).all() for key, value in told.items())
        running &= ~over


@every_task
@pytest.mark.parametrize("drawn", [True, False], ids=["drawn", "given"])
def test_a_seed_fixes_jobs_and_episode_and_another_seed_gives_others(name: str, drawn: bool) -> None:
    def play(env: Any, seed: int) -> list[Any]:
        rng, told = np.random.default_rng(1), []
        seen, info = env.reset(seed=seed)
        for _ in range(20):
            seen, rewards, *_, info = env.step(np.array([action_of(name, mask, rng) for mask in info["action_mask"]]))
            told += [rewards.tolist(), *(part.tolist() for part in parts_of(seen))]
        return told

    first, second = (make(name, 4, DRAWN[name] if drawn else None) for _ in range(2))
    second.reset(seed=99)
    found = play(first, 7)
    assert found == play(second, 7) == play(first, 7)
    assert not drawn or found != play(first, 8)
    assert len(set(first.episodes.tally["jobset"].tolist())) > (first.episodes.n_jobsets > 4)


@every_task
def test_steps_and_resets_that_cannot_be_are_refused(name: str) -> None:
    env, envs = make(name), make(name, 3)
    option, n_jobsets, action = env.task.jobset_option, envs._episodes.n_jobsets, env.action_space.sample()
    for unbegun in (env, envs):
        with pytest.raises(UsageError, match="call reset first"):
            _ = unbegun.episodes
    env.reset(seed=0)
    envs.reset(seed=0)
    most = env.action_space.nvec if name == CUSH else env.action_space.n
    for wrong in (most + 0 * action, action - most - 1, [*np.ravel(action), 0], action + 0.5, None, "a", np.nan):
        with pytest.raises(UsageError, match="action"):
            env.step(wrong)
    with pytest.raises(UsageError, match=r"the actions have shape \(2,"):
        envs.step(np.array([action, action]))
    last = n_jobsets - 1
    for options, fault in (
        ({option: n_jobsets}, rf"the {option} is {n_jobsets}, must be within 0 \.\. {last}"),
        ({option: [0, -1, 0]}, f"the {option} is -1, must be within"),
        ({option: 0.5}, rf"the {option} is 0\.5, must be a whole number within 0 \.\. {last}"),
        ({option: [0, 1]}, f"there are 2 {option}s for 3 episodes"),
        (3, "reset got options=3, must be a dictionary"),
        ({"job_set": 0}, f"has no option 'job_set'; its only option is '{option}'"),
    ):
        with pytest.raises(UsageError, match=fault):
            envs.reset(options=options)
    with pytest.raises(UsageError, match="number of environments is 0"):
        make(name, 0)


@pytest.mark.parametrize("name", [ENVIRONMENT, TWO_LEVEL], ids=lambda name: TASKS[name][0])
def test_an_action_that_cannot_be_done_stands_for_the_first_that_can(name: str) -> None:
    env, same = make(name), make(name)
    env.reset(seed=0)
    same.reset(seed=0)
    over, wrong = False, 0
    while not over:
        empty = np.flatnonzero(~env.action_masks())
        observation, reward, over, _, info = env.step(empty[-1] if len(empty) else 0)
        expected = same.step(0)
        assert info["invalid_action"] == bool(len(empty))
        assert (observation == expected[0]).all()
        assert reward == expected[1]
        wrong += len(empty)
    assert wrong


@pytest.mark.parametrize("name", [ENVIRONMENT, TWO_LEVEL], ids=lambda name: TASKS[name][0])
def test_the_last_step_tells_the_metrics_of_the_schedule(name: str) -> None:
    env, rng = make(name), np.random.default_rng(0)
    _, info = env.reset(seed=1)
    over = False
    while not over:
        _, _, over, _, info = env.step(action_of(name, info["action_mask"], rng))
    schedule = env.episodes.schedule()
    metrics = measure(schedule)
    assert info["mean_bounded_slowdown"] == pytest.approx(metrics.jobs.bounded_slowdown.mean)
    assert info["mean_wait_s"] == pytest.approx(metrics.jobs.wait_s.mean)
    assert info["makespan_s"] == metrics.machine.makespan_s
    assert info.get("longest_wait_s", schedule.job_times.wait_s.max()) == schedule.job_times.wait_s.max()


@pytest.mark.parametrize("duplicate", COPIES, ids=["copy", "pickle"])
@pytest.mark.parametrize("drawn", [True, False], ids=["drawn", "given"])
@pytest.mark.parametrize("name", [name for name in TASKS if name != COALLOCATION], ids=lambda name: TASKS[name][0])
def test_a_copy_goes_its_own_way(name: str, drawn: bool, duplicate: Callable[[Any], Any]) -> None:
    env, rng = make(name, None, DRAWN[name] if drawn else None), np.random.default_rng(8)
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


@pytest.mark.slow
@every_task
def test_maskable_ppo_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("CI") != "true":
        pytest.importorskip("sb3_contrib")
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.logger import Logger

    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path / "logs"))
    env = make(name)
    policy = "MultiInputPolicy" if name == CUSH else "MlpPolicy"
    model = MaskablePPO(policy, env, n_steps=128, batch_size=64, n_epochs=2, seed=0, device="cpu")
    # Without one of ours it makes a folder among the temporary files.
    model.set_logger(Logger(None, []))
    before = {key: values.clone() for key, values in model.policy.state_dict().items()}
    model.learn(256)
    after = model.policy.state_dict()
    assert all(bool((values != before[key]).any()) for key, values in after.items())
    assert all(bool(np.isfinite(values.numpy()).all()) for values in after.values())
    assert not (tmp_path / "logs").exists()
    observation, _ = env.reset(seed=1)
    over = False
    while not over:
        action, _ = model.predict(observation, action_masks=env.action_masks())
        observation, _, over, _, info = env.step(action)
        assert not info["invalid_action"]
