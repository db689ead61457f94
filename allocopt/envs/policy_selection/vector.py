"""Many environments of policy selection side by side, stepped in one compiled call."""

from pathlib import Path

from allocopt.arrays import Float32Array
from allocopt.cluster.multicore import Machine
from allocopt.envs.of_jobsets import JobsetVectorEnv
from allocopt.envs.policy_selection.episodes import Episodes, Options
from allocopt.envs.policy_selection.setup import Jobs, make_setup
from allocopt.simulator.multicore.state import Execution


class PolicySelectionVectorEnv(JobsetVectorEnv[Float32Array, Episodes]):
    """Independent episodes of `PolicySelectionEnv`.

    The step after the last of an episode ignores its action and begins a new one, with a reward of 0
    (`AutoresetMode.NEXT_STEP`). Job sets are drawn by one generator in the order of the environments.

    Parameters
    ----------
    num_envs
        Number of environments, at least 1.
    machine, jobs, execution, options
        As in `PolicySelectionEnv`.

    Raises
    ------
    UsageError
        If the number of environments is not positive; else see `PolicySelectionEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        machine: Machine | Path | str | None = None,
        jobs: Jobs | None = None,
        execution: Execution | None = None,
        options: Options | None = None,
    ) -> None:
        super().__init__(num_envs, make_setup(machine, jobs, execution, options))
