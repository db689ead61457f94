"""A policy that sees what agents see, as a selector of two-level scheduling in `simulate`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray, FloatArray
from allocopt.envs.dras.batch import INSTANCE_DTYPE, TALLY_DTYPE, Episode, Observations
from allocopt.envs.dras.describe import describe_slots, describe_state, traits
from allocopt.envs.dras.episodes import Options, terms
from allocopt.simulator.two_level import Choice
from allocopt.simulator.view import View, state_of

Policy = Callable[[Observations, BoolArray], int]
"""Chooses one of the legal actions by what it sees; both as `Episodes.observe` gives them, without the first axis."""


@dataclass(slots=True, eq=False)
class _Known:
    """What is known beforehand of the simulation that was seen last."""

    view: View | None = None
    traits: FloatArray = field(default_factory=lambda: np.empty((0, 2)))
    terms: Any = None


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
    _known: _Known = field(init=False, repr=False, compare=False, default_factory=_Known)

    def select(self, choice: Choice) -> int:
        """Return the slot that the policy chooses."""
        legal = np.zeros(self.options.window, dtype=np.bool_)
        legal[: len(choice.legal)] = choice.legal
        return int(self.policy(self.observe(choice), legal))

    def observe(self, choice: Choice) -> Observations:
        """Return what the environment shows of a choice, shape ``(W, N_FEATURES)`` or ``(2 W + N, 2)``."""
        machine = int(choice.view.platform.total[0])
        observation = np.empty(self.options.shape(machine), dtype=np.float32)
        describe = describe_slots if self.options.observation == "slots" else describe_state
        describe(self._episode(choice, machine), observation)
        return observation

    def _episode(self, choice: Choice, machine: int) -> Episode:
        """Return a choice as kernels take it."""
        view = choice.view
        if self._known.view is not view:
            self._known.view, self._known.traits = view, traits(view.processors, view.estimate, machine)
            self._known.terms = terms(self.options)
        instance = np.zeros(1, dtype=INSTANCE_DTYPE)
        instance[0] = (choice.level, len(choice.jobs), choice.holder, choice.shadow, choice.spare[0])
        slots = np.zeros(self.options.window, dtype=np.int64)
        in_window = np.zeros(len(view.ids), dtype=np.bool_)
        in_window[choice.jobs] = True
        slots[: len(choice.jobs)] = np.flatnonzero(in_window[view.queue])
        tally = np.zeros(1, dtype=TALLY_DTYPE)
        nothing = np.zeros(0, dtype=np.int64)
        ladder = np.empty(len(view.running), dtype=np.int64)
        return Episode(
            *(state_of(view), instance, tally, self._known.terms), nothing, slots, self._known.traits, ladder
        )
