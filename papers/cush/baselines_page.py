"""The baselines of CuSH on job sets that nobody saw: the order of Table 1, and what a policy selector can give."""

import argparse
from collections.abc import Sequence
from itertools import pairwise, product

from allocopt.arrays import FloatArray
from allocopt.envs.cush.jobsets import HELD_OUT, JobSet, Machine, draw_jobsets
from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.locality import SIERRA_TABLE
from allocopt.simulator.rules import Backfill
from heuristics.scheduling.job_selection import POLICIES, RULES, run_baseline
from papers.artifact import Printed
from papers.cush.configuration import BASELINES, FIXED, MACHINES, TABLE_ONE
from papers.pages import write_template

METRICS = {"NTAT": "normalized_turnaround", "wait": "wait", "rewards": "rewards"}
"""Metrics by the column of Table 1."""
EVERY = tuple(product(RULES, POLICIES))
ORDER = sorted(BASELINES, key=lambda method: TABLE_ONE[f"sierra: {method}"]["NTAT"])
HEADER = ("job", "policy", "NTAT", "published", "wait", "published", "rewards", "published", "penalty", "% of better")
READINGS = ((Backfill.NONE, "waits"), (Backfill.EASY, "EASY"), (Backfill.FIRST_FIT, "first that fits"))

_Values = dict[str, dict[str, FloatArray]]
"""Metrics of all job sets by method."""


def _means(values: _Values, name: str, published: Printed) -> str:
    """Return the means of the baselines beside Table 1, and NTAT over that of the better fixed policy."""
    rows: list[list[Cell]] = []
    for method, metrics in values.items():
        rule, policy = method.split(", ")
        means = {metric: float(of.mean()) for metric, of in metrics.items()}
        printed = published.get(f"{name}: {method}", {})
        fixed = min(float(values[f"{rule}, {one}"]["normalized_turnaround"].mean()) for one in FIXED)
        cells = [cell for column, metric in METRICS.items() for cell in (means[metric], printed.get(column))]
        rows.append([rule, policy, *cells, means["penalty"], 100 * means["normalized_turnaround"] / fixed])
    return aligned_table(HEADER, rows, (None, None, 3, 2, 2, 2, 1, 2, 2, 1))


def _steps(values: _Values) -> str:
    """Return how far each baseline is above the one before it in Table 1's order, in paired standard errors."""
    rows: list[list[Cell]] = []
    for lower, higher in pairwise(ORDER):
        low, high = (values[method]["normalized_turnaround"] for method in (lower, higher))
        difference = high - low
        error = float(difference.std(ddof=1)) / len(difference) ** 0.5
        mean = float(difference.mean())
        names = (method.replace(",", "") for method in (lower, higher))
        rows.append([*names, 100 * mean / float(low.mean()), mean / error])
    return aligned_table(("lower", "higher", "difference %", "standard errors"), rows, (None, None, 2, 1))


def _readings(jobsets: Sequence[JobSet], machine: Machine) -> str:
    """Return mean NTAT of first come first served by what happens when the first job does not fit."""
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
            values = {f"{rule}, {policy}": run_baseline(jobsets, machine, rule, policy) for rule, policy in EVERY}
            means = _means(values, name, TABLE_ONE if nodes == 128 else {})
            sections.append(f"## {name.capitalize()}, {nodes} nodes\n\n{means}")
            if name == "sierra":
                sections.append(f"Neighbours in the order of Table 1:\n\n{_steps(values)}")
                sections.append(f"First come first served, three readings:\n\n{_readings(jobsets, machine)}")
    places = {"count": count, "machines": "\n\n".join(sections)}
    write_template(__file__, "cush_baselines", places, options.quick)


if __name__ == "__main__":
    main()
