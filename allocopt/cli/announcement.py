"""A word to the user while kernels are compiled."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def compilation_announced() -> Iterator[None]:
    """Say on stderr, once, that kernels are being compiled, if they are; decorates a command."""
    from numba.core import event

    class Announcement(event.Listener):
        """Prints at the first compilation; loading a compiled kernel from disk is none."""

        said = False

        def on_start(self, event: Any) -> None:
            """Hear that a compilation begins."""
            if not self.said:
                print("allocopt: compiling kernels, once on this machine ...", file=sys.stderr, flush=True)
            self.said = True

        def on_end(self, event: Any) -> None:
            """Hear that a compilation ends."""

    with event.install_listener("numba:compile", Announcement()):
        yield
