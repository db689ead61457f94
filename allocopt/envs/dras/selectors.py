"""A policy that sees what agents see, as a selector of two-level scheduling in `simulate`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray, Float32Array
from allocopt.envs.dras.dynamics import Episode, Instance, Tally
from allocopt.envs.dras.observation import describe_slots, describe_state, traits
from allocopt.envs.dras.reward import Weights
from allocopt.envs.dras.task import Options, terms
from allocopt.envs.fields import dtype_of, records
from allocopt.simulator.two_level import Choice
from allocopt.simulator.view import state_of

INSTANCE, TALLY = dtype_of(Instance), dtype_of(Tally)

Policy = Callable[[Float32Array, BoolArray], int]
"""Chooses one of the legal actions by what it sees; both as `Episodes.observe` gives them, without the first axis."""


@dataclass(frozen=True, slots=True)
class Observing:
    """A selector that shows a policy what the environment would show it.

    Parameters
    ----------
    policy
        Chooses by observation and legal actions.
    options
        Window and observation; those of the scheduler that asks.
    """

    policy: Policy
    options: Options = field(default_factory=Options)
    _known: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)
    """The simulation that was seen last, and what is known beforehand of its jobs."""

    def select(self, choice: Choice) -> int:
        """Return the slot that the policy chooses."""
        legal = np.zeros(self.options.window, dtype=np.bool_)
        legal[: len(choice.legal)] = choice.legal
        return int(self.policy(self.observe(choice), legal))

    def observe(self, choice: Choice) -> Float32Array:
        """Return what the environment shows of a choice, shape ``(W, N_FEATURES)`` or ``(2 W + N, 2)``."""
        machine = int(choice.view.platform.total[0])
        observation = np.empty(self.options.shape(machine), dtype=np.float32)
        describe = describe_slots if self.options.observation == "slots" else describe_state
        describe(self._episode(choice, machine), observation)
        return observation

    def _episode(self, choice: Choice, machine: int) -> Episode:
        view, known = choice.view, self._known
        if known.get("view") is not view:
            known |= {"view": view, "traits": traits(view.processors, view.estimate, machine)}
            known |= {"terms": terms(self.options), "weights": records(Weights)}
        instance = np.zeros(1, dtype=INSTANCE)
        instance[0] = (choice.level, len(choice.jobs), choice.holder, choice.shadow, choice.spare[0])
        slots = np.zeros(self.options.window, dtype=np.int64)
        in_window = np.zeros(len(view.ids), dtype=np.bool_)
        in_window[choice.jobs] = True
        slots[: len(choice.jobs)] = np.flatnonzero(in_window[view.queue])
        state, nothing = state_of(view), np.zeros(0, dtype=np.int64)
        ladder = np.empty(len(view.running), dtype=np.int64)
        rules = known["terms"], known["weights"]
        return Episode(
            *(state, instance, np.zeros(1, dtype=TALLY), *rules, nothing, slots, known["traits"], ladder),
            *(state.clock, state.jobs),
        )
