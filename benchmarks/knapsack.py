"""Knapsacks of the size of Theta: `dp` beside integer programs, agreement, and the policies on Theta's trace."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import allocopt
from allocopt.formulations.knapsack import _add_counted_jobs, _Items
from allocopt.problems.knapsack.generate import synthetic_knapsack
from allocopt.problems.knapsack.packing import Gains
from allocopt.report.words import Cell, aligned_table
from papers.pages import page_parser, write_page

NODES, WINDOW = 4360, 50
TRACE = Path("traces") / "Theta-2018-01.swf.gz"
REPEAT = 3
"""Number of times that `dp` solves a problem; the least time counts, because other processes may disturb it."""
INTEGER = ("cp-sat", "scip", "highs")
POLICIES = (
    ("fcfs, easy", allocopt.simulator.ListScheduler(allocopt.get_policy("fcfs"), allocopt.simulator.Backfill.EASY)),  # type: ignore[arg-type]
    ("binpacking", allocopt.get_policy("binpacking")),
    ("random-runnable", allocopt.get_policy("random-runnable")),
    ("optimization, capability", allocopt.simulator.OptimizationScheduler()),
    ("optimization, capacity", allocopt.simulator.OptimizationScheduler(objective="capacity")),
)


def windows(count: int, **options: object) -> list[allocopt.knapsack.KnapsackProblem]:
    """Draw problems; equal options give equal problems."""
    rngs = np.random.default_rng(41).spawn(count)
    return [synthetic_knapsack("knapsack", rng, NODES, WINDOW, **options) for rng in rngs]  # type: ignore[arg-type]


def timed(
    problems: Sequence[allocopt.knapsack.KnapsackProblem], name: str, repeat: int = 1
) -> tuple[list[float], list[float], int]:
    """Solve problems with one warm solver; return the least milliseconds, the objectives, and the number of proofs."""
    solver = allocopt.get_solver(name, None, problems[0].kind)
    allocopt.solve(problems[0], solver=solver, time_limit=60.0)
    times, objectives, proved = [], [], 0
    for problem in problems:
        least = np.inf
        for _ in range(repeat):
            started = time.perf_counter()
            result = allocopt.solve(problem, solver=solver, time_limit=60.0)
            least = min(least, 1e3 * (time.perf_counter() - started))
        times.append(least)
        assert result.objective is not None
        objectives.append(result.objective)
        proved += result.status is allocopt.Status.OPTIMAL
    return times, objectives, proved


def one_resource(count: int, few: int) -> str:
    """Measure `dp` on many windows, and integer programs on the first of them."""
    rows: list[list[Cell]] = []
    for reward in allocopt.knapsack.Reward:
        for load in (0.0, 0.5, 0.9):
            problems = windows(count, objective=reward.value, load=load)
            times, objectives, proved = timed(problems, "dp", REPEAT)
            assert proved == count, f"{reward}: {proved} of {count} are proved"
            line: list[Cell] = [str(reward), load, float(np.mean(times)), max(times)]
            for name in INTEGER:
                others, values, _ = timed(problems[:few], name)
                line.append(float(np.mean(others)) / float(np.mean(times[:few])))
                pairs = zip(values, objectives, strict=False)
                assert all(abs(a - b) <= 1e-9 * abs(b) for a, b in pairs), f"{name} differs from dp"
            rows.append(line)
    ratios = [f"{name} / dp" for name in INTEGER]
    header = ["objective", "load", "mean ms", "max ms", *ratios]
    return aligned_table(header, rows, (None, 1, 2, 2, 0, 0, 0))


def whole_table(count: int) -> str:
    """Fill the whole table D[k][c] of 50 jobs that together need about 4,360 nodes, so that k and c become large."""
    times = []
    for rng in np.random.default_rng(43).spawn(count):
        jobs = tuple(
            allocopt.knapsack.KnapsackJob(str(job), {"nodes": int(size)}, float(wait))
            for job, (size, wait) in enumerate(
                zip(rng.integers(80, 95, WINDOW), rng.exponential(1e4, WINDOW), strict=True)
            )
        )
        problem = allocopt.knapsack.KnapsackProblem({"nodes": NODES}, jobs)
        items = _Items.of(Gains.of(problem))
        least = np.inf
        for _ in range(REPEAT):
            started = time.perf_counter()
            best = np.full((WINDOW + 1, NODES + 1), -np.inf)
            best[0, 0] = 0.0
            taken = np.zeros((items.words, WINDOW + 1, NODES + 1), dtype=np.uint64)
            _add_counted_jobs(best, taken, items.sizes, items.gains, 0, WINDOW)
            least = min(least, 1e3 * (time.perf_counter() - started))
        times.append(least)
    return f"{np.mean(times):.2f} ms on average, {max(times):.2f} ms at most, tables included, over {count} windows"


def several(few: int) -> str:
    """Measure integer programs with three resources, and with six slots."""
    rows: list[list[Cell]] = []
    for what, options in (("three resources", {"resources": 3}), ("six slots", {"slots": 6, "load": 0.8})):
        for reward in allocopt.knapsack.Reward:
            problems = windows(few, objective=reward.value, **options)
            values: list[list[float]] = []
            line: list[Cell] = [f"{what}, {reward}"]
            for name in INTEGER:
                times, objectives, proved = timed(problems, name)
                assert proved == few, f"{name}: {proved} of {few} are proved"
                values.append(objectives)
                line.append(float(np.median(times)))
            assert np.allclose(values, values[0], rtol=1e-9), "the programs differ"
            rows.append(line)
    header = ("problem", *(f"{name}, ms" for name in INTEGER))
    return aligned_table(header, rows, (None, *(1 for _ in header[1:])))


def policies(trace: Path) -> str:
    """Simulate the paper's baselines on the trace of its machine."""
    workload = allocopt.read_workload(trace)
    rows: list[list[Cell]] = []
    for name, scheduler in POLICIES:
        started = time.perf_counter()
        metrics = allocopt.measure(allocopt.simulate(workload, NODES, scheduler))  # type: ignore[arg-type]
        seconds = time.perf_counter() - started
        wait, slowdown = metrics.jobs.wait_s, metrics.jobs.bounded_slowdown
        rows.append([name, wait.mean / 3600, wait.maximum / 86400, slowdown.mean, seconds])
    header = ("policy", "mean wait h", "max wait d", "mean bounded slowdown", "simulated in s")
    return aligned_table(header, rows, (None, 2, 2, 1, 2))


