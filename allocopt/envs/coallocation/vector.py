"""Many environments of co-allocation side by side."""

from collections.abc import Sequence

from allocopt.arrays import Float32Array
from allocopt.envs.coallocation.episodes import Episodes, Options
from allocopt.envs.coallocation.setup import Queue, make_setup
from allocopt.envs.of_jobsets import JobsetVectorEnv
from allocopt.traces.applications import CLUSTER_SIZES


class CoallocationVectorEnv(JobsetVectorEnv[Float32Array, Episodes]):
    """Independent episodes of `CoallocationEnv`.

    The step after the last of an episode ignores its action and begins a new one, with a reward of 0
    (`AutoresetMode.NEXT_STEP`). Queues are drawn by one generator in the order of the environments.

    Parameters
    ----------
    num_envs
        Number of environments, at least 1.
    cores, jobs, options
        As in `CoallocationEnv`.

    Raises
    ------
    UsageError
        If the number of environments is not positive; else see `CoallocationEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        cores: int = CLUSTER_SIZES[0],
        jobs: Queue | Sequence[Queue] | None = None,
        options: Options | None = None,
    ) -> None:
        super().__init__(num_envs, make_setup(cores, jobs, options))
