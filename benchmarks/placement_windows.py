"""Windows of 200 jobs on 1,000 shared nodes: jobs left out, hop cost and gap by solver; proofs of small windows."""

import numpy as np

import allocopt
from allocopt.cluster.options import FatTreeOptions
from allocopt.problems.placement.generate import synthetic_placement
from allocopt.problems.placement.problem import PlacementProblem
from allocopt.report.words import Cell, aligned_table
from papers.pages import page_parser, write_page

RULES, LIMITS_S = ("first-fit", "cons-tres"), (1.0, 10.0)
EXACT, EXACT_S = ("highs", "auto"), 60.0
WHOLE_S = 90.0
SMALL = ((8, FatTreeOptions(2, 2, 4)), (16, FatTreeOptions(3, 3, 5)), (32, FatTreeOptions(4, 3, 8)))


def windows(count: int, jobs: int, busy: float, several: float, tree: FatTreeOptions) -> list[PlacementProblem]:
    rngs = np.random.default_rng(22).spawn(count)
    return [synthetic_placement("shared", rng, jobs, busy, several, tree) for rng in rngs]


def answers(problems: list[PlacementProblem], name: str, limit_s: float) -> list[allocopt.Result]:
    """Solve problems with one warm solver, verified."""
    solver = allocopt.get_solver(name, None, "placement")
    # The first solve compiles kernels, or starts the process of a back end.
    allocopt.solve(windows(1, 8, 0.5, 0.3, SMALL[0][1])[0], solver=solver, time_limit=60.0)
    return [allocopt.solve(problem, solver=solver, time_limit=limit_s) for problem in problems]


def left_out(problem: PlacementProblem, result: allocopt.Result) -> int:
    return sum(not places for places in result.found().of_jobs)


def hops(problem: PlacementProblem, result: allocopt.Result) -> float:
    assert problem.left_out_cost is not None
    return (result.objective or 0.0) - left_out(problem, result) * problem.left_out_cost


def large(count: int, busy: float, several: float) -> str:
    """Measure every solver on windows of the cluster of 1,000 nodes; gaps are to the best bound of all solvers."""
    problems = windows(count, 200, busy, several, FatTreeOptions())
    found = {(name, 10.0): answers(problems, name, 10.0) for name in RULES}
    found |= {(name, limit): answers(problems, name, limit) for name in ("lns",) for limit in LIMITS_S}
    bounds = [max(result.bound or 0.0 for result in results) for results in zip(*found.values(), strict=True)]
    rows: list[list[Cell]] = []
    for (name, limit), results in found.items():
        pairs = list(zip(problems, results, strict=True))
        gaps = [100 * (1 - bound / (one.objective or 1.0)) for bound, one in zip(bounds, results, strict=True)]
        cells: list[Cell] = [
            name,
            "-" if name in RULES else f"{limit:g} s",
            float(np.mean([left_out(*pair) for pair in pairs])),
            float(np.mean([hops(*pair) for pair in pairs])) / 1000,
            float(np.median(gaps)),
            max(gaps),
            sum(result.status is allocopt.Status.OPTIMAL for result in results),
            1e3 * float(np.median([result.runtime_s for result in results])),
        ]
        rows.append(cells)
    header = ("solver", "limit", "left out", "hop cost", "gap % (median)", "max", "proved", "median ms")
    return aligned_table(header, rows, (None, None, 1, 1, 3, 3, None, 0))


def small(count: int) -> str:
    """Measure the time to proof, and the distances of the search and of its bound from the optimum."""
    rows: list[list[Cell]] = []
    for jobs, tree in SMALL:
        problems = windows(count, jobs, 0.5, 0.3, tree)
        by_solver = {name: answers(problems, name, EXACT_S) for name in EXACT}
        best = [result.objective or 0.0 for result in by_solver[EXACT[0]]]
        searched = answers(problems, "lns", 1.0)
        is_best = [abs((one.objective or 0.0) - cost) <= 1e-6 * cost for one, cost in zip(searched, best, strict=True)]
        below = [100 * (1 - (one.bound or 0.0) / max(cost, 1e-9)) for one, cost in zip(searched, best, strict=True)]
        for name, results in by_solver.items():
            times = [1e3 * result.runtime_s for result in results]
            proved = sum(result.status is allocopt.Status.OPTIMAL for result in results)
            assert proved < count or np.allclose([one.objective or 0.0 for one in results], best), "optima differ"
            size = f"{jobs}, {tree.tree().size}"
            rows.append([size, name, proved, float(np.median(times)), max(times), sum(is_best), float(np.mean(below))])
    header = (
        "jobs, nodes",
        "solver",
        "proved",
        "median ms",
        "max ms",
        "lns in 1 s optimal",
        "its bound below %",
    )
    return aligned_table(header, rows, (None, None, None, 0, 0, None, 2))


def whole(count: int) -> str:
    """Prove the first of the windows on 1,000 nodes in which not all jobs fit."""
    problems = windows(count, 200, 0.7, 0.2, FatTreeOptions())
    pairs = list(zip(problems, answers(problems, "lns", 10.0), answers(problems, "auto", WHOLE_S), strict=True))
    rows: list[list[Cell]] = []
    for number, (problem, searched, result) in enumerate(pairs, 1):
        above = 100 * ((searched.objective or 0.0) / (result.bound or 1.0) - 1)
        counts = left_out(problem, searched), left_out(problem, result)
        rows.append([number, *counts, above, str(result.status), 100 * (result.gap or 0.0), result.runtime_s])
    header = ("window", "left out by lns in 10 s", "by auto", "lns above its bound %", "status", "gap %", "s")
    return aligned_table(header, rows, (None, None, None, 4, None, 4, 1))


def main() -> None:
    arguments = page_parser(__doc__, "few windows").parse_args()
    count = 2 if arguments.quick else 6
    tables = [
        f"## Half of the cores in use, a fifth of the jobs on several nodes\n\n{large(count, 0.5, 0.2)}",
        f"## As at UB-HPC, with 2 % of the jobs on several nodes\n\n{large(count, 0.5, 0.02)}",
        f"## More jobs than fit: 70 % of the cores in use\n\n{large(count, 0.7, 0.2)}",
        f"## The same to proof, by `auto` in {WHOLE_S:g} s at most\n\n{whole(1 if arguments.quick else 2)}",
        f"## Small windows, to proof\n\n{small(count)}",
    ]
    write_page(
        "placement",
        "Placement on shared nodes: gap and time",
        "If nearly all of 200 jobs fit 1,000 nodes, `lns` is within 0.12 % of its bound after 1 s and proves 10 of "
        "12 windows; Slurm's rule costs 6 % more in hops, first fit 34 %. If 70 % of the cores are in use, it leaves "
        "out 14 jobs, Slurm's rule 20. Its gap, 4.1 % in the median after 10 s, comes from the bound: with more "
        "time, `auto` proves both windows that were tried, in 17 s, with the answers of `lns`.",
        tables,
        f"Windows of `allocopt generate placement`: 200 jobs on 10 x 10 x 10 nodes of 32 to 40 cores, sizes as "
        f"in a week of UB-HPC, {count} per table, seeds spawned from 22, one thread, answers verified. A job left out "
        "costs more than all hops together, so that few left out come first. Hop cost is in thousands; gaps are to "
        "the best bound of all solvers.",
        is_quick=arguments.quick,
    )


if __name__ == "__main__":
    main()
