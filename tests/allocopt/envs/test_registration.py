"""`gymnasium.make` finds every environment by its id."""

import subprocess
import sys

import pytest

from allocopt.envs import TASKS

PROGRAM = """\
import sys
import gymnasium

assert "allocopt" not in sys.modules
env = gymnasium.make("allocopt:{name}")
observation, info = env.reset(seed=1)
assert env.observation_space.contains(observation)
envs = gymnasium.make_vec("allocopt:{name}", num_envs=2, vectorization_mode="vector_entry_point")
assert envs.reset(seed=1)[1]["action_mask"].any(axis=1).all()
print(env.spec.id, envs.spec.id)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS, ids=lambda name: TASKS[name][0])
def test_a_fresh_process_makes_an_environment_without_importing_the_package_first(name: str) -> None:
    command = [sys.executable, "-P", "-W", "error", "-c", PROGRAM.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, [name, name]), done.stderr
