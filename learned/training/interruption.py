"""Ctrl-C that waits for the end of what must not be cut in two."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruption_held() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C wait, and say whether it came; a second one does not wait.

    Where Ctrl-C does not raise `KeyboardInterrupt` anyhow, nothing changes.
    """
    came = []

    def hold(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if not _raises():
        yield lambda: False
        return
    signal.signal(signal.SIGINT, hold)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _raises() -> bool:
    """Whether Ctrl-C raises `KeyboardInterrupt` here: in the main thread, unless another handler is set."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
