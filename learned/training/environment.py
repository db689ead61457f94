"""What a training algorithm needs of an environment: many copies at once, discrete actions, some of them illegal."""

from typing import Any, Protocol

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray


class Environment(Protocol):
    """E environments that take a step together; one that ends starts again by itself."""

    @property
    def n_environments(self) -> int:
        """Their number E."""

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return states, shape ``(E, channels, length)``, and legal actions, shape ``(E, actions)``; new arrays."""

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        """Take an action each; return rewards and which episodes ended, shape ``(E,)``; new arrays."""

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes, for a checkpoint: arrays, numbers and dicts of these."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
