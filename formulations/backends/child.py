"""Child processes that run a back end, from the side of the parent.

A back end can overrun its limit, crash, or swallow Ctrl-C; a child process can be killed. Children are plain
subprocesses, not of `multiprocessing`, whose way to start them runs the user's script a second time.
"""

import math
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, cast

from allocopt.errors import AllocoptError
from allocopt.solving.budget import Clock
from formulations.backends.program import Outcome, Progress, Request, read_frame, write_frame


class BackEndDiedError(AllocoptError):
    """The child process of a back end ended by itself."""


class _Child:
    """A child process that runs a module of `formulations.backends` and serves one request at a time."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._owner = os.getpid()
        self._busy = False
        self.version: str | None = None
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        # -P: the path is the parent's; the current folder is on it only if it was there.
        command = [sys.executable, "-P", "-m", "formulations.backends.worker", module]
        # A process group of its own: Ctrl-C in a terminal is for the parent, even while the child starts.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, process_group=0
        )
        self._answers: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=_receive, args=(self._process, self._answers), daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_free(self) -> bool:
        """Whether it lives, in this process, and has answered all that it was asked."""
        return not self._busy and self._owner == os.getpid() and self._process.poll() is None

    def wait_until_ready(self, clock: Clock) -> bool:
        """Wait until the back end has said its version; return whether it is before the time is up.

        Raises `BackEndDiedError` if it cannot start.
        """
        if self.version is None:
            try:
                self.version = cast(str, self._answer(clock, 0.0))
            except Empty:
                return False
        return True

    def ask(self, request: Request) -> None:
        """Send a request; if the child is gone, the answers say so."""
        self._busy = True
        with suppress(OSError):
            write_frame(cast(BinaryIO, self._process.stdin), request)

    def answers(self, clock: Clock, grace: float) -> Iterator[Progress]:
        """Yield what comes, up to the outcome, or to ``grace`` seconds after the time is up.

        Raises `BackEndDiedError` if the child ends before it has answered.
        """
        while self._busy:
            try:
                answer = self._answer(clock, grace)
            except Empty:
                return
            self._busy = not isinstance(answer, Outcome)
            yield answer

    def kill(self) -> None:
        """End the process, whatever it does; a copy of this object in a forked process leaves it alone."""
        if self._owner != os.getpid():
            return
        self._process.kill()
        # The reading thread waits for the end of the process, which takes a while if it has much memory to give back.
        # What was not sent yet cannot be sent any more.
        with suppress(OSError):
            cast(BinaryIO, self._process.stdin).close()

    def _answer(self, clock: Clock, grace: float) -> Any:
        left = clock.remaining()
        answer = self._answers.get(timeout=None if math.isinf(left) else left + grace)
        if answer is not None:
            return answer
        code = self._process.returncode
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        doing = "in a solve" if self._busy else "before it was ready"
        raise BackEndDiedError(f"the process that runs the back end {self._module!r} {ended} {doing}")


class ChildPool:
    """Children that run a module of `formulations.backends`, kept alive between solves and ended with the pool."""

    def __init__(self, module: str) -> None:
        self.version: str | None = None
        self._module = module
        self._free: list[_Child] = []
        weakref.finalize(self, _kill_all, self._free)

    @contextmanager
    def child(self) -> Iterator[_Child]:
        """Lend a child; it is kept if it has nothing left to do at the end, and killed otherwise."""
        child: _Child | None = None
        # Another thread may take the last one between a look at the list and the pop.
        with suppress(IndexError):
            while not (child := self._free.pop()).is_free():
                child.kill()
                child = None
        child = child or _Child(self._module)
        try:
            yield child
        finally:
            self.version = child.version or self.version
            if child.is_free():
                self._free.append(child)
            else:
                child.kill()


@cache
def pool_of(module: str) -> ChildPool:
    """Return this process's children of a back end, whichever solver asks: starting one takes half a second."""
    return ChildPool(module)


def _receive(process: "subprocess.Popen[bytes]", answers: "SimpleQueue[Any]") -> None:
    with cast(BinaryIO, process.stdout) as stream:
        while (answer := read_frame(stream)) is not None:
            answers.put(answer)
    process.wait()
    answers.put(None)


def _kill_all(children: list[_Child]) -> None:
    for child in children:
        child.kill()
