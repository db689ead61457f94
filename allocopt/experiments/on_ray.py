"""Cells on a Ray cluster."""

import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import Any, ClassVar

from allocopt.errors import MissingPackageError, UsageError
from allocopt.experiments.cells import Answer, Grid, run_task
from allocopt.experiments.engine import Executor
from allocopt.interruption import interruption_held

_LAST_PORT = 65535
_CONNECT_S = 5.0  # That a cluster has to answer


class RayWorkers(Executor):
    """Tasks of one core each on a Ray cluster at an address, ``auto`` for the one that runs here; see `Executor`.

    Without a count as many run at a time as the cluster has cores when a cell begins.

    Raises
    ------
    MissingPackageError
        If Ray is not installed.
    UsageError
        If there is no cluster at the address.
    """

    blocks: ClassVar[bool] = False

    def __init__(self, grid: Grid, address: str, count: int | None) -> None:
        try:
            self._ray: Any = import_module("ray")
        except ModuleNotFoundError as error:
            if error.name != "ray":
                raise
            fault = "--ray needs the package 'ray', which is not installed: it comes with allocopt[distributed]"
            raise MissingPackageError(fault) from None
        self._grid = grid
        self._count = count
        self._numbers: dict[Any, int] = {}
        self._sent: dict[str, Any] = {}
        self._stack = ExitStack()
        if address in ("", "local"):
            # Ray would start a cluster of its own, and leave behind what keeps others from being joined.
            raise UsageError(f"--ray {address!r}: must be HOST:PORT of a cluster that runs, or auto")
        host, colon, port = address.rpartition(":")
        has_port = bool(colon) and "/" not in host
        if has_port and not (port.isdecimal() and int(port) <= _LAST_PORT):
            raise UsageError(f"--ray {address}: the port is {port!r}, must be a number up to {_LAST_PORT}")
        try:
            if has_port:
                # Ray itself tries for the better part of a minute.
                socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
            self._ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError, ValueError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise UsageError(f"--ray {address}: no Ray cluster answers: {reason}") from None
        # Ray itself would try again without telling; the engine counts attempts, as for processes of this machine.
        self._remote = self._ray.remote(num_cpus=1, max_retries=0)(run_task)

    def __enter__(self) -> "RayWorkers":
        """Let Ctrl-C wait for the end of a step."""
        self._interrupted = self._stack.enter_context(interruption_held())
        return self

    def __exit__(self, *error: object) -> None:
        """Cancel the tasks and leave the cluster."""
        with self._stack:
            # What is left of a cluster that is going down needs no cancelling.
            with suppress(self._ray.exceptions.RayError):
                for reference in self._numbers:
                    self._ray.cancel(reference, force=True)
            self._ray.shutdown()

    def has_room(self) -> bool:
        # Nodes join and leave while a grid runs.
        cores = int(self._ray.cluster_resources().get("CPU", 0)) if self._count is None else self._count
        return len(self._numbers) < max(1, cores)

    def submit(self, number: int) -> None:
        cell = self._grid.cells[number]
        # In Ray's object store an input is copied to a node once, not once for each cell.
        if cell.source not in self._sent:
            self._sent[cell.source] = self._ray.put(self._grid.inputs[cell.source])
        self._numbers[self._remote.remote(cell.task, self._sent[cell.source])] = number

    def news(self, timeout_s: float) -> Sequence[tuple[int, Answer]]:
        if self._interrupted():
            raise KeyboardInterrupt
        ready, _ = self._ray.wait(list(self._numbers), num_returns=1, timeout=timeout_s)
        news = []
        for reference in ready:
            number = self._numbers.pop(reference)
            try:
                news.append((number, self._ray.get(reference)))
            except self._ray.exceptions.RayError as error:
                fault = f"its worker was lost ({type(error).__name__})"
                news.append((number, Answer(None, fault, is_lost=True)))
        return news

    def stop(self, number: int) -> None:
        for reference in [reference for reference, known in self._numbers.items() if known == number]:
            del self._numbers[reference]
            self._ray.cancel(reference, force=True)
