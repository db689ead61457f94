"""What a user waits for before anything is solved: ``allocopt --help``, and reading large instances."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from page import write_page

import allocopt
from allocopt.report.table import aligned_table

REPEATS = 9


def seconds(action: Callable[[], object]) -> list[float]:
    """Time an action several times."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return times


def command(*arguments: str) -> Callable[[], object]:
    """Return an action that runs the program in a new process."""
    return lambda: subprocess.run([sys.executable, "-m", "allocopt", *arguments], check=True, capture_output=True)


def largest_instance(folder: Path) -> Path:
    """Write an instance of 100,000 idle nodes and 1,000 jobs."""
    cluster = allocopt.FatTree(50, 50, 40)
    jobs = tuple(allocopt.Job(str(index), 90) for index in range(1000))
    path = folder / "all-idle.json"
    allocopt.write_problems(path, [allocopt.TopologyProblem(cluster, np.arange(cluster.size), jobs, name="all-idle")])
    return path


def main() -> None:
    """Measure and write the page."""
    with tempfile.TemporaryDirectory() as folder:
        path = largest_instance(Path(folder))
        measured = {
            "python -c pass": seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)),
            "allocopt --help": seconds(command("--help")),
            "allocopt solve --help": seconds(command("solve", "--help")),
            "read L3 (40,000 idle nodes, .json.gz)": seconds(lambda: allocopt.read_problems("instances/L3.json.gz")),
            "read 100,000 idle nodes, 1,000 jobs": seconds(lambda: allocopt.read_problems(path)),
        }
    rows = [[what, median(times), max(times)] for what, times in measured.items()]
    write_page(
        "startup",
        "Before anything is solved",
        f"Each {REPEATS} times; commands in a new process.",
        [aligned_table(("what", "median s", "max s"), rows, (None, 3, 3))],
    )


if __name__ == "__main__":
    main()