def main() -> None:
    arguments = page_parser(__doc__, "few windows", data="traces/").parse_args()
    quick = arguments.quick
    count, few = (10, 2) if quick else (200, 10)
    tables = [
        f"## One resource\n\n{one_resource(count, few)}",
        f"The whole table D[k][c] of {WINDOW} jobs of 80 to 94 nodes and {NODES:,} free ones, which is filled if "
        f"greedy selections and bounds exclude nothing: {whole_table(count)}.",
        f"## Several resources, slots\n\n{several(few)}",
    ]
    if (arguments.data / TRACE).exists():
        tables.append(f"## The paper's baselines on Theta's trace\n\n{policies(arguments.data / TRACE)}")
    write_page(
        "knapsack",
        "Knapsacks of the size of Theta",
        f"`dp` proves knapsacks of {WINDOW} jobs on {NODES:,} nodes in 0.2 to 1 ms, 11 to 123 times as fast as "
        "integer programs, which find the same values; with several resources these take 6 to 117 ms. On Theta's "
        "trace jobs wait longer under the paper's Optimization than under FCFS with EASY.",
        tables,
        f"Synthetic problems ({WINDOW} jobs of log-uniform sizes; {NODES:,} nodes, of which a share, the load, is in "
        f"use), {count} for `dp` and the first {few} of them for integer programs, whose times are given as ratios of "
        f"means, or as median and maximum. `dp` is timed {REPEAT} times and the least time counts; verification "
        "included, kernels and child processes are warm, one thread.",
        is_quick=quick,
    )


if __name__ == "__main__":
    main()
