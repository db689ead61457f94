"""Episodes of jobsets are played through together, judged against each other, and drawn by the policy's odds."""

import numpy as np
import pytest

from allocopt.arrays import Float32Array, FloatArray
from allocopt.envs.dras.dynamics import Weights
from allocopt.envs.dras.task import Options
from allocopt.traces.workload import Workload
from learned.dras.environment import JobsetEnvironment, _first_come_first_served, _mean_waits_s
from learned.rl.slots import CompactNetwork, SlotPolicy

torch = pytest.importorskip("torch")

from learned.dras.experience import JobsetCollector, _play, _relative_rewards, _timed_advantages  # noqa: E402
from learned.rl.networks import SlotActorCritic, SlotStates, weights_of  # noqa: E402
from learned.rl.training import PpoSettings  # noqa: E402

NODES, FEATURES = 16, 21
REWARD = Weights(mean_wait=1.0, longest_wait=0.1)


def jobset(seed: int, n: int = 30) -> Workload:
    rng = np.random.default_rng(seed)
    run = rng.integers(10, 500, n).astype(float)
    submit = np.sort(rng.integers(0, 1500, n)).astype(float)
    return Workload(f"set {seed}", np.arange(n), submit, run, rng.integers(1, NODES + 1, n), run * rng.uniform(1, 3, n))


def environment(count: int = 6) -> JobsetEnvironment:
    phases = [
        ((jobset(0), jobset(1), jobset(2)), 0.5),
        ((jobset(3, 20), jobset(4, 25)), 0.5),
    ]
    return JobsetEnvironment(phases, NODES, count, Options(window=8, reward=REWARD, skips_forced=True), 0)


def model(seed: int = 0) -> SlotActorCritic:
    network = CompactNetwork(FEATURES, 16, 8, 8)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return SlotActorCritic(network)


