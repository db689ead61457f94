"""A real Slurm with an accelerated clock on the jobs of the micro cluster, compared with the simulation."""

import functools
import itertools
import re
import shlex
import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.cluster import read_cluster
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.hostlist import expand_hostlist
from allocopt.cluster.request import ClusterRequest, Request
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys
from allocopt.simulator.shared.present import RunningJob, state_after_pass
from allocopt.simulator.shared.room import SharedNodes, places_of
from allocopt.simulator.shared.state import AllocationRule, Shared, SharedJobs, SharedMachine, SharedRules, new_shared
from allocopt.traces.reading import read_workload
from benchmarks.virtual_slurm import own_lines, running
from papers.pages import page_parser, write_page

SPEED = 20
"""Seconds of the cluster per second: libfaketime speeds up Slurm's clock, so that its periods keep their settings."""
PERIOD_S = 30.0
DEPTH = 1200
FIRST_JOB = 1001
HEADER = ("queue by", "run", "starts %", "nodes %", "mean wait s", "± %", "free starts %")
DIGITS = (None, None, 1, 1, 0, 1, 1)
DROPPED = re.compile(
    "Auth|Cred|PluginDir|SlurmUser|Control|JobCred|SlurmSchedLog|SlurmctldLog|SlurmdLog|SlurmdSpool|Priority|StateSave"
    "|JobComp|JobAcct|Accounting|FrontEnd|Waittime|UsePAM|NodeName|MessageTimeout|SchedulerParam|Slurm(ct)?ldTimeout"
)


def configure(site: Path, folder: Path, port: int, *, multifactor: bool) -> list[str]:
    """Write the site's files with ports, folders and authentication of this run; return the names of the nodes."""
    host, text = socket.gethostname().split(".")[0], (site / "slurm.conf").read_text()
    lines = [line for line in text.splitlines() if not DROPPED.match(line) and not line.startswith("PartitionName")]
    (parameters,) = re.findall(r"^SchedulerParameters=.*", text, re.MULTILINE)
    lines += [*own_lines(folder, port), f"{parameters},max_sched_time=45"]
    lines += re.findall(r"^Priority.*", text, re.MULTILINE) if multifactor else ["PriorityType=priority/basic"]
    names: list[str] = []
    for hosts, rest in re.findall(r"^NodeName=(\S+) (.*)", text, re.MULTILINE):
        for name in expand_hostlist(hosts):
            own = f"NodeHostname={host} NodeAddr=127.0.0.1 Port={port + 1 + len(names)}"
            lines.append(f"NodeName={name} {rest if name == 'DEFAULT' else f'{own} {rest}'}")
            names += [name] if name != "DEFAULT" else []
    lines += re.findall(r"^PartitionName.*", text, re.MULTILINE)
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    devices = "".join(f"NodeName=g1 Name=gpu File=/dev/{name}\n" for name in ("null", "zero"))
    (folder / "gres.conf").write_text("AutoDetect=off\n" + devices)
    shutil.copy(site / "topology.conf", folder)
    return names


def record(site: Path, folder: Path, port: int, *, multifactor: bool) -> None:
    """Run the jobs by Slurm on virtual nodes; afterwards `folder` has its log."""
    folder.mkdir(parents=True)
    nodes = configure(site, folder, port, multifactor=multifactor)
    with running(folder, nodes, SPEED) as slurm:
        began = time.monotonic()
        for line in (site / "jobs500.events").read_text().splitlines():
            words = shlex.split(line)
            options = words[words.index("|") + 1 : -1]
            values = dict(itertools.pairwise(words))
            kept = [word for word in options if word.startswith("--") and not word.startswith("--uid")]
            kept += [word for name in ("-t", "-n", "-p", "-J") for word in (name, values[name])]
            run = float(values["-sim-walltime"])
            time.sleep(max(began + float(values["-dt"]) / SPEED - time.monotonic(), 0))
            # A negative run time stands for a job that reaches its limit.
            body = f"exec sleep {run if run >= 0 else 1e5:g}"
            job = slurm.said("sbatch", "--parsable", "--output", "/dev/null", *kept, "--wrap", body)
            if job.endswith("50"):
                print(job, Path("/proc/loadavg").read_text().strip(), flush=True)
        while slurm.said("squeue", "-h"):
            time.sleep(3)


@dataclass(slots=True)
class Job:
    """A job: its request, and its execution by Slurm."""

    request: Request
    limit: float
    submit: float = np.nan
    priority: int = 0
    start: float = np.nan
    end: float = np.nan
    nodes: str = ""


class Event(NamedTuple):
    """A line of slurmctld's log."""

    time: float
    kind: str  # of `KINDS`
    job: int  # its place in the site's events


class State(NamedTuple):
    """Running and waiting jobs at a time."""

    time: float
    running: list[int]
    waiting: list[int]


