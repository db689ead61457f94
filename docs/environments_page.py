"""Write `environments.md` from the declarations of the tasks. Run it after a change of a task."""

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

This page describes the environments in which agents learn to schedule: their observations, actions and rewards. They
follow [Gymnasium](https://gymnasium.farama.org) 1.x and run on the kernels of [the simulator](simulator.md), so that
agents and schedulers are measured in the same way. [A learning agent of your own](tutorials/agent.ipynb) trains one
with sb3-contrib; [Learned parts](guide/learned.md) lists the agents that come with the package.

{table}

```python
import gymnasium
import numpy as np

{example}```

Gymnasium 1.0 and later loads no plug-ins: the prefix `allocopt:` makes `gymnasium.make` import the package, which
registers the environments. After `import allocopt` the prefix may be left out. The same id works wherever a library
calls `gymnasium.make`: `stable_baselines3.common.env_util.make_vec_env("allocopt:allocopt/DRAS-v0")`,
`torchrl.envs.GymEnv("allocopt:allocopt/DRAS-v0")`. The environment checkers of Gymnasium, Stable-Baselines3 and TorchRL
accept all environments (`tests/allocopt/envs/test_checkers.py`).

This agent starts the shortest job. The baseline is slot 0 at every step: FCFS with EASY backfilling, or FCFS without
backfilling if `backfill="none"`.

## Common features

- **Episodes.** `reset(seed=...)` draws the jobset of an episode; `options={{"jobset": NUMBER}}` names one (`offset` in
  batch scheduling). Without jobs given, `seed` draws them too. An episode ends `terminated`, never `truncated`.
- **Action mask.** `info["action_mask"]`, `int8`, is 1 for legal actions; `action_masks()` returns it as `bool` for
  sb3-contrib. An illegal action is replaced by another one, which the task states, and sets `info["invalid_action"]`;
  a number outside the action space is an error.
- **Arguments** of `gymnasium.make` are those of the class of the environment, such as
  `allocopt.envs.dras.task.TwoLevelEnv`; see its `help` or the [reference](api/environments.md).
- **End.** The last observation and mask are zeros, and `info` holds the metrics below. A further step is an error.
- **Schedule.** `env.unwrapped.episodes` holds the episode with its schedule, also during the episode.
- **Rewards** of an episode add up to the objective unless the table states otherwise.

Many environments run in one thread and, except for co-allocation, in one compiled call:

```python
envs = gymnasium.make_vec("allocopt:allocopt/BatchScheduling-v0", num_envs=64)
observations, info = envs.reset(seed=1)
observations, rewards, terminated, truncated, info = envs.step(info["action_mask"].argmax(axis=1))
```

The step after the last one of an episode ignores its action, pays 0 and begins a new episode
(`AutoresetMode.NEXT_STEP`). When an episode ends, `info` contains the metrics, and for each metric a flag per
environment under the same name after an underscore. The same seed and actions give the same trajectories, in the
vector form as in the single form (`tests/allocopt/envs/test_side_by_side.py`).
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page."""
    tasks = {name: _task_of(*where) for name, where in allocopt.envs.TASKS.items()}
    rows = [(f"[{task.about.title}](#{_anchor(task.about.title)})", _summary(task)) for task in tasks.values()]
    first = next(iter(tasks.values()))
    head = HEAD.format(table=_table(("task", "an agent"), rows), example=first.about.example)
    parts = [_section(name, *allocopt.envs.TASKS[name], with_example=task is not first) for name, task in tasks.items()]
    return "\n".join([head, *parts])


def _task_of(folder: str, name: str) -> Any:
    return getattr(importlib.import_module(f"allocopt.envs.{folder}.task"), name)


def _section(name: str, folder: str, class_name: str, *, with_example: bool) -> str:
    """Return the section of one task."""
    task = _task_of(folder, class_name)
    about, made = task.about, task()
    metrics = made.episodes(1, np.random.default_rng(0)).metrics()
    where = f"allocopt.envs.{folder}"
    parts = [
        f"## {about.title}",
        f"`{name}`: `{class_name}Env` and `{class_name}VectorEnv` of `{where}.task`.",
        about.episode,
        f"**Action** `{made.action_space()}`. {about.action}",
        f"**Mask.** {about.mask}",
        f"**Observation** `{made.observation_space()}`. {about.seen}",
        *_meanings(about.meanings),
        _table((_of_rewards(about.rewards), "meaning"), _rewards(about.rewards)),
        f"**Metrics** in `info` at the end: {', '.join(f'`{metric}`' for metric in metrics)}.",
    ]
    if about.example and with_example:
        parts.append(f"```python\n{about.example}```")
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _meanings(given: dict[str, dict[str, str]]) -> list[str]:
    """Return a table for each heading. Rows are numbered across tables, except those that stand for several numbers."""
    tables, at = [], 0
    for heading, meanings in given.items():
        counted = ["" if heading.startswith("Parts") else f"{at + n} " for n in range(len(meanings))]
        rows = [(f"{n}`{name}`", text) for n, (name, text) in zip(counted, meanings.items(), strict=True)]
        tables.append(_table((heading, "value"), rows))
        at += len(meanings)
    return tables


def _of_rewards(given: Any) -> str:
    return "reward" if isinstance(given, dict) else f"reward, of `{given[0].__module__}`"


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


def _summary(kind: Any) -> str:
    return _literal(str(inspect.getdoc(kind)).split("\n\n")[0])


def _parameters(kind: Any) -> dict[str, str]:
    """Return the descriptions of the parameters in a numpydoc docstring."""
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
