"""Episodes of every task end, begin anew and go back by the same rules."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.multicore import random_jobs, random_machine
from support.workloads import MACHINE, random_workload

from allocopt.envs.cush import episodes as cush
from allocopt.envs.cush.jobsets import Machine, Recipe, draw_jobsets
from allocopt.envs.dras import episodes as dras
from allocopt.envs.policy_selection import episodes as policy_selection
from allocopt.envs.side_by_side import STAY
from allocopt.simulator.locality import SIERRA_TABLE

Episodes = Any
"""`SideBySide` with `observe`, whose second value says which actions are legal, and `step`."""


def dras_episodes(count: int) -> Episodes:
    return dras.Episodes([random_workload(30 + 7 * n, n) for n in range(3)], MACHINE, count, dras.Options(window=5))


def cush_episodes(count: int) -> Episodes:
    machine = Machine(4, 2, 4)
    return cush.Episodes(draw_jobsets(machine, SIERRA_TABLE, range(3), Recipe(jobs=6)), machine, count)


def policy_selection_episodes(count: int) -> Episodes:
    rng = np.random.default_rng(6)
    machine = random_machine(rng)
    options = policy_selection.Options(actions=("first-high_cores", "shortest-high_cores"))
    return policy_selection.Episodes(
        [random_jobs(rng, machine, 9 + n) for n in range(3)], machine, count, options=options
    )


makers = pytest.mark.parametrize(
    "make",
    [dras_episodes, cush_episodes, policy_selection_episodes],
    ids=lambda make: make.__name__.removesuffix("_episodes"),
)


def act(episodes: Episodes, rng: np.random.Generator) -> tuple[Any, Any]:
    """Take a random legal action in every episode."""
    legal = episodes.observe()[1]
    actions = (rng.random(legal.shape) * legal).argmax(axis=1)
    return episodes.step(actions, 0 * actions) if isinstance(episodes, cush.Episodes) else episodes.step(actions)


def play(episodes: Episodes) -> None:
    """Go on until the first episode ends."""
    rng = np.random.default_rng(3)
    while not act(episodes, rng)[1][0]:
        pass


@makers
def test_an_episode_that_is_over_stays_so_and_pays_nothing(make: Callable[[int], Episodes]) -> None:
    episodes = make(1)
    episodes.begin(np.array([1]))
    play(episodes)
    before = episodes.tally.copy()
    for _ in range(2):
        rewards, ended = act(episodes, np.random.default_rng(0))
        assert (rewards[0], bool(ended[0])) == (0.0, True)
    kept = set(before.dtype.names) - {"reward", "invalid"}
    assert {name: episodes.tally[name][0] for name in kept} == {name: before[name][0] for name in kept}


@makers
def test_what_an_episode_came_to_is_kept_whether_another_follows(make: Callable[[int], Episodes]) -> None:
    ended, followed = make(1), make(1)
    for episodes, jobset in ((ended, STAY), (followed, 2)):
        assert episodes.last["jobset"][0] == 0
        episodes.begin(np.array([1]))
        episodes.follow(np.array([jobset]))
        play(episodes)
    assert ended.last == ended.tally == followed.last
    assert (ended.tally["jobset"][0], ended.tally["over"][0]) == (1, 1)
    assert (followed.tally["jobset"][0], followed.tally["over"][0], followed.tally["reward"][0]) == (2, 0, 0.0)


@makers
def test_a_snapshot_goes_back(make: Callable[[int], Episodes]) -> None:
    episodes = make(3)
    episodes.begin(np.arange(3))
    episodes.follow(np.array([1, STAY, 0]))

    def gains(steps: int) -> list[float]:
        rng = np.random.default_rng(0)
        return [gain for _ in range(steps) for gain in act(episodes, rng)[0].tolist()]

    gains(5)
    snapshot, seen = episodes.snapshot(), episodes.observe()
    first = gains(60)
    episodes.restore(snapshot)
    for one, other in zip(seen, episodes.observe(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert gains(60) == first
