"""What an agent that gives quotas is rewarded for: a sum that grows, so that an episode's rewards add up to it."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from allocopt.errors import UsageError
from allocopt.simulator.quota.questions import AskingSimulation
from allocopt.traces.applications import HOUR_S


class Reward(Protocol):
    """What an agent is rewarded for."""

    def so_far(self, simulation: AskingSimulation) -> float:
        """Return what has been gained up to now; the reward of a step is its change."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What guests did, less what their hosts lost, in hours of work of the whole cluster.

    It is the objective ``capacity`` of co-allocation over time: the work that jobs did while they were guests, less
    ``degradation_weight`` times the work that their hosts would have done besides had they been alone. Raises
    `UsageError` if the weight is negative.
    """

    degradation_weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.degradation_weight >= 0:
            raise UsageError(f"the degradation weight is {self.degradation_weight}, must not be negative")

    def so_far(self, simulation: AskingSimulation) -> float:
        """Return gains less losses."""
        used = simulation.execution.accounts
        work = used.gained_core_s.sum() - self.degradation_weight * used.lost_core_s.sum()
        return float(work) / (simulation.cores * HOUR_S)


@dataclass(frozen=True, slots=True)
class MeanResponse:
    """Minus the mean response time of all jobs, in hours: each costs from its submission to its end."""

    def so_far(self, simulation: AskingSimulation) -> float:
        """Return minus the hours for which jobs have been there, over their number."""
        done = simulation.schedule()
        until = np.fmin(done.end, simulation.now)
        return -float(np.maximum(0.0, until - done.workload.submit).mean()) / HOUR_S
