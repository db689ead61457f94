"""Runs cells on a Ray cluster, or in single-threaded processes of this machine that end with their parent."""

import fcntl
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any, ClassVar

from allocopt.errors import MissingPackageError, UsageError
from allocopt.experiments.cells import Answer, Grid, run_task
from allocopt.experiments.engine import Executor

_LAST_PORT = 65535
_CONNECT_S = 5.0  # Within which a cluster must answer


class RayWorkers(Executor):
    """Runs cells as single-core tasks on a Ray cluster, at most ``count`` at a time, by default one per core.

    The address ``auto`` stands for a cluster that runs on this machine.
    """

    blocks: ClassVar[bool] = False

    def __init__(self, grid: Grid, address: str, count: int | None) -> None:
        try:
            self._ray: Any = import_module("ray")
        except ModuleNotFoundError as error:
            if error.name != "ray":
                raise
            raise MissingPackageError.of("--ray needs", "ray", extra="distributed") from None
        self._grid = grid
        self._count = count
        self._numbers: dict[Any, int] = {}
        self._sent: dict[str, Any] = {}
        if address in ("", "local"):
            # Ray would start its own cluster, and leave state behind that prevents connections to other clusters.
            raise UsageError(f"--ray {address!r}: must be HOST:PORT of a running cluster, or auto")
        host, colon, port = address.rpartition(":")
        has_port = bool(colon) and "/" not in host
        if has_port and not (port.isdecimal() and int(port) <= _LAST_PORT):
            raise UsageError(f"--ray {address}: the port is {port!r}, must be a number up to {_LAST_PORT}")
        try:
            if has_port:
                # Ray itself would try for most of a minute.
                socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
            self._ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError, ValueError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise UsageError(f"--ray {address}: no Ray cluster answers: {reason}") from None
        # Without max_retries=0 Ray would silently try again. The engine counts attempts, as for local processes.
        self._remote = self._ray.remote(num_cpus=1, max_retries=0)(run_task)

    def close(self) -> None:
        """Cancel the tasks and leave the cluster."""
        # If the cluster is going down, there is nothing to cancel.
        with suppress(self._ray.exceptions.RayError):
            for reference in self._numbers:
                self._ray.cancel(reference, force=True)
        self._ray.shutdown()

    def has_room(self) -> bool:
        # Count cores every time, because nodes may join and leave while a grid runs.
        cores = int(self._ray.cluster_resources().get("CPU", 0)) if self._count is None else self._count
        return len(self._numbers) < max(1, cores)

    def submit(self, number: int) -> None:
        cell = self._grid.cells[number]
        # Through Ray's object store, an input is copied once to each node, not once for each cell.
        if cell.source not in self._sent:
            self._sent[cell.source] = self._ray.put(self._grid.inputs[cell.source])
        self._numbers[self._remote.remote(cell.task, self._sent[cell.source])] = number

    def news(self, timeout_s: float) -> Sequence[tuple[int, Answer]]:
        ready, _ = self._ray.wait(list(self._numbers), num_returns=1, timeout=timeout_s)
        news = []
        for reference in ready:
            try:
                answer = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                answer = _lost(f"its worker was lost ({type(error).__name__})")
            news.append((self._numbers.pop(reference), answer))
        return news

    def stop(self, number: int) -> None:
        for reference in [reference for reference, known in self._numbers.items() if known == number]:
            del self._numbers[reference]
            self._ray.cancel(reference, force=True)


_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# Imported once, by the server that forks all workers.
_PRELOADED = ("allocopt.experiments.workers", "allocopt.experiments.grids")
_STARTS, _RESTART_S = 5, 0.2  # Attempts to start a process, and seconds between them
_LEAVE_S, _PATIENCE_S = 1.0, 10.0  # Seconds for a process to end on its own, and after it was killed


@dataclass(slots=True)
class _Worker:
    process: ForkServerProcess
    channel: "Connection[Any, Any]"
    number: int | None = None  # Number of the cell that it runs
    source: str | None = None  # Digest of the input that it holds

    def end(self) -> str:
        self.channel.close()
        self.process.join(_LEAVE_S)
        code = self.process.exitcode
        self.kill()
        self.process.join(_PATIENCE_S)
        return _ended(code)

    def kill(self) -> None:
        assert self.process.pid is not None, "the process was started"
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            # It has ended, or is not yet the leader of a process group.
            self.process.kill()


