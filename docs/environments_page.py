"""Writes `environments.md` from what the tasks declare: run it after a change of one."""

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np

import allocopt.envs

PAGE = Path(__file__).with_name("environments.md")
HEAD = """\
# Learning environments

<!-- written by docs/environments_page.py from allocopt/envs -->

An agent decides which waiting job of a cluster starts next, or where, or how. The environments follow
[Gymnasium](https://gymnasium.farama.org) 1.x; the simulator behind them is the one that runs all built-in schedulers,
so that an agent and a scheduler are measured alike.

{table}

```python
import gymnasium
import numpy as np

{example}```

The prefix `allocopt.envs:` imports the module that registers the environments; after `import allocopt.envs` it can be
left out.

## What all have in common

`reset` draws the jobset of an episode by the generator that `seed` starts; `options={{"jobset": NUMBER}}` names one
(`offset` in batch scheduling). Where no jobs are given they are drawn, anew with every seed. An episode is `terminated`
when its task says so, and never `truncated`.

**Action mask**: `info["action_mask"]`, `int8`, 1 where an action is legal; the same as `bool` by `action_masks()`,
under which name sb3-contrib looks for it. An action that is not legal stands for another one, which the task names, and
`info["invalid_action"]` tells so; a number that is no action is an error.

**End of an episode**: the observation of the last step is zeros, so is the mask, and `info` holds what the episode came
to, under the names below. A further step is an error.

**Rewards** of an episode add up to the objective, unless something else is said.

**An episode** is told about by `env.unwrapped.episodes`, its schedule for one, also while it goes on.

**Many at once**, in one thread and, but for co-allocation, in one compiled call:

```python
envs = gymnasium.make_vec("allocopt.envs:allocopt/BatchScheduling-v0", num_envs=64)
observations, info = envs.reset(seed=1)
observations, rewards, terminated, truncated, info = envs.step(info["action_mask"].argmax(axis=1))
```

Everything has the environments in front. The step after the last one of an episode ignores its action and begins a new
one, with a reward of 0 (`AutoresetMode.NEXT_STEP`). What episodes came to stands in `info` when one has ended, with a
flag per environment under the same name after an underscore. One generator draws all jobsets, in the order of the
environments: the same seed and actions give the same trajectories, and one environment those of the single form.

`tests/allocopt/envs/test_side_by_side.py` holds every task to this page.
"""
TRAINING = """\
## Training with sb3-contrib

```sh
pip install "allocopt[rl]"
```

```python
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from allocopt.envs.batch_scheduling.task import BatchSchedulingEnv

env = VecNormalize(DummyVecEnv([lambda: BatchSchedulingEnv(window=32)]), norm_obs=False)
model = MaskablePPO("MlpPolicy", env, n_steps=4096, batch_size=512, gamma=1.0, gae_lambda=0.97, seed=0)
model.learn(100_000)

test = BatchSchedulingEnv(window=32)
observation, info = test.reset(seed=2)
over = False
while not over:
    action, _ = model.predict(observation, action_masks=test.action_masks(), deterministic=True)
    observation, _, over, _, info = test.step(action)
print(info["mean_bounded_slowdown"])
```

Returns are as large as slowdowns, tens to thousands on a loaded machine: `VecNormalize` scales them, without which the
loss of the value function drowns that of the policy. A small network that is the same for every slot and gives it its
preference, as that of RLScheduler, learns in fewer steps than the `MlpPolicy`, which sees all slots at once. Every task
trains so (`tests/allocopt/envs/test_training.py`), CuSH with the `MultiInputPolicy`.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page."""
    tasks = {name: _task_of(*where) for name, where in allocopt.envs.TASKS.items()}
    rows = [
        (f"[{task.about.title}](#{_anchor(task.about.title)})", _summary(task), f"`{name}`")
        for name, task in tasks.items()
    ]
    first = next(iter(tasks.values()))
    head = HEAD.format(table=_table(("task", "an agent", "id"), rows), example=first.about.example)
    parts = [_section(name, *allocopt.envs.TASKS[name], with_example=task is not first) for name, task in tasks.items()]
    return "\n".join([head, *parts, TRAINING])


