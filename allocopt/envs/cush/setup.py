"""What the Gymnasium environments of CuSH have in common: what is in them, what an agent sees, and what it may do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box, Dict, MultiDiscrete
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.envs.cush.describe import MOST
from allocopt.envs.cush.episodes import Episodes, Options
from allocopt.envs.cush.jobsets import JobSet, Machine, Recipe, draw_jobsets, sierra, summit
from allocopt.envs.of_jobsets import Setup
from allocopt.errors import UsageError
from allocopt.simulator.locality import SIERRA_TABLE, PenaltyTable, Policy, WorkloadType

DRAWN_JOBSETS = 256
"""Job sets drawn by the seed of a reset where none are given."""
N_NUMBERS = 3
"""What a policy selector is told of a job beside its traits; see `Episodes.descriptions`."""

MachineName = Literal["sierra", "summit"]
MACHINES = {"sierra": sierra, "summit": summit}
Observation = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class CushSetup(Setup[JobSet, Episodes, Observation]):
    """An environment, but for chance.

    Parameters
    ----------
    jobsets
        The job sets of which an episode takes one; None for drawn ones.
    machine
        The cluster.
    table
        The locality model of drawn job sets, in timesteps.
    recipe
        How they are drawn.
    options
        Queue, horizon, reward and observation.

    Raises
    ------
    UsageError
        If there are no job sets.
    """

    machine: Machine
    table: PenaltyTable
    recipe: Recipe
    options: Options

    def episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        """Return episodes that have not begun."""
        if self.jobsets is not None:
            return Episodes(self.jobsets, self.machine, count, self.options)
        seeds = rng.integers(0, 2**63, DRAWN_JOBSETS).tolist()
        return Episodes(draw_jobsets(self.machine, self.table, seeds, self.recipe), self.machine, count, self.options)

    def observation_space(self) -> Dict:
        """Space of what an agent sees: the view of the job selector, that of the policy selector, and the backlog."""
        queue, machine = self.options.queue, self.machine
        n_traits = self.jobsets[0].traits.shape[1] if self.jobsets is not None else len(WorkloadType)
        shape = self.options.shape(machine, n_traits)
        most = MOST if self.options.observation == "slots" else 1.0
        return Dict(
            {
                self.options.observation: Box(0.0, most, shape, np.float32),
                "jobs": Box(0.0, MOST, (queue, n_traits + N_NUMBERS), np.float32),
                "backlog": Box(0.0, 1.0, (1,), np.float32),
            }
        )

    def action_space(self) -> MultiDiscrete:
        """Space of actions: a slot, or their number to do nothing; and a policy."""
        return MultiDiscrete([self.options.queue + 1, len(Policy)])

    def look(self, episodes: Episodes) -> tuple[Observation, NDArray[np.int8]]:
        """Return what agents see, and which slots, and then which policies, they may choose."""
        seen, legal = episodes.observe()
        waiting = episodes.backlog
        backlog = (waiting / (waiting + 10.0)).astype(np.float32)[:, np.newaxis]
        return {self.options.observation: seen, "jobs": episodes.descriptions(), "backlog": backlog}, _masks_of(legal)

    def step(self, episodes: Episodes, actions: NDArray[Any]) -> tuple[FloatArray, BoolArray]:
        """Start jobs, or let a timestep pass; actions are slots, or Q to do nothing, and policies, shape ``(E, 2)``."""
        return episodes.step(*_checked(actions, episodes.n_environments, self.options))


def make_setup(
    machine: Machine | MachineName,
    jobsets: Sequence[JobSet] | None,
    table: PenaltyTable | None,
    recipe: Recipe | None,
    options: Options | None,
) -> CushSetup:
    """Return a setup; None stands for defaults.

    Raises
    ------
    UsageError
        If the machine is none.
    """
    if isinstance(machine, str):
        if machine not in MACHINES:
            raise UsageError(f"the machine is {machine!r}, must be one of {', '.join(MACHINES)}, or a Machine")
        machine = MACHINES[machine]()
    if not isinstance(machine, Machine):
        raise UsageError(f"the machine is {machine!r}, must be one of {', '.join(MACHINES)}, or a Machine")
    sets = None if jobsets is None else tuple(jobsets)
    return CushSetup(sets, machine, table or SIERRA_TABLE, recipe or Recipe(), options or Options(observation="image"))


def _masks_of(legal: BoolArray) -> NDArray[np.int8]:
    """Return which slots, and which policies, may be chosen, one after the other in the last dimension."""
    policies = np.ones((*legal.shape[:-1], len(Policy)), dtype=np.int8)
    return np.concatenate([legal.astype(np.int8), policies], axis=-1)


def _checked(actions: IntArray, count: int, options: Options) -> tuple[IntArray, IntArray]:
    """Return slots and policies of actions.

    Raises
    ------
    UsageError
        If there is no such action.
    """
    pairs = np.asarray(actions)
    if pairs.dtype.kind not in "iu":
        raise UsageError(f"the actions have dtype {pairs.dtype}, must be whole numbers: slots and policies")
    pairs = pairs.astype(np.int64)
    if pairs.shape != (count, 2):
        raise UsageError(f"the actions have shape {pairs.shape}, must be {count} of a slot and a policy")
    if pairs.min() < 0 or (pairs >= [options.queue + 1, len(Policy)]).any():
        raise UsageError(f"an action is out of range: slots are 0 .. {options.queue}, policies 0 .. {len(Policy) - 1}")
    return pairs[:, 0], pairs[:, 1]
