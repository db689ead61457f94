"""The child process: ``python -m formulations.backends.worker MODULE`` runs one back end on requests.

Requests come on standard input, answers go to what was standard output. It ends when its standard input closes, even
in the middle of a solve, so that it never outlives its parent.
"""

import importlib
import math
import os
import signal
import sys
import threading
from dataclasses import replace
from queue import SimpleQueue
from typing import BinaryIO, cast

import numpy as np

from allocopt.interruption import SIGNALS
from formulations.backends.program import BackEnd, Progress, Request, read_frame, write_frame

LARGEST_COST_EXPONENT = 16
"""Costs are scaled by a power of two, so without rounding, until the largest is below two to this power."""


def main(module: str) -> None:
    """Serve requests until the parent closes its end."""
    # They reach all processes of the group; what they mean here is for the parent to say.
    for interruption in SIGNALS:
        signal.signal(interruption, signal.SIG_IGN)
    # Standard output is kept for answers; what native code prints there goes to standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: SimpleQueue[Request] = SimpleQueue()
    # Unbuffered: the lock of a buffered stream would be in the way when an error ends the process.
    stream = open(0, "rb", buffering=0, closefd=False)
    threading.Thread(target=_receive, args=(stream, requests), daemon=True).start()
    back_end = cast(BackEnd, importlib.import_module(f"formulations.backends.{module}"))
    write_frame(answers, back_end.version())
    while True:
        _serve(back_end, requests.get(), answers)


def _receive(stream: BinaryIO, requests: "SimpleQueue[Request]") -> None:
    while (request := read_frame(stream)) is not None:
        requests.put(request)
    # The parent is gone: nothing is waited for, least of all the solve in the other thread.
    os._exit(0)


def _serve(back_end: BackEnd, request: Request, answers: BinaryIO) -> None:
    scale = math.ldexp(1.0, LARGEST_COST_EXPONENT - math.frexp(float(np.abs(request.program.costs).max()))[1])
    # One answer at a time: some solvers report from threads of their own.
    turn = threading.Lock()

    def send(answer: Progress) -> None:
        with turn:
            write_frame(answers, answer if answer.bound is None else replace(answer, bound=answer.bound / scale))

    # A power of two, so that nothing is rounded.
    program = replace(request.program, costs=request.program.costs * scale)
    send(back_end.solve_program(replace(request, program=program), send))


if __name__ == "__main__":
    main(sys.argv[1])
