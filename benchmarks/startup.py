"""Waiting times before anything is solved: first commands on a machine, later ones, and large instances."""

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

import allocopt
from allocopt.report.words import aligned_table
from allocopt.topology import Job, TopologyProblem
from papers.pages import page_parser, write_page

REPEATS = 9
KERNELS = Path(allocopt.__file__).parent / "kernels" / "__pycache__"


def measured(action: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Return the medians of wall time and of processor time, including child processes, in seconds."""
    walls, processors = [], []
    for _ in range(repeats):
        started, used = time.perf_counter(), processor_s()
        action()
        walls.append(time.perf_counter() - started)
        processors.append(processor_s() - used)
    return median(walls), median(processors)


def processor_s() -> float:
    """Return the processor time of this process and of the children that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def command(*arguments: str) -> Callable[[], object]:
    """Return an action that runs the program in a new process."""
    return lambda: subprocess.run([sys.executable, "-m", "allocopt", *arguments], check=True, capture_output=True)


@contextmanager
def no_kernels() -> Iterator[None]:
    """Hide all compiled kernels, as on a new machine."""
    with tempfile.TemporaryDirectory(dir=KERNELS.parent) as aside:
        for path in KERNELS.glob("*.kernel"):
            shutil.move(path, aside)
        try:
            yield
        finally:
            for path in Path(aside).glob("*.kernel"):
                shutil.move(path, KERNELS / path.name)


def largest_instance(folder: Path) -> Path:
    """Write an instance of 100,000 idle nodes and 1,000 jobs."""
    cluster = allocopt.FatTree(50, 50, 40)
    jobs = tuple(Job(str(index), 90) for index in range(1000))
    path = folder / "all-idle.json"
    allocopt.write_problems(path, [TopologyProblem(cluster, np.arange(cluster.size), jobs, name="all-idle")])
    return path


def small_trace(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    path = folder / "trace.swf"
    submit, run = np.cumsum(rng.integers(0, 600, 5000)), rng.integers(1, 36_000, 5000)
    lines = [
        f"{job} {submit[job]} -1 {run[job]} {1 << rng.integers(0, 7)} -1 -1 -1 {2 * run[job]} " + "-1 " * 9
        for job in range(5000)
    ]
    path.write_text("; MaxProcs: 256\n" + "\n".join(lines) + "\n")
    return path


def main() -> None:
    page_parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, trace = largest_instance(folder), str(small_trace(folder))
        commands = {
            "allocopt --help": ("--help",),
            "allocopt solve --help": ("solve", "--help"),
            "solve @tiny --solver dp": ("solve", "@tiny", "--strategy", "scas", "--solver", "dp"),
            "solve @tiny": ("solve", "@tiny"),
            "simulate, EASY, 5,000 jobs": ("simulate", trace, "--backfill", "easy"),
        }
        rows: list[list[str | float | None]] = []
        for code in ("pass", "import numba"):
            rows.append([f"python -c {code!r}", None, *measured(partial(subprocess.run, [sys.executable, "-c", code]))])
        for what, arguments in commands.items():
            with no_kernels():
                first_s, _ = measured(command(*arguments), 1)
            command(*arguments)()
            rows.append([what, first_s, *measured(command(*arguments))])
        with no_kernels():
            warmup_s, _ = measured(command("warmup"), 1)
            files = list(KERNELS.glob("*.kernel"))
            megabytes = sum(file.stat().st_size for file in files) / 1e6
        rows.append(["warmup, all kernels", warmup_s, *measured(command("warmup"))])
        rows.append(["read L3 (40,000 idle nodes, .json.gz)", None, *measured(read("instances/L3.json.gz"))])
        rows.append(["read 100,000 idle nodes, 1,000 jobs", None, *measured(read(str(path)))])
    write_page(
        "startup",
        "Before anything is solved",
        "`allocopt --help` takes 0.1 s, a first solve 0.7 s; with `auto` it takes 12 s the first time on a machine, "
        "when kernels are compiled, and 0.8 s afterwards. `allocopt warmup` compiles all kernels in 66 s.",
        [aligned_table(("what", "first s", "later s", "later, processor s"), rows, (None, 1, 3, 3))],
        f"Medians of {REPEATS} runs, commands in a new process each. {len(files)} compiled kernels hold "
        f"{megabytes:.0f} MB.",
    )


def read(path: str) -> Callable[[], object]:
    return lambda: allocopt.read_problems(path)


if __name__ == "__main__":
    main()
