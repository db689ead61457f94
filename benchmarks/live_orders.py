"""Streams of jobs on a real Slurm, by its own order, by ``allocopt live slurm --order``, and by tuned priorities.

libfaketime speeds up Slurm's clock, so that its periods keep their settings; the service uses the same clock. The jobs
belong to users with habits: run times of a user differ by up to a factor of 2, those of different users by two decades,
and each user requests 1.2 to 10 times the run time. Runs that are already in the file of rows are not repeated.
"""

import pwd
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from allocopt.live.slurm import Look, Slurm
from allocopt.report.provenance import provenance
from allocopt.report.words import Cell, aligned_table
from allocopt.traces.variants import Interval
from benchmarks.evolved_priority import MULTIFACTOR
from benchmarks.live_streams import begun_service, run_side_by_side
from benchmarks.virtual_slurm import open_folder, running, tree_files
from papers.pages import listed_commits, write_page
from papers.row_files import rows_in

JOBS, SEEDS, NODES, LARGEST, USERS = 300, (0, 1, 2), 32, 8, 12
RUN_S, ASKED = (60.0, 6000.0), (1.2, 10.0)
SPEED = 50
"""Seconds of the cluster per second."""
LOADS = (0.7, 0.9)
WAYS = {
    "alone": (),
    "order": ("--order", "evolved-priority"),
    "fair": ("--order", "evolved-priority", "--weights", "fair"),
    "pin": ("--order", "evolved-priority", "--pin", "--pin-for", "300", "--time-limit", "20"),
    "multifactor": (),
}
# The start of a job takes about a second, a minute of the cluster, by which short jobs would exceed their limits.
SETTINGS = (
    "OverTimeLimit=30\nMinJobAge=10000000\nSchedulerParameters=bf_interval=30,bf_resolution=60,bf_window=20000,sched_interval=30,"
    "batch_sched_delay=1,bf_max_job_test=1000"
)
PERIOD_S = 30.0
HEADER = (
    "load",
    "way",
    "streams",
    "mean wait s",
    "of alone",
    "from",
    "to",
    "slowdown",
    "longest wait s",
    "of alone",
    "busy %",
)
DIGITS = (1, None, 0, 0, 3, 3, 3, 1, 0, 2, 1)
PORTS = NODES + 8  # number of ports of a cluster


class StreamedJob(NamedTuple):
    """A job of a stream: its submission in seconds, nodes, run time, limit in minutes, and user."""

    submit: float
    size: int
    run: float
    minutes: int
    user: str


class StreamRun(NamedTuple):
    """Results of a stream: waits in seconds, the mean bounded slowdown, and the busy share of the nodes."""

    load: float
    seed: int
    way: str
    commit: str
    wait_s: float = 0.0
    slowdown: float = 0.0
    longest_s: float = 0.0
    utilization: float = 0.0


def stream(load: float, seed: int) -> list[StreamedJob]:
    """Draw a stream; streams of the same seed differ only in the times of submission."""
    rng = np.random.default_rng((46, seed))
    names = [one.pw_name for one in pwd.getpwall() if 0 < one.pw_uid < 60_000][:USERS]
    usual, asks = np.exp(rng.uniform(*np.log(RUN_S), len(names))), np.exp(rng.uniform(*np.log(ASKED), len(names)))
    user, size = (
        rng.integers(len(names), size=JOBS),
        np.exp2(rng.uniform(0, np.log2(LARGEST), JOBS)).round().astype(int),
    )
    runs = np.clip(usual[user] * np.exp(rng.uniform(-0.7, 0.7, JOBS)), *RUN_S).round()
    minutes = np.ceil(np.maximum(1.2 * runs, np.clip(asks[user], *ASKED) * usual[user]) / 60).astype(int)
    gaps = rng.exponential(float((size * runs).mean()) / (NODES * load), size=JOBS)
    columns = np.cumsum(gaps).tolist(), size.tolist(), runs.tolist(), minutes.tolist(), [names[at] for at in user]
    return [StreamedJob(*one) for one in zip(*columns, strict=True)]


def run_stream(load: float, seed: int, way: str, port: int) -> StreamRun:
    """Run a stream on its own cluster."""
    jobs = stream(load, seed)
    with open_folder() as folder, ExitStack() as stack:
        settings = SETTINGS
        if way == "multifactor":
            settings += "\n" + "\n".join(MULTIFACTOR.slurm_conf())
        names = tree_files(folder, NODES, port, settings=settings)
        cluster = stack.enter_context(running(folder, names, SPEED))
        if WAYS[way]:
            service = begun_service(cluster, *WAYS[way], "--period", str(PERIOD_S), "--hold", "600")
            stack.callback(service.wait)
            stack.callback(service.terminate)
        first = time.monotonic()
        for job in jobs:
            time.sleep(max(first + job.submit / SPEED - time.monotonic(), 0.0))
            asked = ("-N", str(job.size), "-t", str(job.minutes), "--uid", job.user, "-D", "/", "-o", "/dev/null")
            # Sleep by the clock of the machine: under the fast clock one in forty processes fails to start.
            asleep = f"exec sleep {job.run / SPEED:g}"
            cluster.said("sbatch", "--parsable", *asked, "--export=PATH", "--wrap", asleep)
        while cluster.said("squeue", "-h", "-t", "PD,R,CG"):
            time.sleep(1)
        return measured(Slurm(cluster.env).look(), StreamRun(load, seed, way, provenance()["commit"]))


