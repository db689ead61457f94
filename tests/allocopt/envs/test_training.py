"""Training code of others runs on the environment."""

import os

import numpy as np
import pytest

from allocopt.envs.batch_scheduling.task import BatchSchedulingEnv


@pytest.mark.slow
def test_maskable_ppo_trains() -> None:
    if os.environ.get("CI") != "true":
        pytest.importorskip("sb3_contrib")
    from sb3_contrib import MaskablePPO

    env = BatchSchedulingEnv(n_jobs=64, window=16)
    model = MaskablePPO("MlpPolicy", env, n_steps=256, batch_size=128, seed=0, device="cpu")
    before = {name: values.clone() for name, values in model.policy.state_dict().items()}
    model.learn(512)
    after = model.policy.state_dict()
    assert all(bool((values != before[name]).any()) for name, values in after.items())
    assert all(bool(np.isfinite(values.numpy()).all()) for values in after.values())
    observation, _ = env.reset(seed=1)
    over = False
    while not over:
        action, _ = model.predict(observation, action_masks=env.action_masks())
        assert env.action_masks()[int(action)]
        observation, _, over, _, info = env.step(action)
        assert not info["invalid_action"]
    assert np.isfinite(env.schedule().start).all()
