"""Episodes of jobsets are played together, judged against each other; a policy may begin as WFP3."""

import numpy as np
import pytest
import torch
from support.workloads import busy_days

from allocopt.arrays import Float32Array
from allocopt.envs.dras.dynamics import Weights
from allocopt.envs.dras.task import DrasOptions
from allocopt.heuristics.scheduling.queue_orders import Wfp3
from allocopt.learned.dras.environment import JobsetEnvironment, Validator, _first_come_first_served, _mean_waits_s
from allocopt.learned.dras.experience import _play, _relative_rewards, _wfp3_scores, imitate_wfp3
from allocopt.learned.rl.networks import SlotActorCritic, SlotStates, weights_of
from allocopt.learned.rl.slots import CompactNetwork, SlotPolicy
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload

NODES, FEATURES = 16, 21
SMALL = CompactNetwork(FEATURES, 16, 8, 8)
REWARD = Weights(mean_wait=1.0, longest_wait=0.1)


def jobset(seed: int, n: int = 30) -> Workload:
    rng = np.random.default_rng(seed)
    run = rng.integers(10, 500, n).astype(float)
    submit = np.sort(rng.integers(0, 1500, n)).astype(float)
    return Workload(f"set {seed}", np.arange(n), submit, run, rng.integers(1, NODES + 1, n), run * rng.uniform(1, 3, n))


def environment(count: int = 6) -> JobsetEnvironment:
    phases = [((jobset(0), jobset(1), jobset(2)), 0.5), ((jobset(3, 20), jobset(4, 25)), 0.5)]
    return JobsetEnvironment(phases, NODES, count, DrasOptions(window=8, reward=REWARD, skips_forced=True), 0)


def model(seed: int = 0, network: CompactNetwork = SMALL) -> SlotActorCritic:
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
    for share, jobsets in ((0.49, {0, 1, 2}), (0.5, {3, 4}), (1.0, {3, 4})):
        env.go_on_to(share)
        assert set(env.drawn(6)) == jobsets


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
    np.testing.assert_allclose((relative[:, :2].sum(), relative[:, 2:].sum()), 0.0, atol=1e-9)
    # One alone on its jobset is as good as itself.
    hours = np.tile(np.arange(21.0)[:, None], 4)
    np.testing.assert_allclose(_relative_rewards(rewards, hours, np.arange(4)), 0.0, atol=1e-9)
    difference = (rewards[:, 0].sum() - rewards[:, 1].sum()) / 2
    assert relative[:, 0].sum() == pytest.approx(difference)


LARGER = 32
OPTIONS = DrasOptions(reward=Weights(mean_wait=1.0), skips_forced=True)


def of_weeks(n: int = 4) -> JobsetEnvironment:
    return JobsetEnvironment([([busy_days(seed, 300, 6, LARGER) for seed in range(n)], 1.0)], LARGER, n, OPTIONS, 0)


def test_scores_are_those_of_the_rule_with_times_from_a_minute_on() -> None:
    found = of_weeks()
    found.begin_groups(4)
    for _ in range(40):
        states, legal = found.episodes.observe()
        found.step(np.asarray(legal.argmax(axis=1), dtype=np.int64))
    states, legal = found.episodes.observe()
    minutes = np.exp2(10.0 * states.astype(np.float64)) - 1.0
    size = np.exp2(states[..., 1] * np.log2(1.0 + LARGER))
    expected = ((minutes[..., 4] + 1.0) / (minutes[..., 3] + 1.0)) ** 3 * size
    assert legal.sum() > 4
    np.testing.assert_allclose(np.exp2(10.0 * _wfp3_scores(states, LARGER))[legal], expected[legal], rtol=1e-3)


@pytest.mark.slow
def test_a_network_that_has_imitated_it_schedules_nearly_as_the_rule_does() -> None:
    net, unseen = model(0, CompactNetwork(FEATURES)), busy_days(99, 300, 6, LARGER)
    validator = Validator([unseen], LARGER, OPTIONS)
    usual = validator.reference.mean_h[0]
    wait_s = simulate(unseen, LARGER, ListScheduler(Wfp3(), Backfill.EASY)).job_times.wait_s
    rule = wait_s.mean() / 3600
    before = validator.waits(weights_of(net)).mean_h[0]
    imitate_wfp3(net, of_weeks(), 0, steps=120)
    after = validator.waits(weights_of(net)).mean_h[0]
    assert abs(after - rule) < 0.25 * abs(usual - rule)
    assert abs(after - rule) < abs(before - rule)
