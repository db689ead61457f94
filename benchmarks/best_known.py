"""Writes ``instances/best_known.json``: the SCAS optima, proved by ``dp``, and by ``highs`` where that is too large."""

from pathlib import Path

import allocopt
from allocopt.files.best_known import BestKnown, write_best_known

FOLDER = Path("instances")
FILES = ("paper.jsonl", "repo.jsonl", "burst.jsonl", "L1.json.gz")


def main() -> None:
    """Solve every window to proof and write the file."""
    values = {}
    for problem in (problem for file in FILES for problem in allocopt.read_problems(FOLDER / file)):
        result = allocopt.solve(problem, "scas", "auto", 600.0)
        if result.status is not allocopt.Status.OPTIMAL or result.objective is None:
            raise SystemExit(f"{problem.name} is not proved: {result.status}, gap {result.gap}")
        values[problem.name] = {"scas": BestKnown(result.objective, proved=True)}
    write_best_known(FOLDER / "best_known.json", values)


if __name__ == "__main__":
    main()
