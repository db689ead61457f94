"""Runs of the program, as the tests of its commands see them."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run of the program left."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Objects on standard output, which must hold nothing else."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def lines_of_error(self) -> list[str]:
        """Lines on standard error."""
        return self.err.splitlines()

    def refusal(self, code: int) -> str:
        """Return the one line that explains an exit code; nothing else is printed."""
        assert (self.code, self.out) == (code, "")
        (line,) = self.lines_of_error
        assert line.startswith("allocopt: ")
        return line.removeprefix("allocopt: ")


Run = Callable[..., Answer]
Start = Callable[..., "subprocess.Popen[str]"]
