"""The environment in which an agent gives quotas, for one episode at a time."""

from collections.abc import Sequence

import numpy as np

from allocopt.arrays import Float32Array
from allocopt.envs.coallocation.episodes import Episodes, Options
from allocopt.envs.coallocation.setup import Queue, make_setup
from allocopt.envs.of_jobsets import JobsetEnv
from allocopt.simulator.quota.execution import QuotaSchedule
from allocopt.simulator.quota.questions import Question
from allocopt.traces.applications import CLUSTER_SIZES


class CoallocationEnv(JobsetEnv[Float32Array, np.int64, Episodes]):
    """An agent says which quota of a running job's cores a waiting one gets, or one that is there already.

    Jobs start on cores of their own as EASY starts them. At every scheduling point each guest that is there is asked
    about, then each waiting job beside each running one that can take it, until one does. An action is the number of a
    quota in the order of ``options.percents``, 0 for none; a guest that is there is not sent away, and keeps its quota
    where that is tried (``invalid_action``). It ends when no question is left, and all jobs run to their ends.

    Parameters
    ----------
    cores
        Cores of the cluster; the paper has 64, 128 and 256.
    jobs
        A queue, or several of which an episode takes one; None for those of the ASAX paper, drawn by the seed of
        `reset`.
    options
        Quotas, reward, and who is asked about; None for the defaults.

    Raises
    ------
    UsageError
        If the jobs are none, or there are no cores.
    InvalidProblemError
        If a job asks for more cores than there are.
    """

    def __init__(
        self,
        cores: int = CLUSTER_SIZES[0],
        jobs: Queue | Sequence[Queue] | None = None,
        options: Options | None = None,
    ) -> None:
        super().__init__(make_setup(cores, jobs, options))

    @property
    def question(self) -> Question | None:
        """What is asked, with all that is known of it; None at the end."""
        return self.episodes.simulation().question

    def schedule(self) -> QuotaSchedule:
        """Return what has happened so far; what is still to come is NaN.

        Raises
        ------
        UsageError
            If no episode has begun.
        """
        return self.episodes.simulation().schedule()
