"""Measurements of hosts and guests from their processes, in the form that quota policies get in a simulation."""

import math
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from allocopt.live.hosting.control_groups import Group
from allocopt.live.hosting.guests import Guest
from allocopt.live.hosting.hosts import Host
from allocopt.live.hosting.processes import Kin, Use, Watch
from allocopt.simulator.quota.execution import Progress
from allocopt.traces.applications import QueuedJob
from allocopt.traces.job_profile import ProfiledJob, Stage, StageKind

_LEAST_SHARE = 1e-9  # smallest share of busy cores that is reported for a host, which must be above 0
_SHARES = 100  # steps of this share: a host with less than 1 % of its cores busy counts as idle
_LEAST_SHARE_OF_DEMAND = 1e-3  # smallest share of its demand that a job is assumed to get
_NEWEST = 0.3  # weight of the newest look in the average `Seen.share_alone`, if the host was busy all the time
_LIMIT_OVER_RUN = 1.25  # assumed ratio of limit to run time, if only the limit is known
_NO_LIMIT_S = 1e8  # limit that is used for a host without one
_LEAST_LEFT_S = 1.0  # shortest remaining time of a job that has not ended
MIB_PER_CORE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20 / (os.cpu_count() or 1)
"""Memory of this machine per core, in MiB."""


@dataclass(slots=True)
class Seen:
    """A job that is measured at every look. Its demand is the time in which its threads run or are ready to run."""

    watch: Watch = field(init=False, default_factory=Watch)
    processor_s: float = field(init=False, default=0.0)
    seconds: float = field(init=False, default=0.0)  # for which it was measured
    alone_s: float = field(init=False, default=0.0)  # in which it would have done the same work alone
    slowdown: float = field(init=False, default=1.0)  # at the last look
    cores: float = field(init=False, default=1.0)  # that its threads demanded at the last look
    memory_mib: float = field(init=False, default=0.0)  # largest so far
    share_alone: float = field(init=False, default=1.0)  # share of demand that its slowest thread gets without a guest

    def record(self, use: Use, seconds: float, *, is_alone: bool) -> None:
        """Add the use of the last seconds; ``is_alone`` states that no other job shared the cores."""
        if is_alone:
            self.share_alone += _NEWEST * use.busy * (use.share - self.share_alone)
            self.slowdown = 1.0
        else:
            # Sharing cores lengthens only the time in which the job runs or is ready to run.
            longer = 1.0 - min(1.0, max(_LEAST_SHARE_OF_DEMAND, use.share) / self.share_alone)
            self.slowdown = 1.0 / (1.0 - use.busy * longer)
        self.cores = (use.run_s + use.delay_s) / seconds
        self.memory_mib = max(self.memory_mib, use.memory_bytes / 2**20)
        self.processor_s += use.run_s
        self.seconds += seconds
        self.alone_s += seconds / self.slowdown

    @property
    def mean_slowdown(self) -> float:
        """Ratio of the seconds that passed to those that the same work would have taken alone."""
        return self.seconds / self.alone_s if self.alone_s else 1.0


@dataclass(slots=True)
class SeenHost(Seen):
    """A running job that takes guests."""

    host: Host
    number: int  # by which the policy knows it
    rests_until_s: float  # before which it gets no guest
    kin: Kin = field(init=False, default_factory=Kin)
    alive: set[int] = field(init=False, default_factory=set)  # its processes at the last look
    guest: "SeenGuest | None" = field(init=False, default=None)
    percent: int = field(init=False, default=0)  # quota of the guest
    slow_looks: int = field(init=False, default=0)  # looks in a row at which it was too slow
    slow_since_s: float = field(init=False, default=0.0)  # beginning of the time that the first of these looks measured

    def run_alone_s(self, now: float) -> float:
        """Return the seconds that it would have needed without guests to get as far as it is now."""
        return max(0.0, now - self.host.start_s - self.seconds) + self.alone_s

    def progress(self, now: float, expected_s: Mapping[str, float]) -> Progress:
        """Return the host as a policy sees it, given run times of ended jobs by application, in seconds."""
        host = self.host
        limit_s = min(host.limit_s, _NO_LIMIT_S)
        run_s = expected_s.get(host.application, limit_s / _LIMIT_OVER_RUN)
        stage = Stage(
            1.0,
            min(1.0, max(_LEAST_SHARE, math.floor(_SHARES * self.cores / host.cores) / _SHARES)),
            min(1.0, self.memory_mib / (host.cores * MIB_PER_CORE)),
            kind=StageKind.SEQUENTIAL if host.cores > 1 and self.cores <= 1.0 else StageKind.PARALLEL,
        )
        left_s = max(_LEAST_LEFT_S, run_s - self.run_alone_s(now))
        job = ProfiledJob(host.id, host.cores, (stage,), left_s, limit_s)
        found = Progress(self.number, QueuedJob(host.application, 0.0, job), host.start_s)
        found.slowdown = self.slowdown
        return found


@dataclass(slots=True)
class SeenGuest(Seen):
    """A program that waits, runs, is paused, or has ended."""

    guest: Guest
    number: int  # by which the policy knows it
    process: subprocess.Popen[bytes] | None = field(init=False, default=None)
    group: Group | None = field(init=False, default=None)
    started_s: float = field(init=False, default=0.0)
    ended_s: float = field(init=False, default=0.0)
    pauses: int = field(init=False, default=0)
    code: int | None = field(init=False, default=None)  # exit code

    @property
    def queued(self) -> QueuedJob:
        """The guest as a policy sees it while it waits."""
        guest = self.guest
        stage = Stage(1.0, guest.busy, min(1.0, guest.memory_mib / (guest.cores * MIB_PER_CORE)))
        left_s = max(_LEAST_LEFT_S, guest.limit_s / _LIMIT_OVER_RUN - self.alone_s)
        return QueuedJob(guest.application, 0.0, ProfiledJob(guest.name, guest.cores, (stage,), left_s, guest.limit_s))

    def progress(self) -> Progress:
        """Return the guest as a policy sees it while it runs."""
        found = Progress(self.number, self.queued, self.started_s)
        found.slowdown = self.slowdown
        return found

    @property
    def elapsed_s(self) -> float:
        """Seconds from its first start until now or until its end; 0 if it has not started."""
        return (self.ended_s or time.time()) - self.started_s if self.started_s else 0.0
