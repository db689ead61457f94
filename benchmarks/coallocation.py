"""Co-allocation windows of 200 hosts and 100 guests: time, gap, several guests, and measured pairs of real jobs."""

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from page import write_page

import allocopt
from allocopt.arrays import IntArray
from allocopt.problems.coallocation.pairs import Pairs
from allocopt.problems.coallocation.problem import CoallocationObjective
from allocopt.problems.coallocation.profile import StageKind
from allocopt.report.table import Cell, aligned_table
from allocopt.traces.coallocations import synthetic_coallocation
from allocopt.traces.measured_pairs import MeasuredPairs, read_pairs
from formulations.coallocation.program import CoallocationModel
from formulations.integer.backends import cp_sat, highs, scip
from formulations.integer.backends.protocol import Limits
from learned.asax.agent import Asax, Asked, Offer, first_fit, performance_loss
from learned.asax.trees import State, experts_of

HOSTS, GUESTS, LIMIT_S = 200, 100, 1.0
SOLVERS = ("assignment", "scip", "highs", "cp-sat", "greedy", "static-50")
SEVERAL = ("scip", "highs", "cp-sat", "greedy")
PAIRS = Path("gpu_colocation") / "gavel_physical_cluster_throughputs.json.gz"
BACK_ENDS = {"scip": scip, "highs": highs, "cp-sat": cp_sat}
HALF_BATCH = 0.45
"""Where batches are large: some 60, as `batch_of` counts them."""
LESSONS = 30
"""Windows of other seeds that learners have seen."""
GPUS = ("k80", "p100", "v100")


def windows(count: int, hosts: int, guests: int, **options: object) -> list[allocopt.CoallocationProblem]:
    """Draw problems; the same options give the same ones."""
    rngs = np.random.default_rng(91).spawn(count)
    return [synthetic_coallocation(hosts, guests, rng, **options) for rng in rngs]  # type: ignore[arg-type]


def solved(
    problems: Sequence[allocopt.CoallocationProblem], name: str, limit_s: float
) -> tuple[list[allocopt.Result], int]:
    """Solve problems with one warm solver, verified; return the answers and how many are proved."""
    solver = allocopt.get_solver(name)
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
            outcome = back_end.solve_program(model.program(), Limits(60.0, 0, None), None, lambda progress: None)
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


def learner(is_by_batch: bool) -> Asax:
    """Return a learner of two experts.

    Either one gives half to guests of jobs with small batches and the other to those of jobs with large ones, or one
    never gives anything and the other always half.
    """
    never, half = [1, 0], [0, 1]
    small, large = ((half, never), (never, half)) if is_by_batch else ((never, never), (half, half))
    experts = [
        {
            "metric": metric,
            "rows": [
                {metric: [0.0, HALF_BATCH], "happiness": [0.0, float("inf")], "p": below},
                {metric: [HALF_BATCH, 1.0], "happiness": [0.0, float("inf")], "p": above},
            ],
        }
        for metric, (below, above) in (("cpu", small), ("memory", large))
    ]
    return Asax.untrained(experts_of({"actions": [0, 50], "experts": experts}, "table"))


def batch_of(name: str) -> float:
    """Doublings of a job's batch over 13, 0 where it has none."""
    found = re.search(r"batch size (\d+)", name)
    return float(np.log2(int(found[1]))) / 13 if found else 0.0


def learned_pairs(
    asax: Asax, pairs: MeasuredPairs, hosts: IntArray, guests: IntArray, rng: np.random.Generator, by_job: bool
) -> list[float]:
    """Let a learner place a window, learn from it, and return the throughput that each pair adds."""
    offers = []
    for number, host in enumerate(hosts.tolist()):
        name, batch = pairs.names[host], batch_of(pairs.names[host])
        state = State(batch, batch, StageKind.PARALLEL, 0.5, 1.0)
        offers.append(Offer(number, 1, 1.0, asax.decide(name if by_job else "any", state, rng)))
    added = []
    for guest, host, decision in first_fit([Asked(1)] * len(guests), offers):
        slowdowns = pairs.slowdowns(hosts[host], guests[guest])
        loss = 1.0 if slowdowns is None else performance_loss(slowdowns[0], 1.0, asax.full_loss_at)
        asax.learn(decision, loss)
        # Where two jobs do not run together, the host goes on alone.
        added.append(0.0 if slowdowns is None else pairs.totals()[hosts[host], guests[guest]] - 1.0)
    return added


