"""Hosts, the running jobs of this machine that take guests: jobs that Slurm lists, or processes that a user names."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from allocopt.cluster.hostlist import fold_hostlist
from allocopt.errors import UsageError
from allocopt.live.hosting.processes import PROC, Processes, started_at
from allocopt.live.slurm import Slurm, SlurmJob, listed_jobs, slurm_job

_RUNS, _SUSPENDED = "RUNNING", "SUSPENDED"


@dataclass(frozen=True, slots=True)
class Host:
    """A running job that takes guests; times in seconds since 1970."""

    id: str
    application: str
    processes: frozenset[int]  # ids of its processes, at least of those that were started first
    cores: int
    start_s: float
    limit_s: float  # for which it may run; infinite if it has no limit
    is_suspended: bool = False


class Hosts(Protocol):
    """Finds hosts."""

    @property
    def are_all_known(self) -> bool:
        """Whether no further host can appear."""

    def running(self) -> list[Host]:
        """Return the hosts that run now."""


@dataclass(frozen=True, slots=True)
class ProcessHosts:
    """Finds hosts by process ids. Each process, with all that it starts, is a host.

    Raises `UsageError` if a process does not exist, descends from another one, or is an ancestor of this process.
    """

    pids: tuple[int, ...]
    limit_s: float = float("inf")
    are_all_known: bool = field(init=False, default=True)
    _started: dict[int, int | None] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_started", {pid: started_at(pid) for pid in self.pids})
        now = Processes.now()
        for pid in self.pids:
            if pid not in now.parents:
                raise UsageError(f"process {pid} does not exist")
            below = now.with_descendants([pid])
            if os.getpid() in below:
                raise UsageError(f"process {pid} started this service and cannot be a host")
            if others := (below - {pid}) & set(self.pids):
                raise UsageError(f"process {min(others)} was started by process {pid}: give only one of them")

    def running(self) -> list[Host]:
        """Return the hosts that have not ended."""
        found = []
        for pid in self.pids:
            started = self._started[pid]
            if started is not None and started_at(pid) == started:
                name = (PROC / str(pid) / "comm").read_bytes().decode(errors="replace").strip()
                age_s = float((PROC / "uptime").read_text().split()[0]) - started / os.sysconf("SC_CLK_TCK")
                cores = len(os.sched_getaffinity(pid))
                found.append(Host(str(pid), name, frozenset((pid,)), cores, time.time() - age_s, self.limit_s))
        return found


@dataclass(frozen=True, slots=True)
class SlurmHosts:
    """Finds running jobs of Slurm that have opted in. A job is a host on each of the given nodes of this machine."""

    slurm: Slurm
    nodes: tuple[str, ...]
    has_opted_in: Callable[[SlurmJob], bool]
    are_all_known: bool = field(init=False, default=False)

    def running(self) -> list[Host]:
        """Return the jobs that run or are suspended now. Raises `SlurmError` if Slurm does not answer."""
        states = ("-t", f"{_RUNS},{_SUSPENDED}")
        queue = self.slurm.said("squeue", "-a", *states, "-w", fold_hostlist(self.nodes), "--json")
        found = []
        for told in listed_jobs(queue):
            job = slurm_job(told)
            if not self.has_opted_in(job):
                continue
            for node in job.allocated.keys() & set(self.nodes):
                # For a task of an array, scontrol needs the task's own job id, not ARRAY_TASK.
                pids = self.slurm.processes_of(str(told["job_id"]), node)
                if pids and os.getpid() not in Processes.now().with_descendants(pids):
                    name, cores = f"{job.id}@{node}", max(1, job.allocated[node][0])
                    is_suspended = job.state == _SUSPENDED
                    found.append(Host(name, job.name or job.id, pids, cores, job.start_s, job.limit_s, is_suspended))
        return found
