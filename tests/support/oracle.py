"""Windows whose optima under every strategy were proved elsewhere; the optima are rounded to 6 decimals."""

import json
from dataclasses import dataclass
from pathlib import Path

from allocopt.problems.base import Strategy
from allocopt.problems.instances import problem_from_object
from allocopt.problems.topology import TopologyProblem

ROUNDING = 1e-6
"""How far a stated optimum may lie from the exact one, and room for the last bits of a sum of some 1e6."""


@dataclass(frozen=True, slots=True)
class OracleWindow:
    """A window and its optimum under each strategy."""

    problem: TopologyProblem
    optimum: dict[Strategy, float]


def read_oracle(path: Path) -> list[OracleWindow]:
    """Read the windows of an oracle file."""
    return [
        OracleWindow(
            problem_from_object(window["instance"], path),
            {Strategy(name): float(value) for name, value in window["optimum"].items()},
        )
        for window in json.loads(path.read_text(encoding="utf-8"))["windows"]
    ]