def measured(look: Look, found: StreamRun) -> StreamRun:
    """Measure a stream that has ended."""
    done = [job for job in look.jobs if job.state == "COMPLETED"]
    if len(done) != JOBS:
        states = Counter(job.state for job in look.jobs)
        raise RuntimeError(f"{JOBS - len(done)} of {JOBS} jobs did not complete: {dict(states)}")
    submit, start, end = np.array([(job.submit_s, job.start_s, job.end_s) for job in done]).T
    wait, run, nodes = start - submit, np.maximum(end - start, 1.0), np.array([len(job.allocated) for job in done])
    return found._replace(
        wait_s=float(wait.mean()),
        slowdown=float(np.maximum((wait + run) / np.maximum(run, 10.0), 1.0).mean()),
        longest_s=float(wait.max()),
        utilization=float((nodes * run).sum()) / (NODES * float(end.max() - submit.min())),
    )


def fill(rows: Path, load: float, ways: Sequence[str], seeds: Sequence[int], port: int) -> None:
    """Run the streams of a load that are not in a file of rows yet, side by side, and append each when it ends."""
    known = {one[:3] for one in rows_in(rows, StreamRun)}
    wanted = [(seed, way) for seed in seeds for way in ways if (load, seed, way) not in known]
    runs = [partial(run_stream, load, *one, port + at * PORTS) for at, one in enumerate(wanted)]
    run_side_by_side(rows, runs, 6)


def table(found: Sequence[StreamRun]) -> str:
    """Return a row for each load and way, means over the seeds, with the paired interval of the ratio of mean waits."""
    cells: list[list[Cell]] = []
    for load in LOADS:
        of_load = {(one.seed, one.way): one for one in found if one.load == load}
        for way in WAYS:
            seeds = [seed for seed, other in of_load if other == way and (seed, "alone") in of_load]
            if not seeds:
                continue
            both = np.array([[of_load[seed, one][4:] for one in (way, "alone")] for seed in seeds])
            (wait, slowdown, longest, busy), ratios = both[:, 0].mean(axis=0), both[:, 0] / both[:, 1]
            interval = Interval.of(ratios[:, 0])
            cells.append(
                [load, way, len(seeds), wait, *interval, slowdown, longest, float(ratios[:, 2].mean()), 100 * busy]
            )
    return aligned_table(HEADER, cells, DIGITS)


def claim(found: Sequence[StreamRun]) -> str:
    """Return what the order of `evolved-priority` changes at the highest load, stream by stream."""
    of_load = {(one.seed, one.way): one for one in found if one.load == LOADS[-1]}

    def ratios(way: str, column: str) -> list[float]:
        seeds = [seed for seed, other in of_load if other == way]
        return [getattr(of_load[seed, way], column) / getattr(of_load[seed, "alone"], column) for seed in sorted(seeds)]

    waits = ", ".join(f"{100 * (ratio - 1):+.0f}" for ratio in ratios("order", "wait_s"))
    longest = ", ".join(f"{ratio:.2f}" for ratio in ratios("fair", "longest_s"))
    busy = ", ".join(f"{100 * (ratio - 1):+.1f}" for ratio in ratios("order", "utilization"))
    return (
        f"At load {LOADS[-1]:g}, mean waits under `--order evolved-priority` differ from those of Slurm alone by "
        f"{waits} % (stream by stream; asked: -20), and utilizations by {busy} % (asked: -1). With weights `fair`, the "
        f"longest wait is {longest} times that of Slurm alone (asked: at most 1.7)."
    )


def assumed() -> str:
    """Return a description of the streams, of the ways to order them, and of Slurm's settings."""
    return (
        f"Streams of {JOBS} jobs on {NODES} virtual nodes under Debian's Slurm, with its clock {SPEED} times as fast. "
        f"Jobs of 1 to {LARGEST} nodes belong to {USERS} users with habits; run times are spread over two decades, "
        "limits are 1.2 to 10 times the run time. *alone*: Slurm's own order. *order*, *fair*: `--order` with weights "
        "`balanced` and `fair`. *pin*: `--order --pin`. *multifactor*: Slurm's multifactor priorities, with weights "
        "that the same CMA-ES tuned on other logs. Ratios to *alone* are means over the streams, with 95 % intervals. "
        "Slurm takes about a second to start a job, a minute of its clock, in all ways."
    )


def main() -> None:
    """Run the streams of a load, and print a row for each way that the file holds, or write the page of all rows."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, help="file of rows, to which results are appended")
    parser.add_argument("--load", type=float, choices=LOADS, help="load of the streams to run")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="ways to run them")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS), help="seeds of the streams to run")
    parser.add_argument(
        "--port", type=int, default=18_000, help="port of the first slurmctld; those of its nodes follow"
    )
    parser.add_argument("--page", action="store_true", help="write the page of all rows")
    asked = parser.parse_args()
    if asked.load is not None:
        fill(asked.rows, asked.load, asked.ways, asked.seeds, asked.port)
    found = rows_in(asked.rows, StreamRun)
    if not asked.page:
        print(table(found))
        return
    write_page(
        "live_orders",
        "An evolved order on a real Slurm",
        claim(found),
        [f"## Waits\n\n{table(found)}"],
        f"{assumed()} Rows were measured at {listed_commits(row.commit for row in found)}.",
    )


if __name__ == "__main__":
    main()
