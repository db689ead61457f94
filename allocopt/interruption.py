"""Handling of Ctrl-C and of SIGTERM (with which batch systems cancel jobs), and interruptible kernels."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A kernel cannot be interrupted while it runs. So it returns about this often, and Ctrl-C is handled then.
SLICE_S = 0.05
LARGEST_SLICE = 2**40  # units of work; far more than a kernel does in that time


def run_in_slices(step: Callable[[int], int], size: int) -> None:
    """Run a kernel to its end in slices of about `SLICE_S`, so that Ctrl-C can interrupt it between slices.

    ``step`` takes the amount of work of a slice, at first ``size``, and returns the amount that was done, which is less
    only at the end. The amount is adapted to the time of the slices, so all units of work must take about equally long.
    """
    while True:
        started = time.perf_counter()
        if step(size) < size:
            return
        elapsed = time.perf_counter() - started
        if elapsed < SLICE_S / 2:
            # Bounded, because steps that return early would double the size forever.
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
    """Hold back the first signal that would raise `KeyboardInterrupt`; yield a function that tells whether it came."""
    came: list[int] = []
    held = [number for number in SIGNALS if _is_main() and signal.getsignal(number) is signal.default_int_handler]

    # A second Ctrl-C is not held back, so that users can end the block.
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
    """Delay an interruption to the end of the block, whose C code would lose it or raise another error."""
    with interruption_held() as came:
        yield
    if came():
        raise KeyboardInterrupt


def _is_main() -> bool:
    # Only the main thread receives signals and may set handlers.
    return threading.current_thread() is threading.main_thread()
