"""Streams of jobs on virtual nodes of a real Slurm, without and with ``allocopt live slurm --pin``.

Pinned streams use the shipped job_submit.lua; the service checks them every second and when jobs are submitted or end.
Runs that are already in the file of rows are not repeated. Streams of a case run side by side; Slurm reports times in
whole seconds.
"""

import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from allocopt.cluster.topology import hop_costs
from allocopt.live.plan import started_alone
from allocopt.live.slurm import Look, Slurm
from allocopt.report.provenance import provenance
from allocopt.report.words import Cell, aligned_table
from allocopt.solving.result import Status
from benchmarks.virtual_slurm import VirtualSlurm, hooks, open_folder, running, tree_files
from papers.row_files import append_row, rows_in

JOBS, SEEDS = 300, (0, 1, 2)
LARGEST = 24
RUN_S = (10.0, 90.0)
BOUND_S = 10.0
PERIOD_S = 1.0
PORTS = 600  # number of ports of a cluster


class Case(NamedTuple):
    """A cluster, and the load of a stream on it; jobs share nodes that have several cores."""

    name: str
    nodes: int
    load: float
    cores: int = 1


CASES = (
    Case("128", 128, 0.9),
    Case("128, half the load", 128, 0.5),
    Case("512", 512, 0.9),
    Case("128, shared", 128, 0.9, 16),
)
HEADER = (
    *("nodes", "hops a job", "pinned", "% by seed", "wait s", "pinned", "slowdown", "pinned"),
    *("busy %", "pinned", "regret %", "pinned", "CPU %"),
)
DIGITS = (None, 2, 2, None, 1, 1, 2, 2, 1, 1, 1, 1, 0)


class StreamedJob(NamedTuple):
    """A job of a stream: its submission in seconds, its number of nodes, and its run time.

    On shared nodes it asks for half of the cores of this number of nodes.
    """

    submit: float
    size: int
    run: float


class StreamRun(NamedTuple):
    """Results of a stream, ``pin`` or ``alone``.

    Means of the hop cost of jobs of several nodes, of waits and bounded slowdowns; the busy share of the cores; the
    excess of hop costs over the proven optimum of each single start; the share of a core that the service uses; the
    number of jobs that started as pinned.
    """

    case: str
    seed: int
    way: str
    commit: str
    hops: float = 0.0
    wait_s: float = 0.0
    slowdown: float = 0.0
    utilization: float = 0.0
    regret: float = 0.0
    cpu: float = 0.0
    as_pinned: int = 0


