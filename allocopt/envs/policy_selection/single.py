"""The environment in which an agent selects policies, for one episode at a time."""

from pathlib import Path

import numpy as np

from allocopt.arrays import Float32Array
from allocopt.cluster.multicore import Machine
from allocopt.envs.of_jobsets import JobsetEnv
from allocopt.envs.policy_selection.episodes import Episodes, Options
from allocopt.envs.policy_selection.setup import Jobs, make_setup
from allocopt.simulator.multicore.simulation import MulticoreSchedule
from allocopt.simulator.multicore.state import Execution


class PolicySelectionEnv(JobsetEnv[Float32Array, np.int64, Episodes]):
    """An agent names the policy by which waiting jobs start (IRMaSim, section IV).

    The policy is applied to the queue until the job that is next does not fit. Then time goes on until a job waits and
    a core is idle. The episode ends when all jobs have ended. An action is the number of a policy in the order of
    ``options.actions``. Where void is chosen although nothing would ever happen again, the first policy that is not
    void is taken (``invalid_action``). At the end the dictionary has ``makespan_s``, ``energy_j``, ``energy_delay_js``
    and ``flow_time_s``.

    Parameters
    ----------
    machine
        The machine, or a platform file; None for the paper's heterogeneous cluster.
    jobs
        One or several sets of jobs of which an episode takes one, or a file of one; None for batches of NPB jobs that
        are drawn by the seed of `reset`.
    execution
        How they run; None for contention.
    options
        Level, reward and policies; None for the defaults.

    Raises
    ------
    UsageError
        If there are no job sets.
    BadFileError
        If a file is not right.
    InvalidProblemError
        If a job can never start; it is named.
    """

    def __init__(
        self,
        machine: Machine | Path | str | None = None,
        jobs: Jobs | None = None,
        execution: Execution | None = None,
        options: Options | None = None,
    ) -> None:
        super().__init__(make_setup(machine, jobs, execution, options))

    def schedule(self) -> MulticoreSchedule:
        """Return when and where the jobs of the episode ran, and the energy.

        Raises
        ------
        SchedulerError
            If not all of them have ended.
        UsageError
            If no episode has begun.
        """
        return self.episodes.schedule(0)
