"""Many CuSH environments side by side, stepped in one compiled call."""

from collections.abc import Sequence

from allocopt.envs.cush.episodes import Episodes, Options
from allocopt.envs.cush.jobsets import JobSet, Machine, Recipe
from allocopt.envs.cush.setup import MachineName, Observation, make_setup
from allocopt.envs.of_jobsets import JobsetVectorEnv
from allocopt.simulator.locality import PenaltyTable


class CushVectorEnv(JobsetVectorEnv[Observation, Episodes]):
    """Independent episodes of `CushEnv`.

    The step after the last of an episode ignores its action and begins a new one, with a reward of 0
    (`AutoresetMode.NEXT_STEP`). Job sets are drawn by one generator in the order of the environments.

    Parameters
    ----------
    num_envs
        Number of environments, at least 1.
    machine, jobsets, table, recipe, options
        As in `CushEnv`.

    Raises
    ------
    UsageError
        If the number of environments is not positive; else see `CushEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        machine: Machine | MachineName = "sierra",
        jobsets: Sequence[JobSet] | None = None,
        table: PenaltyTable | None = None,
        recipe: Recipe | None = None,
        options: Options | None = None,
    ) -> None:
        super().__init__(num_envs, make_setup(machine, jobsets, table, recipe, options))
