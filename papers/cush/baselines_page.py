"""The baselines of CuSH on job sets that nobody saw: the order of Table 1, and what a policy selector can give."""

import argparse
from collections.abc import Sequence
from itertools import pairwise

from allocopt.arrays import FloatArray
from allocopt.envs.cush.jobsets import HELD_OUT, JobSet, Machine, draw_jobsets, sierra, summit
from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.locality import SIERRA_TABLE
from allocopt.simulator.rules import Backfill
from heuristics.scheduling.job_selection import POLICIES, RULES, run_baseline
from papers.cush.published import CUSH, TABLE_ONE, Published
from papers.pages import write_page

Baseline = tuple[str, str]
"""Rule and policy."""
PUBLISHED = {
    machine.capitalize(): {
        (method.split(", ")[0], method.split(", ")[1]): printed for method, printed in table.items() if method != CUSH
    }
    for machine, table in TABLE_ONE.items()
}
ORDER = sorted(PUBLISHED["Sierra"], key=lambda baseline: PUBLISHED["Sierra"][baseline].turnaround)
MACHINES = {"Sierra": sierra, "Summit": summit}
HEADER = ("job", "policy", "NTAT", "published", "wait", "published", "rewards", "published", "penalty", "% of better")
DIGITS = (None, None, 3, 2, 2, 2, 1, 2, 2, 1)
STEPS = ("lower", "higher", "difference %", "standard errors")
READINGS = ((Backfill.NONE, "waits"), (Backfill.EASY, "EASY"), (Backfill.FIRST_FIT, "first that fits"))

Values = dict[Baseline, dict[str, FloatArray]]


def measured(jobsets: Sequence[JobSet], machine: Machine) -> Values:
    """Run all baselines."""
    return {(rule, policy): run_baseline(jobsets, machine, rule, policy) for rule in RULES for policy in POLICIES}


def rows_of(values: Values, published: dict[Baseline, Published]) -> list[list[Cell]]:
    """Means of the baselines, with what Table 1 prints; last, NTAT over that of the better fixed policy."""
    rows: list[list[Cell]] = []
    for (rule, policy), metrics in values.items():
        means = {name: float(of.mean()) for name, of in metrics.items()}
        printed: tuple[float | None, ...] = published.get((rule, policy), (None,) * 3)
        fixed = min(float(values[rule, one]["normalized_turnaround"].mean()) for one in POLICIES[:2])
        pairs = zip(("normalized_turnaround", "wait", "rewards"), printed, strict=True)
        cells: list[Cell] = [cell for name, value in pairs for cell in (means[name], value)]
        rows.append([rule, policy, *cells, means["penalty"], 100 * means["normalized_turnaround"] / fixed])
    return rows


def steps_of(values: Values) -> list[list[Cell]]:
    """How far each baseline is above the one before it in Table 1's order, in paired standard errors."""
    rows: list[list[Cell]] = []
    for lower, higher in pairwise(ORDER):
        low, high = (values[key]["normalized_turnaround"] for key in (lower, higher))
        difference = high - low
        error = float(difference.std(ddof=1)) / len(difference) ** 0.5
        mean = float(difference.mean())
        rows.append([" ".join(lower), " ".join(higher), 100 * mean / float(low.mean()), mean / error])
    return rows


def readings(jobsets: Sequence[JobSet], machine: Machine) -> str:
    """Mean NTAT of first come first served under each reading of what happens when the first job does not fit."""
    rows: list[list[Cell]] = []
    for backfill, name in READINGS:
        runs = [run_baseline(jobsets, machine, "fcfs", policy, backfill=backfill) for policy in POLICIES]
        rows.append([name, *(float(run["normalized_turnaround"].mean()) for run in runs)])
    return aligned_table(("when the first job does not fit", *POLICIES), rows, (None, 3, 3, 3))


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=10_000, help="job sets")
    parser.add_argument("--quick", action="store_true", help="a hundred job sets; the page is not written")
    options = parser.parse_args()
    count = 100 if options.quick else options.sets
    sections = []
    for name, machine_of in MACHINES.items():
        for nodes in (128, 64):
            machine = machine_of(nodes)
            jobsets = draw_jobsets(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + count))
            values = measured(jobsets, machine)
            table = aligned_table(HEADER, rows_of(values, PUBLISHED[name] if nodes == 128 else {}), DIGITS)
            sections.append(f"## {name}, {nodes} nodes\n\n{table}")
            if name == "Sierra":
                steps = aligned_table(STEPS, steps_of(values), (None, None, 2, 1))
                sections.append(f"Neighbours in the order of Table 1:\n\n{steps}")
                sections.append(f"First come first served, three readings:\n\n{readings(jobsets, machine)}")
    if options.quick:
        print("\n\n".join(sections))
        return
    write_page(
        "cush_baselines",
        "The baselines of CuSH",
        f"{count} job sets per machine that were used neither for the coefficients of the locality model nor for "
        "training (seeds from 1,000,000 on), 20 jobs each. Times in timesteps; NTAT is the mean normalized turnaround "
        "time. `oracle` allocates every job by the better policy; the last column is NTAT in percent of that under the "
        "better one of the two fixed policies.",
        sections,
    )


if __name__ == "__main__":
    main()
