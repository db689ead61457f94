"""Ctrl-C that is heard between two steps, so that no worker is forgotten and no row is kept by half."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruption_awaited() -> Iterator[Callable[[], None]]:
    """Let Ctrl-C wait for the next call of what is yielded, which raises `KeyboardInterrupt`; a second does not wait.

    Where Ctrl-C does not raise that anyhow, nothing changes.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
