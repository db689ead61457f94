"""Windows cut from real workloads, every allocation verified: the NSA authors' workload and two production logs.

Needs the folder with the data (``--data``), which is not part of the project: the workload file of the NSA authors'
repository hpcschedule, and the CTC SP2 and Sandia Ross logs of the Parallel Workloads Archive.
"""

import argparse
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import allocopt
from allocopt.experiments.grids import compare
from allocopt.report.rows import BenchRow
from allocopt.report.summary import summary_table
from allocopt.solving.budget import Budget
from allocopt.solving.result import Status
from allocopt.solving.solution_files import BestKnown
from allocopt.topology import TopologyProblem
from papers.pages import write_page

WINDOWS = 500
LIMIT_S = 2.0
CONTENDERS = (
    *("sequential:scas", "best-fit", "greedy", "annealing-as-published", "annealing:dcas", "lns", "exact"),
    *("dp:scas", "dp:dcas", "highs", "scip", "cp-sat", "auto:dcas", "auto:free"),
)


@dataclass(frozen=True)
class Workload:
    """A real workload, and the cluster that its windows are cut for."""

    title: str
    file: str
    options: tuple[str, ...]


WORKLOADS = (
    Workload(
        "The NSA authors' workload, 1,000 nodes as 10 pods of 10 leaves of 10, period 60 s",
        "tjap/data_large_1800_40.txt.gz",
        ("--period", "60", "--pods", "10", "--leaves-per-pod", "10", "--nodes-per-leaf", "10", "--skip", "60"),
    ),
    Workload(
        "CTC SP2 (338 nodes, here 352 as 4 pods of 4 leaves of 22), period 600 s",
        "traces/CTC-SP2-1996-3.1-cln.swf.gz",
        ("--period", "600", "--pods", "4", "--leaves-per-pod", "4", "--nodes-per-leaf", "22", "--skip", "20"),
    ),
    Workload(
        "Sandia Ross (1,524 nodes, here 1,536 as 8 pods of 8 leaves of 24), period 600 s",
        "traces/Sandia-Ross-2001-1.1-cln.swf.gz",
        ("--period", "600", "--pods", "8", "--leaves-per-pod", "8", "--nodes-per-leaf", "24", "--skip", "20"),
    ),
)


def cut(workload: Workload, data: Path, folder: Path) -> list[TopologyProblem]:
    """Cut the windows by the command that a user would type."""
    out = folder / "windows.jsonl"
    command = ["allocopt", "generate", "windows", "--workload", str(data / workload.file), "--count", str(WINDOWS)]
    subprocess.run([*command, *workload.options, "--out", str(out)], check=True)
    return allocopt.read_problems(out)


def measured(problems: list[TopologyProblem]) -> list[BenchRow]:
    """Run every contender on every window; the optima that ``dp`` proves are the yardstick."""
    dp = allocopt.get_solver("dp")
    known = {}
    for problem in problems:
        if dp.refusal(problem.with_strategy("scas")) is None:
            result = allocopt.solve(problem, "scas", dp, 60.0)
            proved = result.status is Status.OPTIMAL
            known[problem.name] = {"scas": BestKnown(float(result.objective or 0), proved)}
    return compare(problems, CONTENDERS, budget=Budget(LIMIT_S), known=known)


def section(workload: Workload, data: Path) -> str:
    """Cut, compare, and describe one workload."""
    with tempfile.TemporaryDirectory() as folder:
        problems = cut(workload, data, Path(folder))
    rows = measured(problems)
    jobs = [len(problem.jobs) for problem in problems]
    idle = [len(problem.idle_nodes) for problem in problems]
    facts = (
        f"{len(problems)} windows of {min(jobs)} to {max(jobs)} jobs (mean {fmean(jobs):.1f}) on {min(idle)} to "
        f"{max(idle)} idle nodes (mean {fmean(idle):.0f}); {len(rows)} allocations, every one verified."
    )
    return f"## {workload.title}\n\n{facts}\n\n{summary_table(rows)}"


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    data = parser.parse_args().data
    write_page(
        "real_windows",
        "Windows of real workloads",
        f"{WINDOWS} windows each by `allocopt generate windows` (advanced by `annealing`), then every contender with a "
        f"limit of {LIMIT_S:.0f} s, seed 0. One processor of a log counts as one node. Sources: the workload file of "
        "the NSA authors' repository hpcschedule; the CTC SP2 log (Dan Dwyer and Steve Hotovy) and the Sandia Ross log "
        "(Jon Stearley), cleaned versions, of the Parallel Workloads Archive (Dror Feitelson).",
        [section(workload, data) for workload in WORKLOADS],
    )


if __name__ == "__main__":
    main()
