"""The service that runs guests on the cores of running jobs, by the decisions of a policy that divides cores.

It looks at hosts and guests again and again, tells the policy what they do in the terms of the simulation's quotas, and
does what it says. A guest whose host suffers or ends is paused and waits again. Hosts are left as they are.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from allocopt.child_process import child_environment, module_command
from allocopt.live.hosting.control_groups import Group, abandoned, clear, find_version, processes
from allocopt.live.hosting.guests import Guest
from allocopt.live.hosting.hosts import Hosts
from allocopt.live.hosting.processes import is_alive
from allocopt.live.hosting.seen import SeenGuest, SeenHost
from allocopt.live.journal import FORMAT, VERSION, Journal
from allocopt.live.slurm import SlurmError
from allocopt.simulator.decisions import PlaceGuest, SetQuota
from allocopt.simulator.quota.execution import QuotaView, SharedCores
from allocopt.simulator.quota.scheduler import QuotaScheduler

LEAST_PERIOD_S = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """What hosts bear, and times in seconds."""

    period_s: float = 0.5  # between two looks at processes
    hosts_s: float = 5.0  # between two looks for hosts
    most_slowdown: float = 1.5  # of a host, beyond which its guest is paused
    looks: int = 2  # in a row at which it has to be that slow
    rest_s: float = 30.0  # for which it gets no guest after that
    first_s: float = 2.0  # for which a new host is watched before it gets a guest


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a guest: its exit code, None if it did not end; seconds; how often it was paused."""

    guest: str
    code: int | None
    elapsed_s: float
    processor_s: float
    pauses: int


