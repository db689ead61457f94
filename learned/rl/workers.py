"""Learners, environments and their state, and the one or more processes (workers) of a training.

Several workers communicate by torch.distributed; ``torchrun`` starts them. A single worker needs no torch.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.errors import UsageError

if TYPE_CHECKING:
    import torch
    from torch import nn

COUNT, LOCAL_RANK = "WORLD_SIZE", "LOCAL_RANK"  # Environment variables that torchrun sets for every worker


class Learner(Protocol):
    """A learner; its snapshots hold arrays, tensors, numbers, texts, and lists and dicts of these."""

    def update(self, share: float) -> dict[str, float]:
        """Make one update and return its measures; ``share`` is the finished share of the training, at first 0."""

    def snapshot(self) -> dict[str, Any]:
        """Return the state that changes, of all workers."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore the state of a snapshot."""


class Environment(Protocol):
    """E environments that step together; one that ends restarts automatically. They are `Stateful`."""

    n_environments: int

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return states, shape ``(E, ...)``, and legal actions, shape ``(E, actions)``; new arrays."""

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        """Take an action in each; return rewards and whether each episode ended, shape ``(E,)``; new arrays."""


class Stateful:
    """Base class of objects with state in a checkpoint: the attributes that ``state`` names.

    Attributes may be numbers, texts, arrays, generators, objects of torch, `Stateful`, and tuples and dicts of these.
    """

    state: ClassVar[tuple[str, ...]]

    def snapshot(self) -> dict[str, Any]:
        """Return the state, by the names of the attributes without leading underscores."""
        return {name.lstrip("_"): _taken(getattr(self, name)) for name in self.state}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore the state of a snapshot."""
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
    # `Stateful`; torch's modules and optimizers; torch's generators. This code must work without torch.
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


class Workers:
    """The processes of a training, here only one; all of them must call the same methods in the same order.

    If there are several, every method raises `UsageError` if another one has died.
    """

    rank: int = 0  # Number of this process, from 0; process 0 writes files and messages
    count: int = 1  # Number P of processes

    @property
    def is_leader(self) -> bool:
        """Whether this process writes files and messages."""
        return self.rank == 0

    def any_of(self, *flags: bool) -> tuple[bool, ...]:
        """Return for each flag whether one of the processes has set it."""
        return tuple((self.largest(np.array(flags, dtype=np.float64)) > 0).tolist())

    def total(self, values: FloatArray) -> FloatArray:
        """Return the sums over all processes."""
        return values

    def largest(self, values: FloatArray) -> FloatArray:
        """Return the maxima over all processes."""
        return values

    def average(self, module: "nn.Module") -> None:
        """Set the parameters and buffers of a module to the means over all processes."""
        import torch

        tensors = [tensor for tensor in module.state_dict().values() if tensor.is_floating_point()]
        # One message is faster than one per tensor.
        own = torch.cat([tensor.flatten() for tensor in tensors]).numpy()
        means = torch.from_numpy(self.total(own)) / self.count
        for tensor, mean in zip(tensors, torch.split(means, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view_as(tensor))

    def gathered(self, state: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return the states of all processes, by their numbers."""
        return [state]

    @staticmethod
    @contextmanager
    def joined() -> "Iterator[Workers]":
        """Join the workers with which this process was started, if any; raises `UsageError` if that fails."""
        if int(os.environ.get(COUNT, "1")) == 1:
            yield ALONE
            return
        import torch
        from torch import distributed

        place = "cpu"
        if torch.cuda.is_available():
            place = f"cuda:{os.environ.get(LOCAL_RANK, '0')}"
            torch.cuda.set_device(place)
        try:
            distributed.init_process_group("gloo" if place == "cpu" else "nccl")
        except (ValueError, RuntimeError) as error:
            right = "start them by torchrun --standalone --nproc-per-node P"
            raise UsageError(f"cannot connect to the other workers: {error}; {right}") from None

        # torchrun stops all workers when one has died.
        def stop(number: int, frame: FrameType | None) -> None:
            fault = "this worker was stopped by a signal, probably because another one has died"
            raise UsageError(f"{fault}; --resume continues from the last checkpoint")

        # Only the main thread may handle signals.
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGTERM, stop) if is_main else None
        try:
            yield _Joined(torch.device(place))
        finally:
            if is_main:
                signal.signal(signal.SIGTERM, before)
            distributed.destroy_process_group()


ALONE = Workers()  # The single process; it has no state, so that it can be shared


class _Joined(Workers):
    # With nccl, messages between processes must be on the accelerators, otherwise in the memory of the CPUs.
    def __init__(self, device: "torch.device") -> None:
        from torch import distributed

        self._distributed, self._device = distributed, device
        self.rank = distributed.get_rank()
        self.count = distributed.get_world_size()

    def total(self, values: FloatArray) -> FloatArray:
        return self._reduced(values, self._distributed.ReduceOp.SUM)

    def largest(self, values: FloatArray) -> FloatArray:
        return self._reduced(values, self._distributed.ReduceOp.MAX)

    def gathered(self, state: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        found: list[Any] = [None] * self.count
        with _loss_told():
            self._distributed.all_gather_object(found, state)
        return found

    def _reduced(self, values: FloatArray, how: Any) -> FloatArray:
        import torch

        tensor = torch.from_numpy(values.copy()).to(self._device)
        with _loss_told():
            self._distributed.all_reduce(tensor, how)
        reduced: FloatArray = tensor.cpu().numpy()
        return reduced


@contextmanager
def _loss_told() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        # Report only its first sentence, without the location in the library's source.
        reason = str(error).split("] ", 1)[-1].split(". ")[0]
        fault = f"another worker has died, so this training ends ({reason})"
        raise UsageError(f"{fault}; --resume continues from its last checkpoint") from None