def stream(case: Case, seed: int) -> list[StreamedJob]:
    """Draw a stream."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, LARGEST + 1, size=JOBS)
    runs = rng.uniform(*RUN_S, size=JOBS).round(1)
    places = case.nodes * (1 if case.cores == 1 else 2)
    gaps = rng.exponential(float((sizes * runs).mean()) / (places * case.load), size=JOBS)
    return [StreamedJob(*one) for one in zip(np.cumsum(gaps).tolist(), sizes.tolist(), runs.tolist(), strict=True)]


def begun_service(cluster: VirtualSlurm, *options: str) -> "subprocess.Popen[bytes]":
    """Start a service for partition main, with a journal in the folder of the cluster, and wait until it has begun."""
    journal = cluster.folder / "journal.jsonl"
    command = ("live", "slurm", "--partition", "main", "--journal", str(journal), *options)
    service = subprocess.Popen([sys.executable, "-m", "allocopt", *command], env=cluster.env)
    while not journal.exists() or b"begun" not in journal.read_bytes():
        if service.poll() is not None:
            raise RuntimeError("the service ended before it began its work")
        time.sleep(0.2)
    return service


def run_stream(case: Case, seed: int, way: str, port: int) -> StreamRun:
    """Run a stream on its own cluster."""
    jobs = stream(case, seed)
    with open_folder() as folder, ExitStack() as stack:
        settings = "MinJobAge=100000"
        if way == "pin":
            settings += "\n" + hooks(folder)
        names = tree_files(folder, case.nodes, port, cores=case.cores, settings=settings)
        cluster = stack.enter_context(running(folder, names))
        service, cpu, begun = None, 0.0, time.monotonic()
        if way == "pin":
            service = begun_service(cluster, "--pin", "--period", str(PERIOD_S), "--wake", str(folder / "wake"))
            stack.callback(service.kill)
        first = time.monotonic()
        for job in jobs:
            time.sleep(max(first + job.submit - time.monotonic(), 0.0))
            asked = ("-N", str(job.size)) if case.cores == 1 else ("-n", str(job.size * case.cores // 2))
            body = ("--wrap", f"exec sleep {job.run:g}")
            cluster.said("sbatch", "--parsable", *asked, "-t", "2", "-o", "/dev/null", *body)
        while cluster.said("squeue", "-h", "-t", "PD,R,CG"):
            time.sleep(2)
        if service is not None:
            service.terminate()
            _, _, usage = os.wait4(service.pid, 0)
            cpu = (usage.ru_utime + usage.ru_stime) / (time.monotonic() - begun)
        return measured(Slurm(cluster.env).look(), StreamRun(case.name, seed, way, provenance()["commit"], cpu=cpu))


def measured(look: Look, found: StreamRun) -> StreamRun:
    """Measure a stream that has ended."""
    done = [job for job in look.jobs if job.state == "COMPLETED"]
    if len(done) != JOBS:
        raise RuntimeError(f"{JOBS - len(done)} of {JOBS} jobs did not complete")
    submit, start, end = np.array([(job.submit_s, job.start_s, job.end_s) for job in done]).T
    wait, run = start - submit, np.maximum(end - start, 1.0)
    held = [np.array([look.numbers[name] for name in job.allocated]) for job in done]
    costs = hop_costs(look.cluster.topology.tree, 1.0, held)
    cores = np.array([sum(each[0] for each in job.allocated.values()) for job in done])
    windows = [window for job in done if (window := started_alone(look, job)) is not None]
    solved = [(window.solved("exact", 1.0, 0), window.greedy_objective) for window in windows]
    chosen, optimum = np.sum([(cost, one.objective) for one, cost in solved if one.status is Status.OPTIMAL], axis=0)
    return found._replace(
        hops=float(costs[[len(one) > 1 for one in held]].mean()),
        wait_s=float(wait.mean()),
        slowdown=float(np.maximum((wait + run) / np.maximum(run, BOUND_S), 1.0).mean()),
        utilization=float((cores * run).sum()) / (look.cluster.processors * float(end.max() - submit.min())),
        regret=chosen / optimum - 1.0,
        as_pinned=sum(job.is_pinned for job in done),
    )


def fill(rows: Path, case: Case, port: int) -> None:
    """Run the streams of a case that are not in a file of rows yet, side by side, and append each when it ends."""
    known = {one[:3] for one in rows_in(rows, StreamRun)}
    wanted = [(seed, way) for seed in SEEDS for way in ("alone", "pin") if (case.name, seed, way) not in known]
    runs = [partial(run_stream, case, *one, port + at * PORTS) for at, one in enumerate(wanted)]
    # Every node is a process of some MiB.
    run_side_by_side(rows, runs, 6 if case.nodes < 500 else 2)


def run_side_by_side(rows: Path, runs: Sequence[Callable[[], NamedTuple]], at_once: int) -> None:
    """Run streams, at most ``at_once`` at the same time, and append the row of each to a file when it ends.

    After a failure no further stream is started.
    """

    def run_one(run: Callable[[], NamedTuple]) -> None:
        append_row(rows, run())

    with ThreadPoolExecutor(at_once) as side_by_side:
        begun = [side_by_side.submit(run_one, run) for run in runs]
        try:
            for one in as_completed(begun):
                one.result()
        finally:
            side_by_side.shutdown(wait=False, cancel_futures=True)


def table(found: Sequence[StreamRun]) -> str:
    """Return a row for each case, means over the seeds."""
    cells: list[list[Cell]] = []
    for case in CASES:
        alone, pin = (
            sorted((one for one in found if (one.case, one.way) == (case.name, way)), key=lambda one: one.seed)
            for way in ("alone", "pin")
        )
        if not alone or len(alone) != len(pin):
            continue
        changes = [100 * (one.hops / other.hops - 1) for one, other in zip(pin, alone, strict=True)]
        means = np.mean([[one[4:9] for one in way] for way in (alone, pin)], axis=1) * (1, 1, 1, 100, 100)
        hops, waits, slowdowns, busy, regret = means.T.tolist()
        by_seed = ", ".join(f"{change:+.1f}" for change in changes)
        cpu = 100 * float(np.mean([one.cpu for one in pin]))
        cells.append([case.name, *hops, by_seed, *waits, *slowdowns, *busy, *regret, cpu])
    return aligned_table(HEADER, cells, DIGITS)


def main() -> None:
    """Run a case, and print a row for each case in the file."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, help="file of rows, to which results are appended")
    parser.add_argument("--case", choices=[case.name for case in CASES], help="cluster and load to run")
    parser.add_argument(
        "--port", type=int, default=18_000, help="port of the first slurmctld; those of its nodes follow"
    )
    asked = parser.parse_args()
    for case in CASES:
        if case.name == asked.case:
            fill(asked.rows, case, asked.port)
    print(table(rows_in(asked.rows, StreamRun)))


if __name__ == "__main__":
    main()