class HostingService:
    """Runs guests beside hosts until all have ended.

    Parameters
    ----------
    policy
        Which guest gets which quota beside which host.
    hosts
        Where hosts are found.
    guests
        The guests, in the order in which they wait.
    journal
        Where everything that happens is written.
    limits
        What hosts bear, and times.
    seed
        Fixes what the policy draws.

    Raises
    ------
    UsageError
        If there are no control groups that divide processor time.
    """

    def __init__(
        self,
        policy: QuotaScheduler,
        hosts: Hosts,
        guests: Sequence[Guest],
        journal: Journal,
        limits: Limits | None = None,
        seed: int = 0,
    ) -> None:
        self.policy, self.hosts, self.journal, self.limits = policy, hosts, journal, limits or Limits()
        self.slowdowns: dict[str, float] = {}
        """Mean slowdown of each host that has ended or was there at the end."""
        self._rng = np.random.default_rng(seed)
        self._version = find_version()
        self._guests = [SeenGuest(guest, number) for number, guest in enumerate(guests)]
        self._waiting = list(self._guests)
        self._hosts: dict[str, SeenHost] = {}
        self._expected_s: dict[str, float] = {}  # run time of the last job of each application that has ended, alone
        self._numbers = iter(range(len(guests), 1_000_000_000))  # of hosts
        self._groups = 0
        self._is_due = False  # whether something has happened since the policy was asked

    def run(self, seconds: float | None = None) -> tuple[Outcome, ...]:
        """Serve until all guests have ended, or for some seconds; guests that are left then are killed."""
        began = time.time()
        self.journal.write(
            "begun", began, format=FORMAT, version=VERSION, mode="guests", solver=self.policy.name,
            guests=len(self._guests),
        )  # fmt: skip
        with self._guarded():
            hosts_at = decided_at = -np.inf
            looked_at = began
            while any(one.code is None for one in self._guests) and (seconds is None or time.time() < began + seconds):
                now = time.time()
                self._look(now, max(LEAST_PERIOD_S, now - looked_at))
                if now >= hosts_at + self.limits.hosts_s:
                    self._find_hosts(now)
                    hosts_at = now
                has_rested = any(looked_at < host.rests_until_s <= now for host in self._hosts.values())
                looked_at = now
                if self._is_due or has_rested or now >= decided_at + (self.policy.period_s or np.inf):
                    self._is_due = False
                    self._decide(now)
                    decided_at = now
                time.sleep(max(0.0, now + self.limits.period_s - time.time()))
        return tuple(map(_outcome, self._guests))

    def _find_hosts(self, now: float) -> None:
        """Note which hosts there are; while Slurm does not answer, those of before."""
        try:
            running = {host.id: host for host in self.hosts.running()}
        except SlurmError as error:
            self.journal.write("away", now, why=str(error))
            return
        for name, host in running.items():
            if name in self._hosts:
                self._hosts[name].host = host
            else:
                self._hosts[name] = SeenHost(host, next(self._numbers), now + self.limits.first_s)
        for name in set(self._hosts) - set(running):
            self._end_host(self._hosts[name], now)

    def _look(self, now: float, seconds: float) -> None:
        """Look at all processes: who has ended, who does what, and which host suffers."""
        for guest in self._guests:
            if guest.process is not None and guest.code is None and guest.process.poll() is not None:
                self._end_guest(guest, now)
        for host in list(self._hosts.values()):
            if not any(map(is_alive, host.host.processes)):
                self._end_host(host, now)
                continue
            host.add(host.watch.look(host.host.processes), seconds, is_alone=host.guest is None)
            if host.guest is None:
                continue
            if host.guest.group is not None:
                use = host.guest.watch.look(processes(host.guest.group.folder))
                host.guest.add(use, seconds, is_alone=False)
            host.slow_looks = host.slow_looks + 1 if host.slowdown > self.limits.most_slowdown else 0
            if host.slow_looks >= self.limits.looks:
                self._pause_guest(host, now, f"the host takes {host.slowdown:.2f} times as long as alone")
                host.rests_until_s = now + self.limits.rest_s

    def _decide(self, now: float) -> None:
        """Let the policy say which guests start or go on, and which quotas change."""
        hosts = {host.number: host for host in self._hosts.values() if now >= host.rests_until_s}
        shared = {number: self._shared(host, now) for number, host in hosts.items()}
        view = self._view(list(shared.values()), now)
        for decision in self.policy.share(view):
            match decision:
                case SetQuota():
                    self._set_quota(hosts[decision.host], decision.percent, now)
                    shared[decision.host].percent = decision.percent
                case PlaceGuest():
                    guest, host = self._guests[decision.job], hosts[decision.host]
                    self._place(guest, host, decision.percent, now)
                    view.queue.remove(guest.number)
                    one = shared[decision.host]
                    one.guest, one.percent = guest.progress(), decision.percent

    def _view(self, shared: list[SharedCores], now: float) -> QuotaView:
        jobs = tuple(guest.queued for guest in self._guests)
        queue = [guest.number for guest in self._waiting]
        return QuotaView(now, sum(one.cores for one in shared), jobs, queue, shared, self._rng)

    def _shared(self, host: SeenHost, now: float) -> SharedCores:
        guest = None if host.guest is None else host.guest.progress()
        return SharedCores(host.progress(now, self._expected_s), guest, host.percent)

    def _place(self, guest: SeenGuest, host: SeenHost, percent: int, now: float) -> None:
        """Start a guest beside a host, or let one go on that was paused."""
        self._groups += 1
        for pid in host.host.processes:
            # Processes of the host may end meanwhile.
            with suppress(ProcessLookupError):
                cores = os.sched_getaffinity(pid)
                group = Group.beside(pid, self._groups, self._version)
                break
        else:
            # The next look ends the host.
            return
        self._tell_guard(f"+{group.folder}")
        for left in abandoned(group.folder.parent):
            clear(left)
        group.set_quota(percent)
        if guest.process is None:
            guest.process, guest.started_s = group.started(guest.guest.command, cores, guest.guest.output), now
        elif guest.group is not None:
            for pid in processes(guest.group.folder):
                group.add(pid, cores)
            group.send(signal.SIGCONT)
            self._remove(guest.group)
        guest.group = group
        self._waiting.remove(guest)
        host.guest, host.percent, host.slow_looks = guest, percent, 0
        self.journal.write("guest placed", now, guest=guest.guest.name, host=host.host.id, percent=percent)

    def _set_quota(self, host: SeenHost, percent: int, now: float) -> None:
        if host.guest is None or host.guest.group is None or percent == host.percent:
            return
        # A guest that has just ended has no group.
        with suppress(FileNotFoundError):
            host.guest.group.set_quota(percent)
        host.percent = percent
        self.journal.write("guest quota", now, guest=host.guest.guest.name, host=host.host.id, percent=percent)

    def _pause_guest(self, host: SeenHost, now: float, why: str) -> None:
        """Stop the guest of a host; it waits before all others, and goes on later."""
        guest, host.guest, host.percent, host.slow_looks = host.guest, None, 0, 0
        self._is_due = True
        if guest is None or guest.group is None:
            return
        guest.group.send(signal.SIGSTOP)
        guest.pauses += 1
        self._waiting.insert(0, guest)
        self.journal.write("guest paused", now, guest=guest.guest.name, host=host.host.id, why=why)

    def _end_host(self, host: SeenHost, now: float) -> None:
        self.policy.ended(self._view([], now), self._shared(host, now))
        self._pause_guest(host, now, "the host has ended")
        del self._hosts[host.host.id]
        self._expected_s[host.host.application] = host.run_alone_s(now)
        self.slowdowns[host.host.id] = host.mean_slowdown
        self.journal.write("host ended", now, host=host.host.id, slowdown=host.mean_slowdown)

    def _end_guest(self, guest: SeenGuest, now: float) -> None:
        assert guest.process is not None
        assert guest.group is not None
        self._is_due = True
        guest.code, guest.ended_s = guest.process.returncode, now
        for host in self._hosts.values():
            if host.guest is guest:
                host.guest, host.percent = None, 0
        if guest in self._waiting:
            # It was killed while it was paused.
            self._waiting.remove(guest)
        self._remove(guest.group)
        self.journal.write("guest ended", now, guest=guest.guest.name, code=guest.code, processor_s=guest.processor_s)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Let a guard end the guests if this process is killed; at the end, kill those that are left."""
        self._guard = _guard()
        try:
            yield
        finally:
            now = time.time()
            for guest in self._guests:
                if guest.process is not None and guest.group is not None and guest.code is None:
                    self._remove(guest.group)
                    guest.process.wait()
                    self.journal.write("guest killed", now, guest=guest.guest.name)
            for host in self._hosts.values():
                self.slowdowns[host.host.id] = host.mean_slowdown
            with suppress(BrokenPipeError):
                self._guard.communicate()

    def _remove(self, group: Group) -> None:
        if clear(group.folder):
            self._tell_guard(f"-{group.folder}")

    def _tell_guard(self, line: str) -> None:
        """Tell the guard of a group; one that was killed is started again and told of all."""
        lines = [line]
        if self._guard.poll() is not None:
            self._guard = _guard()
            lines = [f"+{guest.group.folder}" for guest in self._guests if guest.group is not None] + lines
        assert self._guard.stdin is not None
        with suppress(BrokenPipeError):
            self._guard.stdin.write("".join(f"{one}\n" for one in lines))
            self._guard.stdin.flush()


def _guard() -> subprocess.Popen[str]:
    return subprocess.Popen(
        module_command("allocopt.live.hosting.guard"),
        stdin=subprocess.PIPE,
        text=True,
        env=child_environment(),
        start_new_session=True,
    )


def _outcome(guest: SeenGuest) -> Outcome:
    return Outcome(guest.guest.name, guest.code, guest.elapsed_s, guest.processor_s, guest.pauses)
