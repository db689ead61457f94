"""Solves in a separate process, which is killed when it takes too long; a window then gets its greedy answer.

Kernels and native solvers can be interrupted only by killing their process.
"""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol

from allocopt.errors import AllocoptError
from allocopt.live.plan import make_plans_ready
from allocopt.problems.instances import shipped_problems
from allocopt.solving.result import Result
from allocopt.solving.solve import solve
from allocopt.solving.windows import KINDS, window_solver

GRACE_S = 2.0
"""Seconds beyond its limit that a solve may take."""
_FIRST_S = 60.0  # that the first solve may take, which imports and loads what it needs
_REST_S, _LONGEST_REST_S = 1.0, 600.0  # before a process is started again: at first, and at most
_LEAVE_S = 2.0  # that a process may take to end after its channel was closed


class Question(Protocol):
    """A question to a solver, such as a window."""

    def solved(self, solver: str, time_limit: float, seed: int) -> Result:
        """Return the verified result of a solver."""

    def unsolved(self, runtime_s: float, seed: int) -> Result:
        """Return the result that is used if a solver gives no answer in time."""


class SolverFailedError(AllocoptError):
    """A solver gave no answer when it was tried."""


class SolverProcess:
    """Solves windows and relocations in a separate process, with a time limit in seconds.

    On entry the solver is tried on shipped windows and on the questions ``tried``. Raises `AllocoptError` if it fails.
    """

    def __init__(self, solver: str, time_limit: float, seed: int, tried: Sequence[Question] = ()) -> None:
        self.solver, self.time_limit, self.seed, self.tried = solver, time_limit, seed, tried
        self._process: SpawnProcess | None = None
        self._channel: Connection[Any, Any] | None = None
        self._is_ready = False
        self._rest_s = _REST_S
        self._again_s = 0.0

    def __enter__(self) -> "SolverProcess":
        """Start the process, and wait until everything is compiled and loaded."""
        self._start()
        assert self._channel is not None, "it was started"
        try:
            fault = self._channel.recv()
        except EOFError:
            fault = f"solver {self.solver!r} gave no answer within {_FIRST_S:g} s when it was tried"
        if fault is not None:
            self._end()
            raise SolverFailedError(fault)
        self._is_ready = True
        return self

    def __exit__(self, *error: object) -> None:
        """End the process."""
        self._end()

    def answer(
        self, question: Question, solver: str | None = None, time_limit: float | None = None
    ) -> tuple[Result, str]:
        """Return the verified answer and an empty text; if there is none in time, the fallback and the reason.

        By default solver and limit are those of the process.
        """
        limit_s = self.time_limit if time_limit is None else time_limit
        began = time.perf_counter()
        fault = self._unready()
        answer: Result | str | None = None
        if not fault:
            assert self._channel is not None, "it is ready"
            with suppress(EOFError, OSError):
                self._channel.send((question, solver or self.solver, limit_s, self.seed))
                if self._channel.poll(limit_s + 2 * GRACE_S):
                    answer = self._channel.recv()
            if isinstance(answer, Result):
                self._rest_s = _REST_S
                return answer, ""
            fault = answer or f"solver {solver or self.solver!r} gave no answer within its {limit_s:g} s"
            if answer is None:
                self._rest()
        runtime_s = time.perf_counter() - began
        return question.unsolved(runtime_s, self.seed), fault

    def _unready(self) -> str:
        if self._process is None and time.monotonic() >= self._again_s:
            self._start()
        if not self._is_ready and self._channel is not None and self._channel.poll():
            try:
                self._is_ready = self._channel.recv() is None
            except EOFError:
                self._is_ready = False
            if not self._is_ready:
                self._rest()
        return "" if self._is_ready else f"solver {self.solver!r} is being started again"

    def _start(self) -> None:
        # A fork would inherit threads of numba and solvers in an undefined state.
        context = get_context("spawn")
        self._channel, theirs = context.Pipe()
        # Not a daemon, because solvers may start processes of their own.
        self._process = context.Process(target=_serve, args=(theirs, self.solver, self.tried), daemon=False)
        self._process.start()
        theirs.close()

    def _rest(self) -> None:
        self._end(leave_s=0.0)
        self._again_s = time.monotonic() + self._rest_s
        self._rest_s = min(2 * self._rest_s, _LONGEST_REST_S)

    def _end(self, leave_s: float = _LEAVE_S) -> None:
        self._is_ready = False
        if self._channel is not None:
            self._channel.close()
        if self._process is not None and self._process.pid is not None:
            self._process.join(leave_s)
            # If it has got as far as `os.setsid`, it leads the group of all processes that solvers have started.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join()
        self._channel = self._process = None


def _serve(channel: "Connection[Any, Any]", solver: str, tried: Sequence[Question]) -> None:
    # Ctrl-C is for the service, which ends this process.
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        make_plans_ready(solver)
        # The default action of SIGALRM ends native code, too, even if the service has been killed.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, _FIRST_S)
        for kind in KINDS:
            solve(shipped_problems(kind)[0], solver=window_solver(solver, kind), time_limit=GRACE_S, seed=0)
        for question in tried:
            question.solved("auto", GRACE_S, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        channel.send(None)
    except AllocoptError as error:
        channel.send(str(error))
        return
    while True:
        try:
            question, name, time_limit, seed = channel.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, time_limit + GRACE_S)
        answer: Result | str
        try:
            answer = question.solved(name, time_limit, seed)
        except AllocoptError as error:
            answer = str(error)
        signal.setitimer(signal.ITIMER_REAL, 0)
        channel.send(answer)
