"""Workers on torch.distributed, as ``torchrun --standalone --nproc-per-node P`` starts them."""

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import distributed, nn

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from learned.training.workers import ALONE, Workers

COUNT, LOCAL_RANK = "WORLD_SIZE", "LOCAL_RANK"
"""Variables in which every worker is told of the others."""


class JoinedWorkers:
    """The processes of a group that has been joined; see `learned.training.workers.Workers`.

    Parameters
    ----------
    device
        Where what they tell each other must lie: on the accelerator of each for ``nccl``, else the processor.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.rank = distributed.get_rank()
        self.count = distributed.get_world_size()

    def total(self, values: FloatArray) -> FloatArray:
        """Return the sums over all workers."""
        return self._reduced(values, distributed.ReduceOp.SUM)

    def largest(self, values: FloatArray) -> FloatArray:
        """Return the largest values that a worker has."""
        return self._reduced(values, distributed.ReduceOp.MAX)

    def average(self, module: nn.Module) -> None:
        """Set parameters and running statistics of a module to the means over all workers, in one message."""
        tensors = [tensor for tensor in module.state_dict().values() if tensor.is_floating_point()]
        means = torch.cat([tensor.detach().flatten() for tensor in tensors]).to(self._device)
        with _loss_told():
            distributed.all_reduce(means)
        means /= self.count
        first = 0
        for tensor in tensors:
            tensor.copy_(means[first : first + tensor.numel()].view_as(tensor))
            first += tensor.numel()

    def gathered(self, state: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return what each worker has."""
        found: list[Any] = [None] * self.count
        with _loss_told():
            distributed.all_gather_object(found, state)
        return found

    def _reduced(self, values: FloatArray, how: Any) -> FloatArray:
        """Combine arrays of the same shape."""
        tensor = torch.from_numpy(values.copy()).to(self._device)
        with _loss_told():
            distributed.all_reduce(tensor, how)
        reduced: FloatArray = tensor.cpu().numpy()
        return reduced


@contextmanager
def joined_workers() -> Iterator[Workers]:
    """Join the workers that this process was started with, and leave them in the end; one alone is on its own.

    Raises
    ------
    UsageError
        If they cannot be joined.
    """
    if int(os.environ.get(COUNT, "1")) == 1:
        yield ALONE
        return
    has_accelerator = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get(LOCAL_RANK, "0"))) if has_accelerator else torch.device("cpu")
    if has_accelerator:
        torch.cuda.set_device(device)
    try:
        distributed.init_process_group("nccl" if has_accelerator else "gloo")
    except (ValueError, RuntimeError) as error:
        raise UsageError(
            f"the other workers cannot be joined: {error}; start them by torchrun --standalone --nproc-per-node P"
        ) from None
    try:
        with _stop_told():
            yield JoinedWorkers(device)
    finally:
        distributed.destroy_process_group()


@contextmanager
def _loss_told() -> Iterator[None]:
    """Turn the error that a dead worker causes in the others into one for people."""
    try:
        yield
    except RuntimeError as error:
        # Its first sentence, without the place in the library's source.
        reason = str(error).split("] ", 1)[-1].split(". ")[0]
        raise UsageError(
            f"another worker has died, so this training ends ({reason}); --resume goes on from its last checkpoint"
        ) from None


@contextmanager
def _stop_told() -> Iterator[None]:
    """Let a worker that is told to stop say so: torchrun tells all of them when one has died."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise UsageError(
            "this worker was told to stop, as when another one has died; --resume goes on from the last checkpoint"
        )

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
