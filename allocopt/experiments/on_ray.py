"""Cells on a Ray cluster."""

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from allocopt.errors import MissingPackageError, UsageError
from allocopt.experiments.cells import Cell
from allocopt.experiments.executor import Lost, News
from allocopt.experiments.work import run_task

LAST_PORT = 65535

CONNECT_S = 5.0
"""Seconds that a cluster has to answer."""


class RayExecutor:
    """Tasks of one core each on a cluster; see `Executor`.

    Parameters
    ----------
    address
        Address of the cluster, ``auto`` for the one that runs here.
    workers
        Number of cells at a time; None for as many as the cluster has cores when a cell begins.
    inputs
        Instances or traces by digest.

    Raises
    ------
    MissingPackageError
        If Ray is not installed.
    UsageError
        If there is no cluster at the address.
    """

    def __init__(self, address: str, workers: int | None, inputs: Mapping[str, Any]) -> None:
        self._ray = _imported()
        self._workers = workers
        self._inputs = inputs
        self._numbers: dict[Any, int] = {}
        self._sent: dict[str, Any] = {}
        _join(self._ray, address)
        # Cells whose worker dies come back as lost, as from processes of this machine.
        self._remote = self._ray.remote(num_cpus=1, max_retries=0)(run_task)

    def has_room(self) -> bool:
        """Whether the cluster has a core for another cell."""
        cores = int(self._ray.cluster_resources().get("CPU", 0)) if self._workers is None else self._workers
        return len(self._numbers) < max(1, cores)

    def submit(self, number: int, cell: Cell) -> None:
        """Send a cell; its input once for all cells."""
        if cell.source not in self._sent:
            self._sent[cell.source] = self._ray.put(self._inputs[cell.source])
        self._numbers[self._remote.remote(cell.task, self._sent[cell.source])] = number

    def news(self, timeout_s: float) -> Sequence[News]:
        """Wait until a task has ended or was lost."""
        ready, _ = self._ray.wait(list(self._numbers), num_returns=1, timeout=timeout_s)
        return [self._hear(reference) for reference in ready]

    def stop(self, number: int) -> None:
        """Cancel a task."""
        for reference in [reference for reference, known in self._numbers.items() if known == number]:
            del self._numbers[reference]
            self._ray.cancel(reference, force=True)

    def close(self) -> None:
        """Cancel the tasks and leave the cluster."""
        # What is left of a cluster that is going down needs no cancelling.
        with suppress(self._ray.exceptions.RayError):
            for reference in self._numbers:
                self._ray.cancel(reference, force=True)
        self._ray.shutdown()

    def _hear(self, reference: Any) -> News:
        """Take the outcome of a task."""
        number = self._numbers.pop(reference)
        try:
            return News(number, self._ray.get(reference))
        except self._ray.exceptions.RayError as error:
            return News(number, Lost(f"its worker was lost ({type(error).__name__})"))


def _join(ray: Any, address: str) -> None:
    """Connect to a cluster."""
    if address in ("", "local"):
        # Ray would start a cluster of its own, and leave behind what keeps others from being joined.
        raise UsageError(f"--ray {address!r}: must be HOST:PORT of a cluster that runs, or auto")
    host, colon, port = address.rpartition(":")
    if colon and "/" not in host and not (port.isdecimal() and int(port) <= LAST_PORT):
        raise UsageError(f"--ray {address}: the port is {port!r}, must be a number up to {LAST_PORT}")
    try:
        if colon and "/" not in host:
            # Ray itself tries for the better part of a minute.
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (OSError, RuntimeError, ValueError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UsageError(f"--ray {address}: no Ray cluster answers: {reason}") from None


def _imported() -> Any:
    """Load Ray, which nothing else needs."""
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        fault = "--ray needs the package 'ray', which is not installed: it comes with allocopt[distributed]"
        raise MissingPackageError(fault) from None