def _task_of(folder: str, name: str) -> Any:
    return getattr(importlib.import_module(f"allocopt.envs.{folder}.task"), name)


def _section(name: str, folder: str, class_name: str, *, with_example: bool) -> str:
    """Return what is said of one task."""
    task = _task_of(folder, class_name)
    about, made = task.about, task()
    metrics = made.episodes(1, np.random.default_rng(0)).metrics()
    where = f"allocopt.envs.{folder}"
    parts = [
        f"## {about.title}",
        f"`{name}`, `{class_name}Env` and `{class_name}VectorEnv` of `{where}.task`. {_summary(task)}",
        about.episode,
        _table(("argument", "default", "what"), [*_arguments(task), *_options(about.options)]),
        f"**Action**: `{made.action_space()}` by default. {about.action}",
        f"**Mask**: {about.mask}",
        f"**Observation**: `{made.observation_space()}` by default. {about.seen}",
        *_meanings(about.meanings),
        _of_rewards(about.rewards),
        _table(("reward", "what"), _rewards(about.rewards)),
        f"**At the end** `info` has {', '.join(f'`{metric}`' for metric in metrics)}.",
    ]
    if about.example and with_example:
        is_code = "\n" in about.example
        parts.append(f"```python\n{about.example}```" if is_code else about.example)
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _meanings(given: dict[str, dict[str, str]]) -> list[str]:
    """Return a table of numbers for each heading; they are counted on, but for parts that have several each."""
    tables, at = [], 0
    for heading, meanings in given.items():
        counted = ["" if heading.startswith("Parts") else str(at + n) for n in range(len(meanings))]
        rows = [(n, f"`{name}`", text) for n, (name, text) in zip(counted, meanings.items(), strict=True)]
        tables.append(_table(("", "", heading), rows))
        at += len(meanings)
    return tables


def _arguments(task: Any, prefix: str = "") -> list[tuple[str, str, str]]:
    """Return name, default and meaning of what a class takes."""
    given, told = inspect.signature(task).parameters, _parameters(task)
    return [(f"`{prefix}{name}`", _default(task, given[name]), text) for name, text in told.items()]


def _options(kind: type | None) -> list[tuple[str, str, str]]:
    return [] if kind is None else _arguments(kind, "options.")


def _default(kind: Any, parameter: inspect.Parameter) -> str:
    value = parameter.default
    if dataclasses.is_dataclass(kind):
        value = getattr(kind(), parameter.name)
    text = repr(value)
    return f"`{text}`" if len(text) < 40 else f"{len(value)} values" if isinstance(value, tuple) else "see there"


def _rewards(given: Any) -> list[tuple[str, str]]:
    if isinstance(given, dict):
        return [(f'`"{name}"`', text) for name, text in given.items()]
    if len(given) == 1:
        (kind,) = given
        made = kind()
        return [
            (f"`{kind.__name__}({name}={getattr(made, name):g})`", text) for name, text in _parameters(kind).items()
        ]
    return [(f"`{kind.__name__}{inspect.signature(kind)}`".replace(" -> None", ""), _summary(kind)) for kind in given]


def _of_rewards(given: Any) -> str:
    return "**Rewards**:" if isinstance(given, dict) else f"**Rewards**, of `{given[0].__module__}`:"


def _summary(kind: Any) -> str:
    return _literal(str(inspect.getdoc(kind)).split("\n\n")[0])


def _parameters(kind: Any) -> dict[str, str]:
    """Return the parameters of a numpydoc docstring, with what is said of them."""
    doc = str(inspect.getdoc(kind))
    part = re.search(r"Parameters\n-+\n(.*?)(?:\n\n\w+\n-+\n|\Z)", doc, re.DOTALL)
    found = re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?)+)", part[1] if part else "", re.MULTILINE)
    return {name: _literal(text) for names, text in found for name in names.split(", ")}


def _literal(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


if __name__ == "__main__":
    main()