def some_states(n: int, seed: int = 0) -> tuple[Float32Array, np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(seed)
    legal = rng.random((n, 8)) < 0.5
    legal[:, 2] = True
    return rng.normal(size=(n, 8, FEATURES)).astype(np.float32), legal


def test_packed_states_say_what_dense_ones_say() -> None:
    states, legal = some_states(40)
    net = model()
    several = SlotStates.joined([states[:15][legal[:15]], states[15:][legal[15:]]], legal)
    logits = net.actor(torch.from_numpy(states)).squeeze(-1)
    expected = torch.log_softmax(logits.masked_fill(~torch.from_numpy(legal), -1e30), dim=1)
    found = net.log_probabilities(several, torch.from_numpy(legal))
    torch.testing.assert_close(found[torch.from_numpy(legal)], expected[torch.from_numpy(legal)])
    assert found.exp()[~torch.from_numpy(legal)].sum() == 0
    chosen = torch.tensor([31, 4, 4, 0])
    torch.testing.assert_close(net.log_probabilities(several[chosen], torch.from_numpy(legal)[chosen]), found[chosen])
    torch.testing.assert_close(net.values(several[chosen]), net.values(several)[chosen])
    pooled = [states[4][legal[4]].mean(0), states[4][legal[4]].max(0)]
    np.testing.assert_allclose(several.pooled[4], np.concatenate(pooled), rtol=1e-5)


def test_actions_are_drawn_by_the_softmax_of_the_legal_values() -> None:
    states, legal = some_states(1)
    policy = SlotPolicy.of(weights_of(model()))
    with torch.no_grad():
        values = model().actor(torch.from_numpy(states[0])).numpy()[:, 0]
    weights = np.exp(values) * legal[0]
    n = 4000
    uniform = (np.arange(n) + 0.5) / n
    dense = np.ascontiguousarray(np.broadcast_to(states, (n, 8, FEATURES)))
    actions = policy.choose(dense, np.ascontiguousarray(np.broadcast_to(legal, (n, 8))), uniform)
    np.testing.assert_allclose(np.bincount(actions, minlength=8) / n, weights / weights.sum(), atol=2 / n)
    assert policy.choose(states, legal)[0] == weights.argmax()


def test_a_group_is_played_to_its_end_on_its_own_jobsets() -> None:
    env = environment()
    jobsets = env.begin_groups(3)
    assert sorted(jobsets.tolist()) == [0, 0, 1, 1, 2, 2]
    policy, rng = SlotPolicy.of(weights_of(model())), np.random.default_rng(0)
    played = _play(env, lambda states, legal: policy.choose(states, legal, rng.random(len(states))))
    tally = env.episodes.tally
    assert tally["over"].all()
    assert tally["jobset"].tolist() == jobsets.tolist()
    assert played.acts.sum() == len(played.actions) == len(played.states)
    # What was collected adds up to the objective, but for what passed before the first choice.
    np.testing.assert_allclose(played.rewards.sum(axis=0), tally["total_reward"] * env._weights[jobsets], rtol=0.2)
    assert np.all(np.diff(played.times_s, axis=0) >= 0)


def test_a_jobset_in_which_jobs_wait_twice_as_long_counts_half() -> None:
    env = environment()
    wait_s = _mean_waits_s(_first_come_first_served(env.episodes.jobsets, NODES, env.episodes.options))
    weights = env._weights / env.n_jobs
    assert weights.max() < 4
    np.testing.assert_allclose(weights * wait_s, wait_s.mean())


def test_later_phases_have_jobsets_of_their_own() -> None:
    env = environment()
    env.go_on_to(0.49)
    assert set(env.drawn(6)) == {0, 1, 2}
    env.go_on_to(0.5)
    assert set(env.drawn(6)) == {3, 4}
    env.go_on_to(1.0)
    assert set(env.drawn(6)) == {3, 4}


def test_an_episode_that_ends_is_followed_by_another_one_unless_groups_are_played() -> None:
    env = environment()
    env.observe()
    ends = 0
    for _ in range(200):
        _, legal = env.observe()
        assert legal.any(axis=1).all()
        _, ended = env.step(legal.argmax(axis=1))
        ends += int(ended.sum())
    assert ends > 6
    assert not env.episodes.tally["over"].all()


def test_relative_rewards_of_a_jobset_add_up_to_nothing() -> None:
    rng = np.random.default_rng(2)
    times = np.cumsum(rng.integers(0, 3, (21, 4)), axis=0).astype(float)
    times[1:] += 1.0
    times[0], times[-1] = 0.0, times.max() + 1
    rewards = rng.normal(size=(20, 4))
    relative = _relative_rewards(rewards, times, np.array([7, 7, 9, 9]))
    np.testing.assert_allclose(relative[:, :2].sum(), 0.0, atol=1e-9)
    np.testing.assert_allclose(relative[:, 2:].sum(), 0.0, atol=1e-9)
    difference = (rewards[:, 0].sum() - rewards[:, 1].sum()) / 2
    assert relative[:, 0].sum() == pytest.approx(difference)


def test_an_episode_alone_on_its_jobset_is_as_good_as_itself() -> None:
    rewards, times = np.ones((5, 1)), np.arange(6.0)[:, None]
    assert not _relative_rewards(rewards, times, np.array([0])).any()


@pytest.mark.parametrize("gae_lambda", [1.0, 0.7])
def test_advantages_discount_by_the_time_that_passes(gae_lambda: float) -> None:
    rng = np.random.default_rng(4)
    rewards, discounts, values = rng.normal(size=(6, 2)), rng.uniform(0.5, 1, (6, 2)), rng.normal(size=(7, 2))
    found = _timed_advantages(rewards, discounts, values, gae_lambda)
    for e in range(2):
        for t in range(6):
            expected, factor = 0.0, 1.0
            for k in range(t, 6):
                expected += factor * (rewards[k, e] + discounts[k, e] * values[k + 1, e] - values[k, e])
                factor *= discounts[k, e] * gae_lambda
            assert found[t, e] == pytest.approx(expected)


def test_collecting_is_fixed_by_seed_and_snapshot() -> None:
    def advantages(env: JobsetEnvironment) -> FloatArray:
        generator = torch.Generator().manual_seed(1)
        rollout = JobsetCollector(groups=2)(model(), env, PpoSettings(), np.zeros(6), generator)
        return rollout.advantages.numpy()

    first, second = environment(), environment()
    state = first.snapshot()
    expected = advantages(first)
    np.testing.assert_array_equal(advantages(second), expected)
    again = advantages(first)
    assert len(again) != len(expected) or (again != expected).any()
    first.restore(state)
    np.testing.assert_array_equal(advantages(first), expected)
