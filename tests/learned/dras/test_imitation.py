"""A policy that begins as WFP3 chooses as the rule does."""

import numpy as np
import pytest

from allocopt.envs.dras.dynamics import Weights
from allocopt.envs.dras.task import Options
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import Wfp3
from learned.dras.environment import JobsetEnvironment, Validator
from learned.rl.slots import CompactNetwork

torch = pytest.importorskip("torch")

from learned.dras.experience import _wfp3_scores, imitate_wfp3  # noqa: E402
from learned.rl.networks import SlotActorCritic, weights_of  # noqa: E402

NODES, DAY_S = 32, 86_400.0
OPTIONS = Options(reward=Weights(mean_wait=1.0), skips_forced=True)


def jobs(seed: int, n: int = 300) -> Workload:
    rng = np.random.default_rng(seed)
    run = np.where(rng.random(n) < 0.8, rng.uniform(600, 7200, n), rng.uniform(20_000, 50_000, n)).round()
    submit = np.floor(np.sort(rng.uniform(0, 6 * DAY_S, n)))
    sizes = np.minimum(rng.geometric(0.1, n), NODES)
    return Workload("jobs", np.arange(n), submit, run, sizes, (run * rng.uniform(1, 3, n)).round(), NODES)


def environment(n: int = 4) -> JobsetEnvironment:
    return JobsetEnvironment([([jobs(seed) for seed in range(n)], 1.0)], NODES, n, OPTIONS, 0)


def fresh_model(seed: int) -> SlotActorCritic:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return SlotActorCritic(CompactNetwork(21))


def test_scores_are_those_of_the_rule_with_times_from_a_minute_on() -> None:
    found = environment()
    found.begin_groups(4)
    for _ in range(40):
        states, legal = found.episodes.observe()
        found.step(np.asarray(legal.argmax(axis=1), dtype=np.int64))
    states, legal = found.episodes.observe()
    minutes = np.exp2(10.0 * states.astype(np.float64)) - 1.0
    size = np.exp2(states[..., 1] * np.log2(1.0 + NODES))
    expected = ((minutes[..., 4] + 1.0) / (minutes[..., 3] + 1.0)) ** 3 * size
    assert legal.sum() > 4
    np.testing.assert_allclose(np.exp2(10.0 * _wfp3_scores(states, NODES))[legal], expected[legal], rtol=1e-3)


@pytest.mark.slow
def test_a_network_that_has_imitated_it_schedules_nearly_as_the_rule_does() -> None:
    model, unseen = fresh_model(0), jobs(99)
    validator = Validator([unseen], NODES, OPTIONS)
    usual = validator.reference.mean_h[0]
    wait_s = simulate(unseen, NODES, ListScheduler(Wfp3(), Backfill.EASY)).job_times.wait_s
    rule = wait_s.mean() / 3600
    before = validator.waits(weights_of(model)).mean_h[0]
    imitate_wfp3(model, environment(), 0, steps=120)
    after = validator.waits(weights_of(model)).mean_h[0]
    assert abs(after - rule) < 0.25 * abs(usual - rule)
    assert abs(after - rule) < abs(before - rule)