def learned_rows(pairs: MeasuredPairs, gpu: str, count: int) -> list[list[Cell]]:
    """Rows of learners that have seen windows of other seeds."""
    rows: list[list[Cell]] = []
    for is_by_batch, name in ((False, "asax, never or half"), (True, "asax, small or large batches")):
        asax = learner(is_by_batch)
        for rng in np.random.default_rng(93).spawn(LESSONS):
            learned_pairs(asax, pairs, pairs.draw(HOSTS, rng), pairs.draw(GUESTS, rng), rng, not is_by_batch)
        gains, placed = [], []
        for rng in np.random.default_rng(92).spawn(count):
            hosts, guests = pairs.draw(HOSTS, rng), pairs.draw(GUESTS, rng)
            added = learned_pairs(asax, pairs, hosts, guests, rng, not is_by_batch)
            gains.append(100 * float(np.sum(added)) / HOSTS)
            placed.append(len(added))
        rows.append([gpu, name, float(np.mean(placed)), float(np.mean(gains)), float(np.std(gains))])
        assert all(risk <= bound for risk, bound in asax.excess_risks().values())
    return rows


def measured(path: Path, count: int) -> str:
    """Throughput of a cluster in jobs that run alone: exclusive, paired at random, and by the exact model."""
    rows: list[list[Cell]] = []
    for gpu in GPUS:
        pairs = read_pairs(path, gpu)
        rows.extend(learned_rows(pairs, gpu, count))
        for name in ("static-50", "greedy", "assignment"):
            gains, placed = [], []
            for rng in np.random.default_rng(92).spawn(count):
                hosts, guests = pairs.draw(HOSTS, rng), pairs.draw(GUESTS, rng)
                result = allocopt.solve(pairs.problem(hosts.tolist(), guests.tolist(), 9.0), solver=name)
                speeds = [
                    pairs.speeds[hosts[place.host], guests[place.guest]]
                    + pairs.speeds[guests[place.guest], hosts[place.host]]
                    - 1.0
                    for place in result.solution.places
                ]
                gains.append(100 * float(np.sum(speeds)) / HOSTS)
                placed.append(len(speeds))
            rows.append([gpu, name, float(np.mean(placed)), float(np.mean(gains)), float(np.std(gains))])
    header = ("GPU", "pairing", "guests placed", "throughput over exclusive use, +%", "std over seeds")
    return aligned_table(header, rows, (None, None, 1, 2, 2))


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few windows; the page is not written")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder that holds gpu_colocation/")
    arguments = parser.parse_args()
    count = 2 if arguments.quick else 10
    tables = [
        f"## One guest a host\n\n{one_guest(count)}",
        f"The program of `capacity` itself, solved to proof without a start or a bound from elsewhere:\n\n"
        f"{programs(count)}",
        f"## Up to three guests a host\n\n{several_guests(count)}",
    ]
    if (arguments.data / PAIRS).exists():
        tables.append(
            "## Measured pairs\n\nJobs drawn at random, 200 running and 100 waiting, one seed a window; a job is one "
            "of 26 measured ones, throughput is that over running alone, and `static-50` pairs in the order of the "
            "queue wherever the slowdowns stay within 9. `asax` has seen "
            f"{LESSONS} other windows; its table has two experts, of which one never gives anything and one always "
            "half, learned for every job, or of which one gives half beside small batches and one beside large ones, "
            f"learned for all jobs together.\n\n{measured(arguments.data / PAIRS, count)}"
        )
    if arguments.quick:
        print("\n\n".join(tables))
        return
    write_page(
        "coallocation",
        "Co-allocation: time, gap, and what exact pairing is worth",
        f"Windows of {HOSTS} hosts and {GUESTS} guests of the ASAX paper's workflows, {count} per line, seeds spawned "
        f"from 91, limit {LIMIT_S:g} s (several guests: 10 s), one thread, solvers warm, answers verified. `to "
        "optimum` is against the assignment's proven optimum, `own gap` against the solver's own bound.",
        tables,
    )


if __name__ == "__main__":
    main()
