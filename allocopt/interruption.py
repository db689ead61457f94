"""Ctrl-C, and SIGTERM with which batch systems cancel a job: handlers, and kernels that can be interrupted."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A kernel cannot be interrupted while it runs: after about as long it comes back, and Ctrl-C is heard.
SLICE_S = 0.05
LARGEST_SLICE = 2**40  # units of work, far more than any kernel does in that time


def run_in_slices(step: Callable[[int], int], size: int) -> None:
    """Run a kernel to its end in slices of about `SLICE_S`, so that Ctrl-C can interrupt it between them.

    ``step`` does about so much work, ``size`` at first, and returns how much was done: less only at the end. A unit of
    work must always take about the same time: the size follows the last slices.
    """
    while True:
        started = time.perf_counter()
        if step(size) < size:
            return
        elapsed = time.perf_counter() - started
        if elapsed < SLICE_S / 2:
            # A step that stops early for another reason says nothing about the size.
            size = min(2 * size, LARGEST_SLICE)
        elif elapsed > 2 * SLICE_S:
            size = max(1, size // 2)


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """Make SIGTERM raise `KeyboardInterrupt` as Ctrl-C does, unless a program has set another handler."""
    if not _is_main() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def interruption_held() -> Iterator[Callable[[], bool]]:
    """Hold back the first interruption that would raise `KeyboardInterrupt`, and tell whether it came."""
    came: list[int] = []
    held = [number for number in SIGNALS if _is_main() and signal.getsignal(number) is signal.default_int_handler]

    # Whoever presses Ctrl-C twice does not want to wait for the end of what is held.
    def hold(number: int, frame: FrameType | None) -> None:
        came.append(number)
        release()

    def release() -> None:
        for number in held:
            signal.signal(number, signal.default_int_handler)

    for number in held:
        signal.signal(number, hold)
    try:
        yield lambda: bool(came)
    finally:
        release()


@contextmanager
def interrupted_after() -> Iterator[None]:
    """Raise an interruption at the end of a block, within which C code would lose it or make another error of it."""
    with interruption_held() as came:
        yield
    if came():
        raise KeyboardInterrupt


def _is_main() -> bool:
    # Signals go to the main thread, and only it may set handlers.
    return threading.current_thread() is threading.main_thread()
