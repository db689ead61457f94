"""Cells on processes of this machine, each with one thread, that end with whoever started them."""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from multiprocessing.process import BaseProcess
from typing import Any

from allocopt.experiments.cells import Cell
from allocopt.experiments.executor import Lost, News
from allocopt.experiments.work import run_task

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
PRELOADED = ("allocopt.experiments.local", "allocopt.experiments.solve_task", "allocopt.experiments.simulate_task")
"""What all workers need, which is imported once."""

STARTS, RESTART_S = 5, 0.2
"""How often the start of a process is tried, and the seconds in between."""

LEAVE_S, PATIENCE_S = 1.0, 10.0
"""Seconds that a process has to end by itself, and when it was killed."""


@dataclass(slots=True)
class Worker:
    """A process.

    Parameters
    ----------
    process
        The process.
    channel
        Where it is sent cells, and sends what they gave.
    number
        Number of the cell that it runs; None for none.
    source
        Digest of the input that it has.
    """

    process: ForkServerProcess
    channel: "Connection[Any, Any]"
    number: int | None = None
    source: str | None = None

    def end(self) -> str:
        """End the process with all that it has started, and say what had become of it."""
        self.channel.close()
        self.process.join(LEAVE_S)
        code = self.process.exitcode
        self.kill()
        self.process.join(PATIENCE_S)
        return _ended(code)

    def kill(self) -> None:
        """Kill the process and its group."""
        assert self.process.pid is not None, "the process was started"
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            # It is gone, or leads no group yet.
            self.process.kill()


class LocalExecutor:
    """Processes that are started when there is a cell for them, and again when one has died; see `Executor`.

    Parameters
    ----------
    workers
        Number of processes.
    inputs
        Instances or traces by digest.
    """

    def __init__(self, workers: int, inputs: Mapping[str, Any]) -> None:
        self._count = workers
        self._inputs = inputs
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._busy: list[Worker] = []
        self._lost: list[News] = []
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(list(PRELOADED))

    def has_room(self) -> bool:
        """Whether a process is free."""
        return len(self._busy) < self._count

    def submit(self, number: int, cell: Cell) -> None:
        """Send a cell to a process that is free; its input only if it does not have that."""
        worker = self._idle.pop() if self._idle else self._started()
        if worker is None:
            self._lost.append(News(number, Lost("no worker could be started")))
            return
        worker.number = number
        given = None if worker.source == cell.source else self._inputs[cell.source]
        try:
            worker.channel.send((cell.task, given))
        except OSError:
            self._lost.append(News(number, Lost(self._ended(worker))))
            return
        worker.source = cell.source
        self._busy.append(worker)

    def news(self, timeout_s: float) -> Sequence[News]:
        """Wait until a process has answered or died."""
        if self._lost:
            news, self._lost = self._lost, []
            return news
        watched: list[Any] = [end for worker in self._busy for end in (worker.channel, worker.process.sentinel)]
        ready = connection.wait(watched, timeout_s)
        heard = [worker for worker in self._busy if worker.channel in ready or worker.process.sentinel in ready]
        return [self._hear(worker) for worker in heard]

    def stop(self, number: int) -> None:
        """Kill the process that runs a cell; another one is started for the next."""
        for worker in [worker for worker in self._busy if worker.number == number]:
            self._busy.remove(worker)
            worker.kill()
            self._ended(worker)

    def close(self) -> None:
        """Kill the processes."""
        started = [worker for worker in self._workers if worker.process.pid is not None]
        for worker in started:
            worker.kill()
        for worker in started:
            worker.end()
        self._workers, self._busy, self._idle = [], [], []

    def _started(self) -> Worker | None:
        """Start a process; None if that fails time and again."""
        for _ in range(STARTS):
            ours, theirs = self._context.Pipe()
            # Not a daemon, for solvers may have processes of their own.
            process = self._context.Process(target=serve, args=(theirs,), daemon=False)
            worker = Worker(process, ours)
            # Known before it runs, whatever interrupts this.
            self._workers.append(worker)
            with closing(theirs), suppress(EOFError, OSError), _one_thread():
                process.start()
                return worker
            # The server that starts processes was killed; the next start makes another one.
            self._workers.remove(worker)
            ours.close()
            time.sleep(RESTART_S)
        return None

    def _ended(self, worker: Worker) -> str:
        """End a process that is of no use any more, and say what had become of it."""
        reason = worker.end()
        self._workers.remove(worker)
        return reason

    def _hear(self, worker: Worker) -> News:
        """Take the answer of a process, or its end."""
        assert worker.number is not None, "only processes with a cell are listened to"
        self._busy.remove(worker)
        number = worker.number
        try:
            # Where the process is dead but had answered, the answer counts.
            outcome = worker.channel.recv() if worker.channel.poll() else None
        except (EOFError, OSError):
            outcome = None
        if outcome is None:
            return News(number, Lost(self._ended(worker)))
        worker.number = None
        self._idle.append(worker)
        return News(number, outcome)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve(channel: "Connection[Any, Any]") -> None:
    """Run the cells that come through a channel, until it is closed; the body of a process.

    The process leads a group of its own, so that Ctrl-C in a terminal is for the one that started it, and ends with
    that one, in whatever way it ends.
    """
    os.setpgid(0, 0)
    _end_with_parent()
    # Standard output belongs to the answers of the command.
    os.dup2(2, 1)
    given = None
    while True:
        try:
            task, sent = channel.recv()
        except EOFError:
            return
        given = given if sent is None else sent
        channel.send(run_task(task, given))


def _end_with_parent() -> None:
    """Let the end of the process that started this one end this one's group, whatever that does then."""
    parent = parent_process()
    assert parent is not None, "a worker has a parent"
    if hasattr(os, "O_ASYNC"):
        # Its end is seen as that of a pipe. The signal for that ends processes, also within native code that lets no
        # thread run.
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, -os.getpgrp())
        flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)
    threading.Thread(target=_wait_and_end, args=(parent,), daemon=True).start()


def _wait_and_end(parent: BaseProcess) -> None:
    """Wait for the end of a process, and end this one's group."""
    parent.join()
    os.killpg(0, signal.SIGKILL)


def _ended(code: int | None) -> str:
    """Say how a process has ended."""
    if code is None:
        return "its worker did not answer any more"
    if code >= 0:
        return f"its worker ended with exit code {code}"
    hint = ", perhaps for want of memory" if code == -signal.SIGKILL else ""
    return f"its worker was killed by {signal.Signals(-code).name}{hint}"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let what is started here compute with one thread."""
    kept = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
