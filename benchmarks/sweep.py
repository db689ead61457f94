"""Sweeps of 500 cells that are killed, on this machine and on a Ray cluster, beside an undisturbed one."""

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from allocopt.report.table import Cell, aligned_table
from papers.pages import page_parser, write_page

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.ray_nodes import head_node, running_cells, second_node  # noqa: E402
from support.sweeps import (  # noqa: E402
    finished,
    kill,
    members,
    one_of,
    start,
    untimed,
    wait_for,
    workers,
    write_sweep,
)

SEED = 0
KILLS = 5
MOMENT_S = 0.3
ITERATIONS = 50_000
CELLS = 500
SOLVERS = ["lns:free", "lns:dcas", "annealing:free", "annealing:dcas", "dp:scas"]
HEADER = ("trial", "driver killed", "workers killed", "cells at the kills", "rows", "equal rows", "wall s")
DIGITS = (None, 0, 0, None, 0, 0, 1)


def main() -> None:
    page_parser(__doc__).parse_args()
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        instances = Path(folder) / "windows.jsonl"
        lines = (ROOT / "instances" / "paper.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        instances.write_text("".join(lines[:20]), encoding="utf-8")
        description = write_sweep(
            Path(folder) / "grid.toml", instances=[instances.name], solvers=SOLVERS, seeds=5, iterations=ITERATIONS
        )
        trials = Trials(description, rng)
        trials.undisturbed()
        trials.driver_killed()
        trials.worker_killed()
        trials.on_ray()
        trials.node_killed()
    write_page(
        "sweep",
        "Sweeps that are killed",
        "Nothing is lost and nothing is run twice, whether the driver is killed five times, workers five times, or a "
        "worker or a node of Ray: all rows are there, and equal to those of the undisturbed run.",
        [aligned_table(HEADER, trials.rows, DIGITS), trials.findings()],
        INTENT,
    )


class Trials:
    """Sweeps of one description.

    Parameters
    ----------
    description
        The sweep file.
    rng
        Draws the moments of the kills.
    """

    def __init__(self, description: Path, rng: random.Random) -> None:
        self._description = description
        self._rng = rng
        self._gone: list[float] = []
        self._expected: list[dict[str, str]] = []
        self.rows: list[list[Cell]] = []

    def undisturbed(self) -> None:
        """Run a sweep to its end."""
        output = self._output("undisturbed")
        seconds = self._complete(output)
        self._expected = untimed(output)
        assert len(self._expected) == CELLS
        self._record("undisturbed", output, 0, 0, [], seconds)

    def driver_killed(self) -> None:
        """Kill the driver five times, each time at a random moment, and go on."""
        output, reached, started = self._output("driver"), [], time.perf_counter()
        for goal in self._goals(KILLS):
            process = self._start("-o", output, "--workers", "2")
            self._wait(output, goal)
            assert process.poll() is None, "the sweep has ended before it could be killed"
            process.kill()
            process.wait()
            self._gone.append(_seconds_until(lambda: not members(process.pid)))  # noqa: B023
            reached.append(finished(output))
        self._complete(output)
        self._record("driver killed", output, KILLS, 0, reached, time.perf_counter() - started)

    def worker_killed(self) -> None:
        """Kill a worker five times while a sweep runs."""
        output, reached, started = self._output("workers"), [], time.perf_counter()
        process = self._start("-o", output, "--workers", "2")
        for goal in self._goals(KILLS):
            self._wait(output, goal)
            kill(one_of(workers, process.pid))
            reached.append(finished(output))
        assert process.wait() == 0
        self._record("worker killed", output, 0, KILLS, reached, time.perf_counter() - started)

    def on_ray(self) -> None:
        """Run on a cluster of two workers, and kill one of them."""
        with head_node() as (address, session):
            for name, kills in (("Ray", 0), ("Ray, worker killed", 1)):
                output, reached, started = self._output(name), [], time.perf_counter()
                process = self._start("-o", output, "--ray", address)
                for goal in self._goals(kills):
                    self._wait(output, goal)
                    kill(one_of(running_cells, session))
                    reached.append(finished(output))
                assert process.wait() == 0
                self._record(name, output, 0, kills, reached, time.perf_counter() - started)

    def node_killed(self) -> None:
        """Run on two nodes of a worker each, and kill the second node."""
        output, started = self._output("node"), time.perf_counter()
        with head_node(cores=1) as (address, _), second_node(address) as second:
            process = self._start("-o", output, "--ray", address)
            self._wait(output, *self._goals(1))
            one_of(running_cells, second)
            reached = [finished(output)]
            for pid in members(second):
                kill(pid)
            assert process.wait() == 0
        self._record("Ray, node killed", output, 0, 1, reached, time.perf_counter() - started)

    def findings(self) -> str:
        """Say what has become of the workers."""
        worst = max(self._gone)
        return f"After each kill of the driver its workers were gone within {worst:.2f} s (greatest of {KILLS})."

    def _goals(self, count: int) -> list[int]:
        """Draw numbers of finished cells at which something is killed."""
        return sorted(self._rng.sample(range(CELLS * 9 // 10), count))

    def _wait(self, output: Path, goal: int) -> None:
        """Wait until so many cells are finished, and a random moment longer."""
        assert wait_for(lambda: finished(output) >= goal)
        time.sleep(self._rng.uniform(0.0, MOMENT_S))

    def _output(self, name: str) -> Path:
        return self._description.parent / f"{name.replace(', ', '-').replace(' ', '-')}.csv"

    def _start(self, *arguments: str | Path) -> "subprocess.Popen[str]":
        """Start the sweep; only what goes wrong is printed."""
        return start("sweep", self._description, *arguments, stdout=subprocess.DEVNULL, stderr=None)

    def _complete(self, output: Path) -> float:
        """Run a sweep to its end; return its seconds."""
        started = time.perf_counter()
        process = self._start("-o", output, "--workers", "2")
        assert process.wait() == 0
        return time.perf_counter() - started

    def _record(self, name: str, output: Path, drivers: int, lost: int, reached: list[int], seconds: float) -> None:
        """Compare a table with that of the undisturbed run."""
        rows = untimed(output)
        assert finished(output) == CELLS, "a cell that was finished has been run again"
        equal = sum(one == other for one, other in zip(rows, self._expected, strict=False))
        at = ", ".join(map(str, reached)) or "-"
        self.rows.append([name, drivers, lost, at, len(rows), equal, seconds])
        print(self.rows[-1], file=sys.stderr, flush=True)


def _seconds_until(condition: Callable[[], bool]) -> float:
    """Wait for a condition; return how long it took."""
    started = time.perf_counter()
    assert wait_for(condition)
    return time.perf_counter() - started


INTENT = f"""{CELLS} cells: 20 windows of `instances/paper.jsonl`, {", ".join(SOLVERS)} with {ITERATIONS:,}
iterations each, seeds 0 to 4, two workers. The driver, or a worker, is killed with SIGKILL a random moment after a
number of cells that is drawn with seed {SEED}; the same command then goes on (a killed worker needs none). Rows are
compared but for `runtime_s`; see [../sweep.md](../sweep.md)."""

if __name__ == "__main__":
    main()
