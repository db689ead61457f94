"""Writes ``instances/best_known.json``: the optima of windows, knapsacks and co-allocations, and the best of L1."""

from pathlib import Path

import allocopt
from allocopt.solving.result import EQUAL_RELATIVE
from allocopt.solving.solution_files import NO_STRATEGY, BestKnown, BestKnownValues, write_best_known
from allocopt.topology import TopologyProblem
from papers.pages import page_parser

FOLDER = Path("instances")
FAMILIES = ("paper.jsonl", "repo.jsonl", "burst.jsonl")
LARGE = "L1.json.gz"
KNAPSACKS, COALLOCATIONS = "knapsacks.jsonl", "coallocations.jsonl"
SOLVERS = {"scas": "auto", "dcas": "dp", "free": "exact"}
"""Solver that proves the optimum, by strategy."""
UNPROVED_S = 60.0
"""Time limit in seconds for the FREE allocation of ``LARGE``, which is stored without a proof."""


def proved(problem: TopologyProblem, strategy: str) -> BestKnown:
    result = allocopt.solve(problem, strategy=strategy, solver=SOLVERS[strategy], time_limit=600.0)
    if result.status is not allocopt.Status.OPTIMAL or result.objective is None:
        raise SystemExit(f"{problem.name} is not proved under {strategy}: {result.status}, gap {result.gap}")
    return BestKnown(result.objective, proved=True)


def proved_by_two(problem: allocopt.knapsack.KnapsackProblem | allocopt.coallocation.CoallocationProblem) -> BestKnown:
    """Solve a knapsack or a co-allocation exactly, by two solvers that must agree."""
    solvers = ("auto", "scip") if isinstance(problem, allocopt.knapsack.KnapsackProblem) else ("cp-sat", "scip")
    first, second = (allocopt.solve(problem, solver=solver, time_limit=600.0) for solver in solvers)
    if {first.status, second.status} != {allocopt.Status.OPTIMAL}:
        raise SystemExit(f"{problem.name} is not proved: {first.status}, {second.status}")
    assert first.objective is not None
    assert second.objective is not None
    assert abs(first.objective - second.objective) <= EQUAL_RELATIVE * abs(first.objective)
    return BestKnown(first.objective, proved=True)


def without_strategy(file: str) -> BestKnownValues:
    """Solve every knapsack or co-allocation of a file."""
    problems = allocopt.read_problems(FOLDER / file)
    return {problem.name: {NO_STRATEGY: proved_by_two(problem)} for problem in problems}


def main() -> None:
    page_parser(__doc__).parse_args()
    values = {
        problem.name: {strategy: proved(problem, strategy) for strategy in SOLVERS}
        for file in FAMILIES
        for problem in allocopt.read_problems(FOLDER / file)
    }
    large = allocopt.read_problems(FOLDER / LARGE)[0]
    found = allocopt.solve(large, strategy="free", solver="exact", time_limit=UNPROVED_S).objective
    assert found is not None, "a search for free allocations always has one"
    values[large.name] = {"scas": proved(large, "scas"), "free": BestKnown(found, proved=False)}
    write_best_known(FOLDER / "best_known.json", values | without_strategy(KNAPSACKS) | without_strategy(COALLOCATIONS))


if __name__ == "__main__":
    main()
