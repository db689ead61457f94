"""What environments are asked for, checked: actions, a jobset, a number."""

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from allocopt.arrays import IntArray
from allocopt.errors import UsageError

MOST_SLOTS = 100_000
"""Slots of a queue or a window beyond which they are refused: what an agent sees of each must fit into a memory."""


def whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return a value as an integer.

    Parameters
    ----------
    name
        What it is called in the message.
    value
        An integer, of Python or NumPy.
    least, most
        The smallest and the largest that is taken; None for any.

    Raises
    ------
    UsageError
        If it is none, or out of range.
    """
    within = f"at least {least}" if most is None else f"within {least} .. {most}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"the {name} is {value!r}, must be a whole number {within}") from None
    if number < least or (most is not None and number > most):
        raise UsageError(f"the {name} is {number}, must be {within}")
    return number


def jobsets_of(options: Mapping[str, Any] | None, drawn: IntArray, n_jobsets: int, name: str = "jobset") -> IntArray:
    """Return the jobsets that a reset names, or those that were drawn.

    Parameters
    ----------
    options
        Those of the reset: under ``name`` a number for all episodes, or one for each.
    drawn
        Numbers of jobsets, shape ``(E,)``.
    n_jobsets
        How many there are.

    Raises
    ------
    UsageError
        If a number is none of a jobset.
    """
    if options is not None and not isinstance(options, Mapping):
        raise UsageError(f"the options of a reset are {options!r}, must be a dictionary or None")
    if options is None or name not in options:
        return drawn
    named = np.asarray(options[name], dtype=object).ravel()
    if len(named) not in (1, len(drawn)):
        raise UsageError(f"there are {len(named)} {name}s for {len(drawn)} episodes, must be 1 or as many")
    numbers = np.array([whole_number(name, number, 0, n_jobsets - 1) for number in named], dtype=np.int64)
    return np.broadcast_to(numbers, drawn.shape).copy()


def actions_of(actions: ArrayLike, count: int, n_actions: int) -> IntArray:
    """Return numbers of actions as kernels take them, shape ``(E,)``.

    Parameters
    ----------
    actions
        One per episode.
    count
        Number of episodes, E.
    n_actions
        How many actions there are.

    Raises
    ------
    UsageError
        If a number is none of an action, or there are more or fewer.
    """
    given = np.asarray(actions)
    # Steps of one environment are so short that looking for the least and the largest would take a third of them.
    if count == 1 and given.shape == (1,) and given.dtype == np.int64 and 0 <= given.item() < n_actions:
        return given
    if given.shape != (count,):
        raise UsageError(f"the actions have shape {given.shape}, must have {(count,)}")
    if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= n_actions:
        for action in given.tolist():
            whole_number("action", action, 0, n_actions - 1)
    return np.ascontiguousarray(given, dtype=np.int64)