class LocalWorkers(Executor):
    """Runs cells in at most ``count`` processes, by default one per core.

    A process that dies is replaced. With ``fresh``, a process runs only one cell.
    """

    blocks: ClassVar[bool] = False

    def __init__(self, grid: Grid, count: int | None, *, fresh: bool = False) -> None:
        self._grid = grid
        has_affinity = hasattr(os, "sched_getaffinity")
        self._count = count or (len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1)
        self._fresh = fresh
        self._workers: list[_Worker] = []
        self._lost: list[tuple[int, Answer]] = []
        # A fork of this process would inherit the state of threads of numba, OpenMP and solvers.
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(list(_PRELOADED))

    def close(self) -> None:
        """Kill the processes."""
        started = [worker for worker in self._workers if worker.process.pid is not None]
        for worker in started:
            worker.kill()
        for worker in started:
            worker.end()

    @property
    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.number is not None]

    def has_room(self) -> bool:
        return len(self._busy) < self._count

    def submit(self, number: int) -> None:
        # Send an input only to a process that does not hold it: instances may be large, and cells short.
        cell = self._grid.cells[number]
        worker = next((idle for idle in self._workers if idle.number is None), None) or self._started()
        if worker is None:
            self._lost.append((number, _lost("no worker could be started")))
            return
        given = None if worker.source == cell.source else self._grid.inputs[cell.source]
        try:
            worker.channel.send((cell.task, given))
        except OSError:
            self._lost.append((number, _lost(self._ended(worker))))
            return
        worker.number, worker.source = number, cell.source

    def news(self, timeout_s: float) -> Sequence[tuple[int, Answer]]:
        if self._lost:
            news, self._lost = self._lost, []
            return news
        watched: list[Any] = [end for worker in self._busy for end in (worker.channel, worker.process.sentinel)]
        ready = connection.wait(watched, timeout_s)
        heard = [worker for worker in self._busy if worker.channel in ready or worker.process.sentinel in ready]
        news = []
        for worker in heard:
            assert worker.number is not None, "only processes with a cell are listened to"
            number, worker.number = worker.number, None
            answer: Answer | None = None
            with suppress(EOFError, OSError):
                # An answer counts even if the process has died since.
                answer = worker.channel.recv() if worker.channel.poll() else None
            news.append((number, answer or _lost(self._ended(worker))))
            if answer is not None and self._fresh:
                worker.kill()
                self._ended(worker)
        return news

    def stop(self, number: int) -> None:
        for worker in [worker for worker in self._busy if worker.number == number]:
            worker.kill()
            self._ended(worker)

    def _started(self) -> _Worker | None:
        for _ in range(_STARTS):
            ours, theirs = self._context.Pipe()
            # Not a daemon, because solvers may start processes of their own.
            process = self._context.Process(target=_serve, args=(theirs,), daemon=False)
            worker = _Worker(process, ours)
            # Record the worker before it starts, so that it is ended even if the start is interrupted.
            self._workers.append(worker)
            with closing(theirs), suppress(EOFError, OSError), _one_thread():
                process.start()
                return worker
            # The fork server was killed; the next attempt starts another one.
            self._workers.remove(worker)
            ours.close()
            time.sleep(_RESTART_S)
        return None

    def _ended(self, worker: _Worker) -> str:
        reason = worker.end()
        self._workers.remove(worker)
        return reason


def _serve(channel: "Connection[Any, Any]") -> None:
    # A process group of its own, for two reasons: Ctrl-C in a terminal must reach only the parent, which ends the
    # workers; and processes that a solver has started must end with the worker.
    os.setpgid(0, 0)
    parent = parent_process()
    assert parent is not None, "a worker has a parent"
    if hasattr(os, "O_ASYNC"):
        # The end of the parent closes a pipe, which raises SIGIO. Its default action ends this process even within
        # native code that lets no other thread run.
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, -os.getpgrp())
        flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)

    def end_with_parent() -> None:
        parent.join()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=end_with_parent, daemon=True).start()
    # Send output to standard error, as standard output is reserved for the results of the command.
    os.dup2(2, 1)
    given = None
    while True:
        try:
            task, sent = channel.recv()
        except EOFError:
            return
        given = given if sent is None else sent
        channel.send(run_task(task, given))


def _lost(reason: str) -> Answer:
    return Answer(None, reason, is_lost=True)


def _ended(code: int | None) -> str:
    if code is None:
        return "its worker no longer responded"
    if code >= 0:
        return f"its worker ended with exit code {code}"
    hint = ", perhaps because memory ran out" if code == -signal.SIGKILL else ""
    return f"its worker was killed by {signal.Signals(-code).name}{hint}"


@contextmanager
def _one_thread() -> Iterator[None]:
    kept = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
