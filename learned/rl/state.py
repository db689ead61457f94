"""What changes while something learns, for checkpoints."""

from typing import Any, ClassVar, Protocol

import numpy as np


class HasState(Protocol):
    """Something that changes, and can go back."""

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes, of all workers: arrays, tensors, numbers, texts, and lists and dicts of these."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""


class Stateful:
    """Has its state in the attributes that ``state`` names.

    These hold numbers, texts, arrays, generators, modules and optimizers of torch, what has a state itself, and tuples
    and dicts of all of them.
    """

    state: ClassVar[tuple[str, ...]]

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes, by the names of the attributes without underscores in front."""
        return {name.lstrip("_"): _taken(getattr(self, name)) for name in self.state}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        for name in self.state:
            setattr(self, name, _restored(getattr(self, name), snapshot[name.lstrip("_")]))


def _taken(value: Any) -> Any:
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {name: _taken(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_taken(part) for part in value]
    # Ours; torch's modules and optimizers; torch's generators. Nothing here may need torch.
    methods = (getattr(value, method, None) for method in ("snapshot", "state_dict", "get_state"))
    take = next(filter(None, methods), None)
    return value if take is None else take()


def _restored(value: Any, held: Any) -> Any:
    if isinstance(value, np.random.Generator):
        value.bit_generator.state = held
    elif isinstance(value, np.ndarray):
        value[...] = held
    elif isinstance(value, dict):
        return {name: _restored(value.get(name), part) for name, part in held.items()}
    elif isinstance(value, tuple):
        for part, state in zip(value, held, strict=True):
            _restored(part, state)
    else:
        methods = (getattr(value, method, None) for method in ("restore", "load_state_dict", "set_state"))
        put = next(filter(None, methods), None)
        if put is None:
            return held
        put(held)
    return value
