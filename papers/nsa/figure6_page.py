"""Figure 6 of the NSA paper: allocation by windows against FCFS and EASY, which allocate job by job.

Needs the extra ``plot``, and the workload of the NSA authors' repository hpcschedule in the folder ``--data``, which is
not part of the project. Run ``allocopt reproduce nsa-figure6-authors`` first; ``--rows`` is the folder with its file.
Takes some minutes. ``--quick`` prints the table of two epochs and writes nothing.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.report.words import Cell, aligned_table
from allocopt.traces.workload import Workload
from papers.artifact import Asked
from papers.nsa.figures import JOBS, PERIODS_S, Compared, OneByOne, compared
from papers.nsa.tables import EPOCHS, QUICK_EPOCHS, read_paper_workload
from papers.pages import Selection, page_parser, selected_tables, write_lines, write_template

AS_RUN = Selection(
    "nsa-figure6-authors",
    "(.*)",
    {
        "cost": 0,
        "cost: epochs that are the published ones": 0,
        "wait s": 1,
        "wait s: epochs that are the published ones": 0,
    },
)
"""Figure 6 with the conventions of the authors' program."""
FIRST_S, LAST_S = PERIODS_S[0], PERIODS_S[-1]


class _Line(NamedTuple):
    # One value of cost and wait per epoch, each a mean over the jobs.
    of: Compared
    cost: FloatArray
    wait_s: FloatArray

    def cells(self) -> list[Cell]:
        means = (float(self.cost.mean()), float(self.cost.std(ddof=1)), float(self.wait_s.mean()))
        return [self.of.method, self.of.allocation, self.of.period_s, *means]


_Lines = dict[tuple[str, str], list[_Line]]
"""Lines by method and allocation, with rising periods."""


def _measured(epochs: list[Workload]) -> _Lines:
    lines: _Lines = {}
    for one in compared():
        found = [one.measure(jobs) for jobs in epochs]
        cost, wait_s = (np.array([values[name] for values in found]) for name in ("cost", "wait s"))
        lines.setdefault((one.method, one.allocation), []).append(_Line(one, cost, wait_s))
    return lines


def _table(lines: _Lines) -> str:
    """Return cost and wait with the shortest and with the longest period."""
    header = ("method", "allocation", "period s", "hop cost", "+/-", "wait s")
    shown = (line for group in lines.values() for line in group[:: max(1, len(group) - 1)])
    return aligned_table(header, [line.cells() for line in shown], (None, None, 0, 0, 0, 1))


def _plot(lines: _Lines) -> None:
    def points(group: list[_Line], quantity: str) -> tuple[list[int], list[float]]:
        means = [float(getattr(line, quantity).mean()) for line in group]
        periods = [line.of.period_s for line in group if line.of.period_s is not None]
        # A method without periods is a horizontal line.
        return (periods, means) if periods else ([FIRST_S, LAST_S], means * 2)

    parts = {
        "mean hop cost per job": {", ".join(key): points(group, "cost") for key, group in lines.items()},
        # The allocator does not change the waits.
        "mean wait, s": {method: points(group, "wait_s") for (method, _), group in lines.items()},
    }
    write_lines("nsa_figure6", "Cost and wait over the period", parts, "period, s")


def _first_claim(lines: _Lines) -> str:
    """Count the cases in which jobs cost less in windows than under FCFS, and those in which they wait longer."""
    rows: list[list[Cell]] = []
    for name in (name for method, name in lines if method == "windows"):
        windows = lines["windows", name]
        for allocation in ("sequential", "dp"):
            other = lines["FCFS", allocation][0]
            less = sum(int((line.cost < other.cost).sum()) for line in windows)
            longer = sum(int((line.wait_s > other.wait_s).sum()) for line in windows)
            change = [100 * (line.cost.mean() / other.cost.mean() - 1) for line in (windows[0], windows[-1])]
            rows.append([f"windows, {name}", f"FCFS, {allocation}", less, longer, *map(float, change)])
    header = ("", "against", "costs less", "waits longer", f"cost at {FIRST_S} s, %", f"at {LAST_S} s, %")
    return aligned_table(header, rows, (None, None, 0, 0, 1, 1))


def _second_claim(lines: _Lines, n_epochs: int) -> str:
    """Count the cases in which cost falls with a longer period, and those in which waits grow."""
    rows: list[list[Cell]] = []
    for name in (name for method, name in lines if method == "windows"):
        windows = lines["windows", name]
        pairs, first, last = list(pairwise(windows)), windows[0], windows[-1]
        falls = sum(int(long.cost.mean() < short.cost.mean()) for short, long in pairs)
        grows = sum(int(long.wait_s.mean() > short.wait_s.mean()) for short, long in pairs)
        below, above = int((last.cost < first.cost).sum()), int((last.wait_s > first.wait_s).sum())
        rows.append([f"windows, {name}", falls, grows, below, above])
    steps = f"steps of {len(PERIODS_S) - 1}: mean cost falls"
    epochs = f"epochs of {n_epochs}: cost at {LAST_S} s below {FIRST_S} s"
    return aligned_table(("", steps, "mean wait grows", epochs, "wait above"), rows, (None, 0, 0, 0, 0))


def main() -> None:
    """Measure and write the page."""
    options = page_parser(__doc__, data="tjap/", quick="the table of two epochs", rows=True).parse_args()
    asked = Asked(options.data, options.quick, (0,))
    workload = read_paper_workload(asked)
    epochs = [workload.stretch(JOBS * number, JOBS) for number in range(asked.size(EPOCHS, QUICK_EPOCHS))]
    lines = _measured(epochs)
    if options.quick:
        print(_table(lines))
        return
    _plot(lines)
    waits = lines["FCFS", "sequential"][0].wait_s
    schedules: dict[tuple[str, int | None], set[tuple[float, ...]]] = {}
    for line in (line for group in lines.values() for line in group):
        schedules.setdefault((line.of.method, line.of.period_s), set()).add(tuple(line.wait_s.tolist()))
    are_alike = all(len(waits) == 1 for waits in schedules.values())
    chain = (
        lines["FCFS", "sequential"][0],
        lines["FCFS", "dp"][0],
        lines["windows", OneByOne.name][-1],
        lines["windows", "dp"][-1],
    )
    costs = [float(line.cost.mean()) for line in chain]
    nodes, order, together = (before - after for before, after in pairwise(costs))
    places = {
        "epochs": EPOCHS,
        "jobs": JOBS,
        "table": _table(lines),
        **{name: float(lines["windows", name][-1].cost.mean()) for name in ("nsa", "annealing", "dp")},
        "waits": ", ".join(f"{wait:.2f}" for wait in waits),
        "alike": "does not change" if are_alike else "changes",
        "n_cases": len(PERIODS_S) * len(epochs),
        "first_claim": _first_claim(lines),
        "second_claim": _second_claim(lines, len(epochs)),
        "longest": LAST_S,
        "nodes": nodes,
        "order": order,
        "together": together,
        "saved": costs[0] - costs[-1],
        "saved_percent": 100 * (1 - costs[-1] / costs[0]),
    }
    write_template(__file__, "nsa_figure6", {**places, **selected_tables(options.rows, {"as_run": AS_RUN})})


if __name__ == "__main__":
    main()
