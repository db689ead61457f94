"""Co-allocation windows of 200 hosts and 100 guests: time, gap, several guests."""

import argparse
import time
from collections.abc import Sequence

import numpy as np

import allocopt
from allocopt.problems.coallocation.generate import synthetic_coallocation
from allocopt.problems.coallocation.pairs import Pairs
from allocopt.problems.coallocation.problem import CoallocationObjective
from allocopt.report.table import Cell, aligned_table
from formulations.backends import cp_sat, highs, scip
from formulations.backends.protocol import Request
from formulations.coallocation import CoallocationModel
from papers.pages import write_page

HOSTS, GUESTS, LIMIT_S = 200, 100, 1.0
SOLVERS = ("assignment", "scip", "highs", "cp-sat", "greedy", "static-50")
SEVERAL = ("scip", "highs", "cp-sat", "greedy")
BACK_ENDS = {"scip": scip, "highs": highs, "cp-sat": cp_sat}


def windows(count: int, hosts: int, guests: int, **options: object) -> list[allocopt.coallocation.CoallocationProblem]:
    """Draw problems; the same options give the same ones."""
    rngs = np.random.default_rng(91).spawn(count)
    return [synthetic_coallocation("coallocation", rng, hosts, guests, **options) for rng in rngs]  # type: ignore[arg-type]


def solved(
    problems: Sequence[allocopt.coallocation.CoallocationProblem], name: str, limit_s: float
) -> tuple[list[allocopt.Result], int]:
    """Solve problems with one warm solver, verified; return the answers and how many are proved."""
    solver = allocopt.get_solver(name, None, problems[0].kind)
    allocopt.solve(problems[0], solver=solver, time_limit=min(limit_s, 1.0))
    results = [allocopt.solve(problem, solver=solver, time_limit=limit_s) for problem in problems]
    return results, sum(result.status is allocopt.Status.OPTIMAL for result in results)


def one_guest(count: int) -> str:
    """Every solver within one second, beside the optimum of the assignment."""
    rows: list[list[Cell]] = []
    for objective in CoallocationObjective:
        problems = windows(count, HOSTS, GUESTS, objective=objective)
        best = [result.objective for result in solved(problems, "assignment", 60.0)[0]]
        for name in SOLVERS:
            results, proved = solved(problems, name, LIMIT_S)
            to_best = [100 * (b - r.objective) / b for b, r in zip(best, results, strict=True)]  # type: ignore[operator]
            gaps = [100 * result.gap for result in results if result.gap is not None]
            times = [1e3 * result.runtime_s for result in results]
            widest = f"{max(gaps):.3f}" if gaps else "-"
            rows.append(
                [str(objective), name, f"{proved} of {count}", max(to_best), widest, float(np.mean(times)), max(times)]
            )
    header = ("objective", "solver", "proved", "to optimum % (max)", "own gap % (max)", "mean ms", "max ms")
    return aligned_table(header, rows, (None, None, None, 3, None, 1, 1))


def programs(count: int) -> str:
    """Solve the program of one guest a host itself, without a start or a bound, in the process."""
    rows: list[list[Cell]] = []
    problems = windows(count, HOSTS, GUESTS)
    best = [result.objective for result in solved(problems, "assignment", 60.0)[0]]
    for name, back_end in BACK_ENDS.items():
        times, wrong, columns = [], 0.0, []
        for problem, optimum in zip(problems, best, strict=True):
            model = CoallocationModel(problem, Pairs.of(problem))
            started = time.perf_counter()
            outcome = back_end.solve_program(Request(model.program(), 60.0), lambda progress: None)
            times.append(1e3 * (time.perf_counter() - started))
            found = model.decode(outcome.chosen)  # type: ignore[arg-type]
            wrong = max(wrong, abs(problem.objective(found) - optimum))  # type: ignore[arg-type, operator]
            columns.append(len(model.x))
        rows.append([name, max(columns), float(np.mean(times)), max(times), f"{wrong:.0e}"])
    header = ("program in", "columns (max)", "mean ms", "max ms", "largest difference to the assignment")
    return aligned_table(header, rows, (None, None, 1, 1, None))


def several_guests(count: int) -> str:
    """Up to three guests a host, ten seconds."""
    rows: list[list[Cell]] = []
    for hosts, guests in ((10, 10), (20, 20)):
        problems = windows(count, hosts, guests, max_guests=3)
        values = []
        for name in SEVERAL:
            results, proved = solved(problems, name, 10.0)
            gaps = [100 * (result.gap or 0.0) for result in results]
            times = [1e3 * result.runtime_s for result in results]
            rows.append(
                [f"{hosts} x {guests}", name, f"{proved} of {count}", max(gaps), float(np.median(times)), max(times)]
            )
            if proved == count:
                values.append([result.objective for result in results])
        spread = np.ptp(np.array(values, dtype=float), axis=0).max() if len(values) > 1 else float("nan")
        rows[-1].append(f"{spread:.0e}")
        for row in rows[-len(SEVERAL) : -1]:
            row.append("")
    header = ("hosts x guests", "solver", "proved", "gap % (max)", "median ms", "max ms", "largest difference")
    return aligned_table(header, rows, (None, None, None, 3, 1, 1, None))


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few windows; the page is not written")
    arguments = parser.parse_args()
    count = 2 if arguments.quick else 10
    tables = [
        f"## One guest a host\n\n{one_guest(count)}",
        f"The program of `capacity` itself, solved to proof without a start or a bound from elsewhere:\n\n"
        f"{programs(count)}",
        f"## Up to three guests a host\n\n{several_guests(count)}",
    ]
    if arguments.quick:
        print("\n\n".join(tables))
        return
    write_page(
        "coallocation",
        "Co-allocation: time and gap",
        f"Windows of {HOSTS} hosts and {GUESTS} guests of the ASAX paper's workflows, {count} per line, seeds spawned "
        f"from 91, limit {LIMIT_S:g} s (several guests: 10 s), one thread, solvers warm, answers verified. `to "
        "optimum` is against the assignment's proven optimum, `own gap` against the solver's own bound.",
        tables,
    )


if __name__ == "__main__":
    main()
