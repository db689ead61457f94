"""Two-level scheduling for tests: small workloads, and a selector that schedules through the environment."""

import numpy as np

from allocopt.envs.dras.episodes import Episodes, Options
from allocopt.simulator.two_level import END, Selector
from allocopt.traces.workload import Workload

MACHINE = 8


def random_workload(jobs: int, seed: int, *, dependent: bool = False) -> Workload:
    """Many jobs at once on a small machine, with many equal times and wrong estimates."""
    rng = np.random.default_rng(seed)
    ids = np.arange(1, jobs + 1)
    preceding = np.where(rng.random(jobs) < 0.3, rng.integers(0, ids), 0) if dependent else np.zeros(jobs, dtype=int)
    preceding[preceding == 0] = -1
    return Workload(
        "random",
        ids,
        np.cumsum(rng.integers(0, 12, jobs)).astype(float) + 100.0,
        rng.integers(1, 40, jobs).astype(float),
        np.minimum(rng.geometric(0.35, jobs), MACHINE),
        rng.integers(1, 40, jobs).astype(float),
        MACHINE,
        preceding=preceding,
        think_s=np.where(preceding > 0, rng.integers(0, 9, jobs), 0.0),
    )


def played(jobs: Workload, machine: int, selector: Selector, options: Options) -> Episodes:
    """Let a selector schedule an episode through the environment."""
    episodes = Episodes([jobs], machine, 1, options)
    episodes.begin(np.array([0]))
    over = False
    while not over:
        slot = selector.select(episodes.choice(0))
        _, ended = episodes.step(np.array([options.window if slot == END else slot]))
        over = bool(ended[0])
        assert not episodes.tally["invalid"][0]
    return episodes
