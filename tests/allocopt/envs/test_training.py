"""Training code of others runs on the environments."""

import os
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from support.environments import ARGUMENTS

from allocopt.envs import CUSH, TASKS


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS, ids=lambda name: TASKS[name][0])
def test_maskable_ppo_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("CI") != "true":
        pytest.importorskip("sb3_contrib")
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.logger import Logger

    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path / "logs"))
    env = gymnasium.make(name, **ARGUMENTS[name]()).unwrapped
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
