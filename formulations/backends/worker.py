"""``python -m allocopt.formulations.backends.worker MODULE``: the child process that serves requests to a back end.

Requests and answers use the socket that is its standard input. The process ends when the socket closes, even during a
solve, so that it never outlives its parent.
"""

import importlib
import math
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from queue import SimpleQueue

import numpy as np

from allocopt.formulations.backends.program import Progress, Request
from allocopt.interruption import SIGNALS

# Costs are multiplied by a power of two, which rounds nothing, so that the largest is just below two to this power.
LARGEST_COST_EXPONENT = 16


def main(module: str) -> None:
    """Serve requests until the parent closes its end of the socket."""
    # Signals may reach all processes of the group; only the parent decides what they mean.
    for interruption in SIGNALS:
        signal.signal(interruption, signal.SIG_IGN)
    # Standard output is the same socket, so native code must not print to it.
    parent = Connection(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    requests: SimpleQueue[Request] = SimpleQueue()

    def receive() -> None:
        with suppress(EOFError, OSError):
            while True:
                requests.put(parent.recv())
        # The parent has ended, so exit without waiting for the solve in the other thread.
        os._exit(0)

    threading.Thread(target=receive, daemon=True).start()
    back_end = importlib.import_module(f"allocopt.formulations.backends.{module}")
    parent.send(back_end.VERSION)
    # Send one answer at a time, because some solvers report from their own threads.
    turn = threading.Lock()
    while True:
        request = requests.get()
        scale = math.ldexp(1.0, LARGEST_COST_EXPONENT - math.frexp(float(np.abs(request.program.costs).max()))[1])

        def send(answer: Progress, scale: float = scale) -> None:
            with turn:
                parent.send(answer if answer.bound is None else replace(answer, bound=answer.bound / scale))

        # The scale is a power of two, so that nothing is rounded.
        program = replace(request.program, costs=request.program.costs * scale)
        send(back_end.solve_program(replace(request, program=program), send))


if __name__ == "__main__":
    main(sys.argv[1])
