"""Hosts: running jobs of this machine that take guests, as Slurm tells of them, or processes that a user names."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from allocopt.cluster.slurm_jobs import RUNNING
from allocopt.errors import UsageError
from allocopt.live.hosting.processes import with_descendants
from allocopt.live.slurm import Slurm, SlurmError, SlurmJob


@dataclass(frozen=True, slots=True)
class Host:
    """A running job that takes guests; times in seconds since 1970."""

    id: str
    application: str
    processes: frozenset[int]
    cores: int
    start_s: float
    limit_s: float  # for which it may run; infinite where that is not limited


class Hosts(Protocol):
    """Where hosts are found."""

    def running(self) -> list[Host]:
        """Return those that run now."""


@dataclass(frozen=True, slots=True)
class ProcessHosts:
    """Processes and what they start, by their numbers; each is a host."""

    pids: tuple[int, ...]
    limit_s: float = float("inf")

    def __post_init__(self) -> None:
        for pid in self.pids:
            if not os.path.exists(f"/proc/{pid}"):
                raise UsageError(f"there is no process {pid}")

    def running(self) -> list[Host]:
        """Return those that have not ended."""
        found = []
        for pid in self.pids:
            with suppress(ProcessLookupError, FileNotFoundError):
                name = _read(f"/proc/{pid}/comm").strip()
                started = time.time() - _age_s(pid)
                there = with_descendants([pid])
                if there:
                    cores = len(os.sched_getaffinity(pid))
                    found.append(Host(str(pid), name, there, cores, started, self.limit_s))
        return found


@dataclass(frozen=True, slots=True)
class SlurmHosts:
    """Running jobs of Slurm on some nodes that are this machine, if they have opted in; each is a host on each node."""

    slurm: Slurm
    nodes: tuple[str, ...]
    has_opted_in: Callable[[SlurmJob], bool]

    def running(self) -> list[Host]:
        """Return those that run now. Raises `SlurmError` if Slurm does not answer."""
        found = []
        for job in self.slurm.look().jobs:
            if job.state in RUNNING and self.has_opted_in(job):
                for node in self.nodes:
                    if node in job.allocated:
                        cores = max(1, job.allocated[node][0])
                        pids = self._pids(job.id, node)
                        if pids:
                            name = f"{job.id}@{node}"
                            application = job.name or job.id
                            found.append(Host(name, application, pids, cores, job.start_s, job.limit_s))
        return found

    def _pids(self, job: str, node: str) -> frozenset[int]:
        # A job that has just ended is not known any more.
        try:
            lines = self.slurm.said("scontrol", "listpids", job, node).splitlines()[1:]
        except SlurmError:
            return frozenset()
        return with_descendants([int(line.split()[0]) for line in lines if line.split()[0].isdigit()])


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _age_s(pid: int) -> float:
    # The 22nd field is when it started, in ticks since the machine did.
    started = int(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return float(_read("/proc/uptime").split()[0]) - started
