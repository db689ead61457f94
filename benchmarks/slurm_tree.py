"""Nodes that real Slurms choose for the jobs of random windows, compared with our solvers and the proven optimum.

Slurm 22.05 runs here. The choices of 26.11 were recorded elsewhere.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import allocopt
from allocopt.report.words import Cell, aligned_table
from allocopt.topology import Allocation, TopologyProblem
from papers.pages import page_parser, write_page

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.slurm import RecordedWindow, chosen_by_slurm, missing, recorded_windows, release, version

SOLVERS = ("slurm-tree", "slurm-tree-22.05", "best-fit", "best-fit-by-level", "lns")
HEADER = ("nodes chosen by", "jobs with Slurm's nodes", "of", "above optimum %", "max %")
DIGITS = (None, 0, 0, 2, 2)

Choice = Sequence[Sequence[int]]
"""Nodes of every job."""


def solved(problem: TopologyProblem, solver: str) -> Choice:
    return [nodes.tolist() for nodes in allocopt.solve(problem, solver=solver).solution.nodes]


def row(
    label: str, windows: Sequence[RecordedWindow], chosen: Sequence[Choice], slurms: Sequence[Choice]
) -> list[Cell]:
    """Compare the chosen nodes of every window with Slurm's choice and with the optimum."""
    pairs = [pair for own, theirs in zip(chosen, slurms, strict=True) for pair in zip(own, theirs, strict=True)]
    same = sum(sorted(own) == sorted(theirs) for own, theirs in pairs)
    above = []
    for window, nodes in zip(windows, chosen, strict=True):
        cost = window.problem.objective(Allocation(tuple(np.array(own) for own in nodes)))
        above.append(100 * (cost / window.optimum - 1))
    return [label, same, len(pairs), float(np.mean(above)), max(above)]


def section(slurm: str, windows: Sequence[RecordedWindow], slurms: Sequence[Choice]) -> str:
    """Return the table that compares every solver with one version of Slurm."""
    choices = {slurm: slurms} | {name: [solved(window.problem, name) for window in windows] for name in SOLVERS}
    rows = [row(label, windows, chosen, slurms) for label, chosen in choices.items()]
    return f"## Beside {slurm}\n\n{aligned_table(HEADER, rows, DIGITS)}"


def main() -> None:
    asked = page_parser(__doc__, "four windows", "the recorded choices of Slurm 26.11").parse_args()
    windows = recorded_windows(asked.data)[: 4 if asked.quick else None]
    current = section("Slurm 26.11", windows, [one.placed for one in windows])
    if missing() is not None or release(version()) != (22, 5):
        print(current)
        raise SystemExit("the page is not written: it needs Slurm 22.05 (Debian: slurmctld slurm-client munge)")
    older = section(version(), windows, chosen_by_slurm([one.problem for one in windows]))
    write_page(
        "slurm_tree",
        "The nodes that a real Slurm chooses",
        "`slurm-tree` gives all 226 jobs the same nodes as Slurm 26.11, `slurm-tree-22.05` the same as Slurm 22.05. "
        "On average Slurm 26.11 is 6.6 % above the optimal hop cost, Slurm 22.05 12.1 %, `best-fit-by-level` 1.3 %; "
        "`lns` finds the optimum.",
        [current, older],
        "40 random windows, seeds 0 to 39, on 128 nodes, 4 pods of 4 leaves of 8: each node is idle with a "
        "probability between 0.3 and 0.95 drawn per window, the others are drained, and jobs of 1 to 24 whole nodes "
        "follow each other as long as they fit. Both Slurms have `select/cons_tres` and `topology/tree` and place the "
        "jobs of a window one after the other. 22.05 is Debian's and places them on nodes of a cloud. 26.11 was built "
        "from public sources; it does not run here, and its choices were recorded outside this project. *Above "
        "optimum*: hop cost of a window above the proven optimum, mean and largest. `lns` has no time limit.",
        is_quick=asked.quick,
    )


if __name__ == "__main__":
    main()
