"""Limits of milliseconds and of one second, model building included: who keeps them, and how good the answers are."""

import json
import time
from pathlib import Path

import numpy as np

import allocopt
from allocopt.errors import UsageError
from allocopt.report.table import Cell, aligned_table
from allocopt.solving.solve import check_takes
from allocopt.topology import TopologyProblem
from formulations.backends.child import pool_of
from papers.pages import write_page

LIMIT_S = 1.0
ALLOWED_S = LIMIT_S * 1.05 + 0.05
ENDLESS = {"annealing", "annealing-as-published", "simanneal", "lns", "auto"}
HARDEST = 3
"""Windows of the family ``burst`` that are tried, those with the most idle nodes."""

SHORT_S = (0.001, 0.003, 0.01)
SHORT_SOLVERS = ("auto", "exact", "lns", "lns-prices")
SHORT_WINDOWS, REPEATS = 20, 5
"""Windows of each family that are tried under short limits, and seeds."""


def short_windows() -> list[TopologyProblem]:
    """Read the first windows of the three families."""
    families = [allocopt.read_problems(f"instances/{name}.jsonl") for name in ("paper", "repo", "burst")]
    return [problem for family in families for problem in family[:SHORT_WINDOWS]]


def measure_short(problems: list[TopologyProblem], name: str, limit_s: float) -> list[Cell]:
    """Solve every window under FREE with some seeds; return times in milliseconds and gaps to the best known cost."""
    best_known = json.loads(Path("instances/best_known.json").read_text())
    times, gaps, n_proved = [], [], 0
    for seed in range(REPEATS):
        for problem in problems:
            wall, processor = time.perf_counter(), time.process_time()
            result = allocopt.solve(problem, "free", name, limit_s, seed)
            processor, wall = time.process_time() - processor, time.perf_counter() - wall
            times.append((1e3 * result.runtime_s, 1e3 * wall, 1e3 * processor))
            gaps.append(100.0 * (result.objective / best_known[problem.name]["free"]["objective"] - 1.0))
            n_proved += result.status is allocopt.Status.OPTIMAL
    spans = [float(span(column)) for column in np.array(times).T for span in (np.median, np.max)]
    return [name, f"{1e3 * limit_s:.0f}", *spans, float(np.mean(gaps)), float(np.max(gaps)), n_proved]


def windows() -> list[TopologyProblem]:
    """Read the largest ``burst`` windows, L1, L2 and L3."""
    burst = sorted(allocopt.read_problems("instances/burst.jsonl"), key=lambda problem: -len(problem.idle_nodes))
    large = [allocopt.read_problems(Path(f"instances/{name}.json.gz"))[0] for name in ("L1", "L2", "L3")]
    return burst[:HARDEST] + large


def measure(problem: TopologyProblem, name: str, strategy: str) -> list[Cell]:
    """Solve once with a new solver and no child left; the clock runs around the whole call, verification included."""
    pool_of.cache_clear()
    solver = allocopt.get_solver(name)
    problem = problem.with_strategy(strategy)
    steps = 10**9 if name in ENDLESS else None
    started = time.perf_counter()
    try:
        check_takes(solver, problem)
    except UsageError:
        return [problem.name, name, strategy, "refused", None, time.perf_counter() - started, "yes"]
    result = allocopt.solve(problem, solver=solver, time_limit=LIMIT_S, iterations=steps)
    elapsed = time.perf_counter() - started
    kept = "yes" if elapsed <= ALLOWED_S else "NO"
    return [problem.name, name, strategy, str(result.status), result.objective, elapsed, kept]


def main() -> None:
    """Measure and write the page."""
    tiny = allocopt.read_problems("allocopt/data/tiny.jsonl")[0]
    rows = []
    for name in allocopt.solver_names():
        for strategy in sorted(allocopt.get_solver(name).capabilities.strategies):
            allocopt.solve(tiny, strategy, name, 5.0)
            rows += [measure(problem, name, strategy) for problem in windows()]
    short = short_windows()
    for name in SHORT_SOLVERS:
        for problem in short:
            allocopt.solve(problem, "free", name, 0.05)
    short_rows = [measure_short(short, name, limit_s) for limit_s in SHORT_S for name in SHORT_SOLVERS]
    late = [row for row in rows if row[-1] != "yes"]
    header = ("window", "solver", "strategy", "answer", "cost", "seconds", "kept")
    short_header = (
        "solver",
        "limit, ms",
        "runtime_s",
        "max",
        "wall",
        "max",
        "processor",
        "max",
        "gap, %",
        "max",
        "proved",
    )
    write_page(
        "time_limits",
        "Limits of milliseconds and of one second",
        f"First, short limits: {len(short)} windows, {SHORT_WINDOWS} each of the families `paper`, `repo` and `burst`, "
        f"under FREE, each with {REPEATS} seeds. Times are in milliseconds, median and largest: `runtime_s` of the "
        "result, and wall clock and processor time around the whole call of `allocopt.solve`, verification included; "
        "on a machine that does other work besides, the last one says what the solver itself took. Gaps are to the "
        "best known cost, in the mean and at most.\n\n"
        f"Then every solver on every window that it takes, with a limit of {LIMIT_S:.0f} s: allowed are "
        f"{ALLOWED_S:.2f} s, and the clock runs around the whole call of `allocopt.solve`, verification "
        "included. The children of earlier "
        "solves are ended, so that the start of one counts; kernels are compiled. Searches with a step limit are asked "
        "for 10^9 steps, so that only the clock ends them. A refusal is stated with its time.",
        [
            aligned_table(short_header, short_rows, (None, None, *(2,) * 6, 3, 3, None)),
            aligned_table(header, rows, (None, None, None, None, 1, 3, None)),
            f"{len(late)} of {len(rows)} were late.",
        ],
    )


if __name__ == "__main__":
    main()
