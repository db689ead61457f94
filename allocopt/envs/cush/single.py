"""The CuSH environment for one episode at a time."""

from collections.abc import Sequence

from allocopt.arrays import IntArray
from allocopt.envs.cush.episodes import Episodes, Options
from allocopt.envs.cush.jobsets import JobSet, Machine, Recipe
from allocopt.envs.cush.setup import MachineName, Observation, make_setup
from allocopt.envs.of_jobsets import JobsetEnv
from allocopt.simulator.locality import PenaltyTable


class CushEnv(JobsetEnv[Observation, IntArray, Episodes]):
    """An agent chooses a job of the queue, and whether it is allocated depth-first or breadth-first.

    Time is frozen until it chooses to do nothing, or a job that cannot start; then a timestep passes. The episode ends
    when all jobs have ended. An action is a slot, or Q to do nothing, and a `Policy`; the mask has the slots and then
    the policies, shape ``(Q + 3,)``. At the end the dictionary has the means ``normalized_turnaround``, ``wait``,
    ``turnaround``, ``service`` and ``penalty`` and the total ``rewards`` of the paper.

    Parameters
    ----------
    machine
        ``sierra`` or ``summit``, with 128 nodes, or a cluster of one's own.
    jobsets
        The job sets of which an episode takes one; None for some that are drawn by the seed of `reset`.
    table
        The locality model of drawn job sets, in timesteps; None for the one that comes with the package.
    recipe
        How they are drawn; None for the paper's.
    options
        Queue, horizon, reward and observation; None for images.

    Raises
    ------
    UsageError
        If a value is out of range, or a job asks for more than the machine has.
    """

    def __init__(
        self,
        machine: Machine | MachineName = "sierra",
        jobsets: Sequence[JobSet] | None = None,
        table: PenaltyTable | None = None,
        recipe: Recipe | None = None,
        options: Options | None = None,
    ) -> None:
        super().__init__(make_setup(machine, jobsets, table, recipe, options))
