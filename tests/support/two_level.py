"""Two-level scheduling for tests: small workloads, and a selector that schedules through the environment."""

import numpy as np

from allocopt.envs.dras.task import Episodes, Options
from allocopt.simulator.two_level import END, Selector
from allocopt.traces.workload import Workload


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