CLAIM = (
    "In the states in which a real Slurm decided, the simulation with conservative backfilling starts 92 to 97 % of "
    "its jobs within Slurm's period of 30 s, 91 to 95 % on its nodes. In a free run its mean wait is within 3 % of "
    "Slurm's; with one reservation (EASY) it is 22 to 29 % below. Single starts of a free run cannot agree: Slurm "
    "itself repeats only 15 to 22 % of its starts in a second run, whose mean wait differs by up to 6 %."
)
ASSUMED = (
    "Slurm 22.05.8 of Debian ran the 500 jobs of the micro cluster (10 nodes of 12 cores) with the site's own files "
    "on virtual nodes, its clock accelerated 20 times by libfaketime, so that its periods keep their settings. "
    "Ports, users and time-outs of messages are those of this run, and there is no accounting. *By size*: the site's "
    "priority/multifactor, of which only size has an effect without accounting; *by arrival*: priority/basic. Jobs "
    "without a run time end at their limit.\n\n*Starts*, *nodes*: jobs first started within 30 s of Slurm, and on "
    "its nodes, given Slurm's state before; *free*: starts if each continues from its own state. Nodes are chosen by "
    "the lowest switch.\n\nEffects on the mean wait, by a model of Slurm's rules with one rule changed at a time: "
    "one reservation instead of one per job, -22 %; nodes by fewest tasks and cores instead of nodes and names, +3 "
    "%; planned starts after each end instead of after all ends in one of Slurm's windows, +2 %, and 6 % fewer "
    "starts by arrival. One job that is delayed by a cycle shifts all jobs behind it."
)
KINDS = {
    "submit": re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\d+) InitPrio=(\d+)"),
    "scheduled": re.compile(r"sched: Allocate JobId=(\d+) NodeList=(\S+)"),
    "backfilled": re.compile(r"_start_job: Started JobId=(\d+) in \S+ on (\S+)"),
    "end": re.compile(r"(?:_job_complete: |Time limit exhausted for )JobId=(\d+)(?: done)?$"),
    "begin": re.compile("_attempt_backfill: beginning()"),
    "completed": re.compile("_attempt_backfill: completed testing()"),
}


def read_record(site: Path, folder: Path) -> tuple[list[Job], list[Event]]:
    """Return the jobs, and the events of slurmctld's log, in its order."""
    asked, events = read_workload(site / "jobs500.events"), []
    jobs = [Job(request, limit) for request, limit in zip(asked.requests, asked.estimate.tolist(), strict=True)]
    for line in (folder / "slurmctld.log").read_text(errors="replace").splitlines():
        for kind, pattern in KINDS.items():
            if match := pattern.search(line):
                now, number = datetime.fromisoformat(line[1:24]).timestamp(), int(match[1] or 0) - FIRST_JOB
                events.append(Event(now, kind, number))
                if kind == "submit":
                    jobs[number].submit, jobs[number].priority = now, int(match[2])
                elif kind in ("scheduled", "backfilled"):
                    jobs[number].start, jobs[number].nodes = now, match[2]
                elif kind == "end":
                    jobs[number].end = now
    return jobs, events


def column(jobs: Sequence[Job], name: str) -> FloatArray:
    return np.array([getattr(job, name) for job in jobs], dtype=np.float64)


@functools.cache
def on_cluster(request: Request, cluster: Cluster) -> ClusterRequest:
    return request.on(cluster)


def hosts(cluster: Cluster, state: Shared, job: int) -> set[str]:
    return {cluster.nodes[node].name for node in places_of(state, job)}


def decided(
    cluster: Cluster, jobs: Sequence[Job], rule: AllocationRule, backfill: Backfill, state: State
) -> dict[int, set[str]]:
    """Return the waiting jobs that the simulation starts in a state of Slurm, with their nodes."""
    now = np.floor(state.time)
    waiting = sorted(state.waiting, key=lambda job: (-jobs[job].priority, job))
    free, running = cluster.capacity.copy(), []
    for job in state.running:
        request = on_cluster(jobs[job].request, cluster)
        nodes = np.sort(cluster.topology.numbers(expand_hostlist(jobs[job].nodes)))
        tasks = request.spread(free, nodes)
        held = request.per_node + tasks[:, None] * request.per_task
        free[nodes] -= free[nodes] if request.is_exclusive else held
        if free.min() < 0 or tasks.sum() < request.tasks:
            raise SystemExit("jobs that ran beside each other in Slurm do not fit")
        left = max(np.floor(jobs[job].start) + jobs[job].limit - now, 1.0)
        running.append(RunningJob(request, nodes, tasks, left))
    asked, limits = [on_cluster(jobs[job].request, cluster) for job in waiting], [jobs[job].limit for job in waiting]
    # The backfill cycle follows the pass immediately.
    rules = SharedRules(rule, backfill, period=1.0, depth=DEPTH)
    begun = state_after_pass(SharedMachine.of(cluster), running, asked, np.array(limits, dtype=np.float64), rules, now)
    started = ~np.isnan(begun.jobs["start"])
    return {job: hosts(cluster, begun, at) for at, job in enumerate(waiting) if started[at]}


