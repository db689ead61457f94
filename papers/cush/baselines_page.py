"""The baselines of CuSH on new jobsets: the order of Table 1, and the possible gain of a policy selector."""

from collections.abc import Sequence
from itertools import pairwise, product

from allocopt.arrays import FloatArray
from allocopt.envs.cush.jobsets import HELD_OUT, MACHINES, JobSet, Machine, Recipe
from allocopt.heuristics.scheduling.job_selection import POLICIES, RULES, run_baseline
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.locality import SIERRA_TABLE
from allocopt.simulator.rules import Backfill
from papers.cush.configuration import BASELINES, OVER_REQUESTED, TABLE_ONE, of_baseline
from papers.pages import page_parser, write_template

EVERY = tuple(product(RULES, POLICIES))
ORDER = sorted(BASELINES, key=lambda method: TABLE_ONE[f"sierra: {method}"]["NTAT"])
READINGS = ((Backfill.NONE, "waits"), (Backfill.EASY, "EASY"), (Backfill.FIRST_FIT, "first that fits"))

_Values = dict[str, FloatArray]
"""NTAT of all job sets by method."""


def _table(values: dict[tuple[str, int], _Values]) -> str:
    """Return mean NTAT by method and machine, Table 1's values in brackets."""
    rows: list[list[Cell]] = []
    for method in (f"{rule}, {policy}" for rule, policy in EVERY):
        cells: list[Cell] = [method]
        for (name, nodes), of in values.items():
            printed = TABLE_ONE.get(f"{name}: {method}", {}) if nodes == 128 else {}
            cells.append(f"{of[method].mean():.3f}" + (f" ({printed['NTAT']:.2f})" if printed else ""))
        rows.append(cells)
    header = ("NTAT", *(f"{name.capitalize()}, {nodes} nodes" for name, nodes in values))
    return aligned_table(header, rows, (None, *(0 for _ in values)))


def _steps(values: _Values) -> str:
    """Return the difference between each baseline and the one before it in Table 1's order, also in standard errors."""
    rows: list[list[Cell]] = []
    for lower, higher in pairwise(ORDER):
        low, high = (values[method] for method in (lower, higher))
        difference = high - low
        error = float(difference.std(ddof=1)) / len(difference) ** 0.5
        mean = float(difference.mean())
        names = (method.replace(",", "") for method in (lower, higher))
        rows.append([*names, 100 * mean / float(low.mean()), mean / error])
    return aligned_table(("lower", "higher", "difference %", "standard errors"), rows, (None, None, 2, 1))


def _readings(jobsets: Sequence[JobSet], machine: Machine) -> str:
    """Return mean NTAT of first come first served, for each reading of what happens if the first job does not fit."""
    rows: list[list[Cell]] = []
    for backfill, name in READINGS:
        runs = [
            run_baseline(jobsets, machine, "fcfs", policy, backfill=backfill, options=OVER_REQUESTED)
            for policy in POLICIES
        ]
        rows.append([name, *(float(run["normalized_turnaround"].mean()) for run in runs)])
    return aligned_table(("when the first job does not fit", *POLICIES), rows, (None, 3, 3, 3))


def main() -> None:
    """Measure and write the page."""
    parser = page_parser(__doc__, "a hundred jobsets")
    parser.add_argument("--sets", type=int, default=10_000, help="draw this number of jobsets")
    options = parser.parse_args()
    count = 100 if options.quick else options.sets
    values: dict[tuple[str, int], _Values] = {}
    for name, nodes in product(MACHINES, (128, 64)):
        machine = Machine.of(name, nodes)
        jobsets = Recipe().draw_each(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + count))
        values[name, nodes] = {
            f"{rule}, {policy}": of_baseline(jobsets, machine, f"{rule}, {policy}").sets["normalized_turnaround"]
            for rule, policy in EVERY
        }
    machine = Machine.of("sierra")
    jobsets = Recipe().draw_each(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + count))
    places = {
        "count": count,
        "table": _table(values),
        "steps": _steps(values["sierra", 128]),
        "readings": _readings(jobsets, machine),
    }
    write_template(__file__, "cush_baselines", places, options.quick)


if __name__ == "__main__":
    main()
