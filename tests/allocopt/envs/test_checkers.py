"""Environments satisfy the checkers of the libraries that train on them; Gymnasium's is in `test_side_by_side`."""

import os
import warnings
from typing import Any

import gymnasium
import pytest
from support.environments import ARGUMENTS

from allocopt.envs import TASKS

every_task = pytest.mark.parametrize("name", TASKS, ids=lambda name: TASKS[name][0])


def make(name: str) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(f"allocopt:{name}", disable_env_checker=True, **ARGUMENTS[name]())


@pytest.mark.slow
@every_task
def test_torchrl_finds_no_fault(name: str) -> None:
    if os.environ.get("CI") != "true":
        pytest.importorskip("torchrl")
    from torchrl.envs import GymWrapper, check_env_specs

    check_env_specs(GymWrapper(make(name)), seed=0)


@pytest.mark.slow
@every_task
def test_stable_baselines3_finds_no_fault(name: str) -> None:
    if os.environ.get("CI") != "true":
        pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Advice for its own policies, not a fault: it prefers vectors and images to tables.
        warnings.filterwarnings("ignore", "Your observation .*unconventional shape")
        check_env(make(name).unwrapped)