def replayed(cluster: Cluster, jobs: Sequence[Job], events: Sequence[Event], rule: AllocationRule) -> list[Cell]:
    """Let the simulation decide in every state in which Slurm decided, and compare.

    A start by the simulation counts at the first state of Slurm in which it happens; the next state has only Slurm's
    starts.
    """
    state = before = State(0.0, [], [])
    first: dict[int, tuple[float, set[str]]] = {}
    for event in events:
        if event.kind == "submit":
            state.waiting.append(event.job)
        elif event.kind == "end":
            state.running.remove(event.job)
        elif event.kind == "begin":
            before = State(event.time, [*state.running], [*state.waiting])
        elif event.kind == "completed":
            found = decided(cluster, jobs, rule, Backfill.CONSERVATIVE, before)
            first = {job: (before.time, nodes) for job, nodes in found.items()} | first
        else:
            if event.kind == "scheduled":
                found = decided(cluster, jobs, rule, Backfill.NONE, state._replace(time=event.time))
                first = {job: (event.time, nodes) for job, nodes in found.items()} | first
            state.waiting.remove(event.job)
            state.running.append(event.job)
    agreed = [job for job, (at, _) in first.items() if abs(at - jobs[job].start) <= PERIOD_S]
    placed = sum(first[job][1] == set(expand_hostlist(jobs[job].nodes)) for job in agreed)
    return [100 * len(agreed) / len(jobs), 100 * placed / len(jobs)]


def free_run(cluster: Cluster, jobs: Sequence[Job], rule: AllocationRule, backfill: Backfill) -> list[Job]:
    """Return the jobs as simulated freely, with the run times of Slurm."""
    submit, n = column(jobs, "submit"), len(jobs)
    run, requests = column(jobs, "end") - column(jobs, "start"), [on_cluster(job.request, cluster) for job in jobs]
    state = new_shared(
        SharedMachine.of(cluster),
        requests,
        SharedJobs(np.arange(n), submit, run, column(jobs, "limit")),
        SharedRules(rule, backfill, PERIOD_S, DEPTH),
        QueueKeys(OrderKind.FIXED, -column(jobs, "priority")),
    )
    SharedNodes(state, cluster, requests, np.arange(n), np.arange(n)).run()
    start = state.jobs["start"]
    nodes = [",".join(hosts(cluster, state, job)) for job in range(n)]
    return [replace(job, start=at, nodes=on) for job, at, on in zip(jobs, start.tolist(), nodes, strict=True)]


def beside(jobs: Sequence[Job], slurms: Sequence[Job]) -> list[Cell]:
    """Compare one run with another: mean wait, and share of starts within a period."""
    wait, theirs = (column(one, "start") - column(one, "submit") for one in (jobs, slurms))
    # Count times from the begin of each run.
    late = (column(jobs, "start") - jobs[0].submit) - (column(slurms, "start") - slurms[0].submit)
    share, near = 100 * (wait.mean() / theirs.mean() - 1), 100 * np.mean(np.abs(late) <= PERIOD_S)
    return [float(wait.mean()), float(share), float(near)]


def rows(site: Path, folders: Sequence[Path], rules: Sequence[AllocationRule]) -> list[list[Cell]]:
    """Compare with the first recording of each order."""
    cluster = read_cluster([site / name for name in ("slurm.conf", "gres.conf", "topology.conf")])
    found: list[list[Cell]] = []
    told: dict[str, list[Job]] = {}
    for folder in folders:
        jobs, events = read_record(site, folder)
        order = "size" if "priority/multifactor" in (folder / "slurm.conf").read_text() else "arrival"
        slurms = told.setdefault(order, jobs)
        label = "Slurm" if slurms is jobs else "Slurm again"
        found.append([order, label, None, None, *beside(jobs, slurms)])
        for rule in rules if slurms is jobs else ():
            for backfill in (Backfill.CONSERVATIVE, Backfill.EASY):
                steps: list[Cell] = [None, None]
                if backfill is Backfill.CONSERVATIVE:
                    steps = replayed(cluster, jobs, events, rule)
                label = backfill.name.lower() + (f" {rule.name.lower()}" if len(rules) > 1 else "")
                found.append([order, label, *steps, *beside(free_run(cluster, jobs, rule, backfill), slurms)])
    return found


def main() -> None:
    parser = page_parser(__doc__, "all rules of allocation", "the site's files, sites/micro")
    parser.add_argument("folders", nargs="+", type=Path, help="recordings to compare, or the one to make")
    parser.add_argument("--record", choices=("basic", "multifactor"), help="run the jobs by Slurm in this order")
    parser.add_argument("--port", type=int, default=23000, help="first of eleven ports (default 23000)")
    asked = parser.parse_args()
    site = asked.data / "sites" / "micro"
    if asked.record:
        record(site, asked.folders[0].resolve(), asked.port, multifactor=asked.record == "multifactor")
        return
    rules = tuple(AllocationRule) if asked.quick else (AllocationRule.LOWEST_SWITCH,)
    write_page(
        "slurm_replay",
        "The simulation compared with a real Slurm",
        CLAIM,
        [aligned_table(HEADER, rows(site, asked.folders, rules), DIGITS)],
        ASSUMED,
        is_quick=asked.quick,
    )


if __name__ == "__main__":
    main()
