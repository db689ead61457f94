"""Trained agents that select policies, read from files of weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, IntArray
from allocopt.cluster.multicore import Machine
from allocopt.envs.policy_selection.task import Episodes, Options
from allocopt.errors import BadFileError
from allocopt.simulator.multicore.simulation import MulticoreSchedule
from allocopt.simulator.multicore.state import Execution
from allocopt.traces.tasks import TaskWorkload
from learned.weights import Card, load_weights, two_layers

HIDDEN = 32  # Neurons of the hidden layer, whose activation is the hyperbolic tangent (IRMaSim, Figure 5)


@dataclass(frozen=True, slots=True)
class _Played:
    """Schedule of an agent, and the policies that it named."""

    schedule: MulticoreSchedule  # When and where the jobs ran, and the energy
    # Share of the decisions in which each policy was named, by its name; policies that never were are left out
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """An actor network, and the options of its environment."""

    weights: Mapping[str, Float32Array]  # Its parameters by name
    options: Options  # Level, reward and policies that it was trained with

    @classmethod
    def load(cls, path: Path | str) -> "Agent":
        """Read an agent that ``allocopt train irmasim`` wrote; raises `BadFileError` if the file is no such one."""
        return load_weights(Path(path), "irmasim", cls.of)

    @classmethod
    def of(cls, weights: Mapping[str, Float32Array], card: Card) -> "Agent":
        """Make an agent of weights and their card; see `load`."""
        settings = card.settings
        options = Options(settings["level"], settings["objective"], tuple(settings["actions"]))
        outputs = weights["2.weight"].shape[0]
        if outputs != len(options.actions):
            raise ValueError(f"has {outputs} outputs for {len(options.actions)} policies")
        return cls(weights, options)

    def choose(self, seen: Float32Array, legal: BoolArray) -> IntArray:
        """Return the legal policies of the greatest logits, the first of equals, shape ``(E,)``."""
        return np.asarray(np.where(legal, two_layers(self.weights, seen, np.tanh), -np.inf).argmax(axis=1))

    def play(self, machine: Machine, jobs: TaskWorkload, execution: Execution | None = None, seed: int = 0) -> _Played:
        """Simulate jobs, under contention if nothing else is said; the policy that the agent prefers is applied.

        The seed fixes what random policies choose. Raises `BadFileError` if the weights are for machines of another
        size, `InvalidProblemError` if there are no jobs, or one can never start.
        """
        episodes = Episodes([jobs], machine, 1, execution, self.options, seed)
        inputs = self.weights["0.weight"].shape[1]
        if inputs != episodes.size:
            raise BadFileError(f"the agent takes {inputs} values, of this machine it would be told {episodes.size}")
        named = np.zeros(len(self.options.actions))

        def choose(seen: Float32Array, legal: BoolArray) -> IntArray:
            action = self.choose(seen, legal)
            named[action] += 1
            return action

        episodes.play(choose)
        shares = zip(self.options.actions, (named / named.sum()).tolist(), strict=True)
        return _Played(episodes.schedule(0), {name: share for name, share in shares if share > 0})
