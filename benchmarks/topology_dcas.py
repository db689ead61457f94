"""Gaps of searches to the DCAS optimum, and times: `lns` and `annealing`, and `lns` on large windows."""

import time
from collections.abc import Iterator

import numpy as np

import allocopt
from allocopt.report.words import Cell, aligned_table
from allocopt.topology import TopologyProblem
from papers.pages import page_parser, write_page

FAMILIES = ("paper", "repo", "burst")
SEEDS = (0, 1, 2)
SEARCHES = {"lns": (1000, 5000), "annealing": (10_000,)}
LARGE = ("L1", "L2", "L3")
LIMITS_S = (0.1, 1.0, 10.0)


def row(family: str, problems: list[TopologyProblem], best: list[float], name: str, steps: int) -> list[Cell]:
    """Measure a search of ``steps`` steps on the windows of a family."""
    solver = allocopt.get_solver(name)
    gaps, times = [], []
    for problem, optimum in zip(problems, best, strict=True):
        for seed in SEEDS:
            started = time.perf_counter()
            result = allocopt.solve(
                problem, strategy="dcas", solver=solver, time_limit=None, seed=seed, iterations=steps
            )
            times.append(1e3 * (time.perf_counter() - started))
            gaps.append(100 * ((result.objective or np.inf) / optimum - 1))
    mean_gap, mean_ms = float(np.mean(gaps)), float(np.mean(times))
    return [family, name, steps, mean_gap, max(gaps), mean_ms]


def family_rows() -> Iterator[list[Cell]]:
    """Measure all searches on all families, against optima proved by `dp`."""
    for family in FAMILIES:
        problems = allocopt.read_problems(f"instances/{family}.jsonl")
        results = [allocopt.solve(problem, strategy="dcas", solver="dp", time_limit=None) for problem in problems]
        assert all(result.status is allocopt.Status.OPTIMAL for result in results), "an optimum is not proved"
        best = [float(result.objective or 0.0) for result in results]
        allocopt.solve(problems[0], strategy="dcas", solver="lns", time_limit=None, iterations=10)
        for name, all_steps in SEARCHES.items():
            for steps in all_steps:
                yield row(family, problems, best, name, steps)


def large_rows() -> Iterator[list[Cell]]:
    """Measure `lns` on the large windows under time limits."""
    for name in LARGE:
        (problem,) = allocopt.read_problems(f"instances/{name}.json.gz")
        sequential = allocopt.solve(problem, strategy="dcas", solver="sequential").objective or 0.0
        for limit in LIMITS_S:
            result = allocopt.solve(problem, strategy="dcas", solver="lns", time_limit=limit)
            cost = result.objective or 0.0
            yield [name, limit, result.runtime_s, cost, 100 * (1 - cost / sequential)]


def main() -> None:
    quick = page_parser(__doc__, "only the first table").parse_args().quick
    header = ("family", "solver", "steps", "mean gap %", "largest gap %", "mean ms")
    table = aligned_table(header, list(family_rows()), (None, None, 0, 4, 3, 2))
    if quick:
        print(table)
        return
    header = ("window", "limit s", "seconds", "cost", "below sequential %")
    write_page(
        "topology_dcas",
        "How near a search comes to the DCAS optimum",
        "`lns` with 1,000 steps is on average 0.04 to 0.05 % above the DCAS optimum in 4 ms, annealing with 10,000 "
        "steps 0.23 to 0.82 % in 16 to 22 ms. On large windows `lns` is 12 to 23 % below sequential allocation in 10 "
        "s.",
        [
            table,
            "## `lns` on large windows",
            aligned_table(header, list(large_rows()), (None, 1, 3, 0, 2)),
        ],
        f"Seeds {SEEDS}, times of the whole call with verification, kernels warm, one thread. Gaps are to optima that "
        "`dp` proves.",
    )


if __name__ == "__main__":
    main()
