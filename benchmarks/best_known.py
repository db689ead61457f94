"""Writes ``instances/best_known.json``: the optima of all windows under every strategy, and the best of those of L1."""

from pathlib import Path

import allocopt
from allocopt.files.best_known import BestKnown, write_best_known

FOLDER = Path("instances")
FAMILIES = ("paper.jsonl", "repo.jsonl", "burst.jsonl")
LARGE = "L1.json.gz"
SOLVERS = {"scas": "auto", "dcas": "dp", "free": "exact"}
"""Who proves an optimum."""
UNPROVED_S = 60.0
"""Seconds for the FREE allocation of ``LARGE``, which is kept without a proof."""


def proved(problem: allocopt.TopologyProblem, strategy: str) -> BestKnown:
    """Solve a window to proof."""
    result = allocopt.solve(problem, strategy, SOLVERS[strategy], 600.0)
    if result.status is not allocopt.Status.OPTIMAL or result.objective is None:
        raise SystemExit(f"{problem.name} is not proved under {strategy}: {result.status}, gap {result.gap}")
    return BestKnown(result.objective, proved=True)


def main() -> None:
    """Solve every window and write the file."""
    values = {
        problem.name: {strategy: proved(problem, strategy) for strategy in SOLVERS}
        for file in FAMILIES
        for problem in allocopt.read_problems(FOLDER / file)
    }
    large = allocopt.read_problems(FOLDER / LARGE)[0]
    found = allocopt.solve(large, "free", "exact", UNPROVED_S).objective
    assert found is not None, "a search for free allocations always has one"
    values[large.name] = {"scas": proved(large, "scas"), "free": BestKnown(found, proved=False)}
    write_best_known(FOLDER / "best_known.json", values)


if __name__ == "__main__":
    main()
