"""Many environments of two levels side by side, stepped in one compiled call."""

from collections.abc import Sequence

from allocopt.envs.dras.batch import Observations
from allocopt.envs.dras.episodes import Episodes, ObservationName
from allocopt.envs.dras.rewards import Weights
from allocopt.envs.dras.setup import Jobs, ReservationName, make_setup
from allocopt.envs.of_jobsets import JobsetVectorEnv
from allocopt.simulator.rules import Rules
from allocopt.simulator.two_level import PAPER_WINDOW


class TwoLevelVectorEnv(JobsetVectorEnv[Observations, Episodes]):
    """Independent episodes of `TwoLevelEnv`.

    The step after the last of an episode ignores its action and begins a new one, with a reward of 0
    (`AutoresetMode.NEXT_STEP`). Jobsets are drawn by one generator in the order of the environments.

    Parameters
    ----------
    num_envs
        Number of environments, at least 1.
    workload, processors, window, reservations, reward, observation, can_end, rules
        As in `TwoLevelEnv`.

    Raises
    ------
    UsageError
        If the number of environments is not positive; else see `TwoLevelEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        workload: Jobs | Sequence[Jobs] | None = None,
        processors: int | None = None,
        window: int = PAPER_WINDOW,
        reservations: ReservationName = "kept",
        reward: Weights | None = None,
        observation: ObservationName = "slots",
        can_end: bool = False,
        rules: Rules | None = None,
    ) -> None:
        super().__init__(
            num_envs, make_setup(workload, processors, window, reservations, reward, observation, can_end, rules)
        )
