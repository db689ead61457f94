"""Ctrl-C, and SIGTERM with which batch systems cancel a job: what they interrupt, and when it is heard."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SLICE_S = 0.05  # for which a kernel runs, about, before it is seen whether the user wants to interrupt it


def run_in_slices(step: Callable[[int], int], size: int) -> None:
    """Run a kernel to its end, a twentieth of a second at a time, between which Ctrl-C is heard.

    Parameters
    ----------
    step
        Goes on by so many steps, and returns how many it has made: fewer at the end.
    size
        Steps at first.
    """
    while True:
        started = time.perf_counter()
        if step(size) < size:
            return
        elapsed = time.perf_counter() - started
        if elapsed < SLICE_S / 2:
            size *= 2
        elif elapsed > 2 * SLICE_S:
            size = max(1, size // 2)


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """Let SIGTERM raise `KeyboardInterrupt` as Ctrl-C does, unless another handler is set.

    That is for programs, not for libraries, to decide.
    """
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
    """Let interruptions wait, and say whether one came; a second one does not wait.

    A signal that does not raise `KeyboardInterrupt` anyhow is left alone.
    """
    came: list[int] = []
    held = [number for number in SIGNALS if _is_main() and signal.getsignal(number) is signal.default_int_handler]

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


def _is_main() -> bool:
    """Whether this is the main thread, to which signals go."""
    return threading.current_thread() is threading.main_thread()
