"""Trained agents that select policies: read from a file of weights, and let act."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocopt.arrays import Float32Array
from allocopt.cluster.multicore import Machine
from allocopt.envs.policy_selection.task import Episodes, Options
from allocopt.errors import BadFileError
from allocopt.simulator.multicore.schedule import MulticoreSchedule
from allocopt.simulator.multicore.setup import Execution
from allocopt.traces.tasks import TaskWorkload
from learned.irmasim.networks import most_preferred
from learned.networks.files import read_weights


@dataclass(frozen=True, slots=True)
class Played:
    """What an agent did and what came out.

    Parameters
    ----------
    schedule
        When and where the jobs ran, and the energy.
    shares
        Share of the decisions in which each policy was named, by its name; policies that never were are left out.
    """

    schedule: MulticoreSchedule
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """An actor network and what it is told.

    Parameters
    ----------
    weights
        Its parameters by name.
    options
        Level, reward and policies that it was trained with.
    """

    weights: Mapping[str, Float32Array]
    options: Options

    def play(self, machine: Machine, jobs: TaskWorkload, execution: Execution | None = None, seed: int = 0) -> Played:
        """Simulate jobs: at every decision the policy is applied that the agent prefers.

        Parameters
        ----------
        machine
            The machine; but at level ``minimal`` it has to be as large as that of the training.
        jobs
            The jobs.
        execution
            How they run; None for contention.
        seed
            Fixes what random policies choose.

        Raises
        ------
        BadFileError
            If the weights are for machines of another size.
        InvalidProblemError
            If there are no jobs, or one can never start; it is named.
        """
        episodes = Episodes([jobs], machine, 1, execution, self.options, seed)
        inputs = self.weights["0.weight"].shape[1]
        if inputs != episodes.size:
            raise BadFileError(f"the agent takes {inputs} values, of this machine it would be told {episodes.size}")
        episodes.begin(np.zeros(1, dtype=np.int64))
        named = np.zeros(len(self.options.actions))
        over = np.zeros(1, dtype=np.bool_)
        while not over[0]:
            action = most_preferred(self.weights, *episodes.observe())
            named[action] += 1
            over = episodes.step(action)[1]
        shares = zip(self.options.actions, (named / named.sum()).tolist(), strict=True)
        return Played(episodes.schedule(0), {name: share for name, share in shares if share > 0})


def load_agent(path: Path | str) -> Agent:
    """Read an agent that ``allocopt train irmasim`` wrote.

    Raises
    ------
    BadFileError
        If the file cannot be read, or is of another training.
    """
    weights, card = read_weights(Path(path))
    if card.training != "irmasim":
        raise BadFileError(f"{path}: holds weights of {card.training!r}, not of 'irmasim'")
    settings = card.settings
    try:
        options = Options(settings["level"], settings["objective"], tuple(settings["actions"]))
        outputs = weights["2.weight"].shape[0]
    except (KeyError, TypeError) as error:
        raise BadFileError(f"{path}: holds no agent: {error}") from None
    if outputs != len(options.actions):
        raise BadFileError(f"{path}: has {outputs} outputs for {len(options.actions)} policies")
    return Agent(weights, options)
