"""Makes solvers for the commands: options from text, and a word to the user when kernels have to be compiled."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from allocopt.errors import UsageError
from allocopt.solving.protocol import Solver
from allocopt.solving.registry import get_solver


def load_solver(name: str, options: Mapping[str, Any] | None = None) -> Solver:
    """Make a solver, saying so if its kernels have to be compiled first."""
    with compilation_announced():
        return get_solver(name, options)


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """Turn ``NAME=VALUE`` texts into solver options; a value is JSON (a number, true, false) or else text."""
    options: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"option {text!r} must look like NAME=VALUE")
        try:
            options[name.replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            options[name.replace("-", "_")] = value
    return options


@contextmanager
def compilation_announced() -> Iterator[None]:
    """Say on stderr, once, that kernels are being compiled, if they are."""
    from numba.core import event

    class Announcement(event.Listener):
        """Prints at the first compilation; loading a compiled kernel from disk is none."""

        said = False

        def on_start(self, event: Any) -> None:
            """Hear that a compilation begins."""
            if not self.said:
                print("allocopt: compiling kernels, once on this machine ...", file=sys.stderr)
            self.said = True

        def on_end(self, event: Any) -> None:
            """Hear that a compilation ends."""

    with event.install_listener("numba:compile", Announcement()):
        yield
