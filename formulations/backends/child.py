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
from multiprocessing import Pipe
from queue import Empty, SimpleQueue
from typing import Any, cast

from allocopt.errors import AllocoptError
from allocopt.solving.budget import Clock
from formulations.backends.program import Outcome, Progress, Request


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
        self._pipe, theirs = Pipe()
        # A process group of its own: Ctrl-C in a terminal is for the parent, even while the child starts.
        with theirs:
            self._process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=theirs.fileno(), env=environment, process_group=0
            )
        self._answers: SimpleQueue[Any] = SimpleQueue()
        # Not of this object: the thread would keep it from being forgotten.
        pipe, process, answers = self._pipe, self._process, self._answers

        def receive() -> None:
            with suppress(EOFError, OSError):
                while True:
                    answers.put(pipe.recv())
            process.wait()
            answers.put(None)

        threading.Thread(target=receive, daemon=True).start()

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
            self._pipe.send(request)

    def answers(self, clock: Clock, grace: float) -> Iterator[Progress]:
        """Yield the reports of a solve up to the outcome, or to ``grace`` seconds after the time is up.

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
        if self._owner == os.getpid():
            # The reading thread waits for its end, which takes a while if it has much memory to give back.
            self._process.kill()

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
        free = self._free

        def kill_all() -> None:
            for child in free:
                child.kill()

        weakref.finalize(self, kill_all)

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


# This process's children of a back end, whichever solver asks: starting one takes half a second.
pool_of = cache(ChildPool)
