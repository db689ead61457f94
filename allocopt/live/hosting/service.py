"""The service that runs guests on the cores of running jobs, as decided by a policy that divides cores.

At every look it measures hosts and guests, shows them to the policy as a simulation would, and carries out the policy's
decisions. If a host becomes too slow or ends, its guest is paused and waits again. Hosts are not changed.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocopt.child_process import child_environment, module_command, user_environment
from allocopt.errors import AllocoptError
from allocopt.files.faults import bad_file, os_fault
from allocopt.live.hosting.control_groups import (
    Group,
    NoGroupError,
    abandoned_groups,
    clear,
    find_version,
    group_name,
    processes_below,
    send,
)
from allocopt.live.hosting.guests import Guest
from allocopt.live.hosting.hosts import Host, Hosts
from allocopt.live.hosting.processes import Processes
from allocopt.live.hosting.seen import SeenGuest, SeenHost
from allocopt.live.journal import FORMAT, VERSION, Journal
from allocopt.live.lock import only_service
from allocopt.simulator.decisions import PlaceGuest, SetQuota
from allocopt.simulator.quota.execution import QuotaView, SharedCores
from allocopt.simulator.quota.scheduler import QuotaScheduler

LEAST_PERIOD_S = 0.05
_TELL_S = 10.0  # between two looks that are written into the journal
_DIE_S = 5.0  # to wait for the end of a guest that was killed


@dataclass(frozen=True, slots=True)
class Limits:
    """How much hosts may be slowed down, and how often to look; times in seconds."""

    period_s: float = 0.5  # between two looks at processes
    hosts_s: float = 5.0  # between two searches for hosts
    most_slowdown: float = 1.5  # slowdown of a host above which its guest is paused
    slow_looks: int = 2  # number of looks in a row at which the host has to be that slow
    rest_s: float = 30.0  # for which the host then gets no guest
    watch_first_s: float = 2.0  # for which a new host is measured before it gets a guest


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a guest."""

    guest: str
    state: str  # ended, killed, or waiting if it never ran
    code: int | None  # exit code
    elapsed_s: float  # since its first start
    processor_s: float
    pauses: int


class HostingService:
    """Runs guests beside hosts until all guests have ended, or no host can come any more.

    Parameters
    ----------
    policy
        Decides which guest gets which quota beside which host.
    hosts
        Finds hosts.
    guests
        The guests, in the order in which they wait.
    journal
        The journal of everything that happens.
    limits
        How much hosts may be slowed down, and how often to look.
    seed
        Random seed of the policy.

    Raises
    ------
    UsageError
        If there are no control groups with a CPU controller.
    BadFileError
        If the file for the output of a guest cannot be written.
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
        """Mean slowdown of each host that has ended or still ran at the end."""
        for guest in guests:
            _check_output(guest.output)
        self._rng = np.random.default_rng(seed)
        self._version = find_version()
        self._environment = user_environment()
        self._guests = [SeenGuest(guest, number) for number, guest in enumerate(guests)]
        self._waiting = list(self._guests)
        self._hosts: dict[str, SeenHost] = {}
        self._expected_s: dict[str, float] = {}  # run time without guests of the last ended job of each application
        self._next_number = len(guests)  # of a host
        self._next_group = 0
        self._looks = 0
        self._is_due = False  # whether something has happened since the policy last decided
        self._is_away = False  # whether Slurm does not answer

    def run(self, seconds: float | None = None) -> tuple[Outcome, ...]:
        """Serve until all guests have ended, the seconds are over, or Ctrl-C; then kill the guests that are left."""
        began = time.time()
        with ExitStack() as stack:
            stack.enter_context(only_service("guests", "runs guests on this machine"))
            finder = stack.enter_context(ThreadPoolExecutor(1))
            self.journal.write("begun", began, format=FORMAT, version=VERSION, mode="guests", solver=self.policy.name)
            for left in abandoned_groups(self._version.mount):
                self.journal.write("guest killed", began, guest=left.name, why="its service was killed")
                clear(left)
            stack.enter_context(self._guarded())
            self._serve(finder, began, np.inf if seconds is None else began + seconds)
        return self.outcomes()

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return the outcomes of all guests."""
        return tuple(map(_outcome, self._guests))

    def _serve(self, finder: ThreadPoolExecutor, began: float, until: float) -> None:
        # Slurm is asked in another thread, because an answer may take longer than a period.
        asked: Future[list[Host]] | None = None
        asked_at = decided_at = told_at = -np.inf
        looked_at, are_found = began, False
        while any(one.code is None for one in self._guests) and time.time() < until:
            now = time.time()
            if asked is None and now >= asked_at + self.limits.hosts_s:
                asked, asked_at = finder.submit(self.hosts.running), now
            if asked is not None and (asked.done() or not are_found):
                are_found |= self._take_hosts(asked, now)
                asked = None
            self._look(now, max(LEAST_PERIOD_S, now - looked_at))
            has_rested = any(looked_at < host.rests_until_s <= now for host in self._hosts.values())
            looked_at = now
            if self._is_due or has_rested or now >= decided_at + (self.policy.period_s or np.inf):
                self._is_due = False
                self._decide(now)
                decided_at = now
            if now >= told_at + _TELL_S:
                self._tell_look(now)
                told_at = now
            if are_found and not self._hosts and self.hosts.are_all_known:
                break
            time.sleep(max(0.0, now + self.limits.period_s - time.time()))

    def _take_hosts(self, asked: "Future[list[Host]]", now: float) -> bool:
        """Update the hosts and return True; if Slurm does not answer, keep the known ones and return False."""
        try:
            running = {host.id: host for host in asked.result()}
        except AllocoptError as error:
            if not self._is_away:
                self.journal.write("away", now, why=str(error))
            self._is_away = True
            return False
        if self._is_away:
            self.journal.write("back", now)
        self._is_away = False
        for name, found in running.items():
            host = self._hosts.get(name)
            if host is None:
                host = SeenHost(found, self._next_number, now + self.limits.watch_first_s)
                self._next_number += 1
                self._hosts[name] = host
                self.journal.write("host found", now, host=name, application=found.application, cores=found.cores)
            was_suspended, host.host = host.host.is_suspended, found
            if found.is_suspended and not was_suspended:
                # While the host is suspended, Slurm may give its cores to other jobs.
                self._pause_guest(host, now, "the host is suspended")
                host.rests_until_s = np.inf
            elif was_suspended and not found.is_suspended:
                host.rests_until_s = now + self.limits.watch_first_s
        for name in set(self._hosts) - set(running):
            self._end_host(self._hosts[name], now)
        return True

    def _look(self, now: float, seconds: float) -> None:
        """Look at all processes: note which guests and hosts ended, measure the others, pause guests of slow hosts."""
        self._looks += 1
        for guest in self._guests:
            if guest.process is not None and guest.code is None and guest.process.poll() is not None:
                self._end_guest(guest, now)
        processes = Processes.now()
        for host in list(self._hosts.values()):
            host.alive = host.kin.alive(host.host.processes, processes)
            if not host.alive:
                self._end_host(host, now)
                continue
            host.record(host.watch.look(host.alive, seconds), seconds, is_alone=host.guest is None)
            if host.guest is None:
                continue
            if host.guest.group is not None:
                use = host.guest.watch.look(processes_below(host.guest.group.folder), seconds)
                host.guest.record(use, seconds, is_alone=False)
            if host.slowdown <= self.limits.most_slowdown:
                host.slow_looks = 0
                continue
            if not host.slow_looks:
                host.slow_since_s = now - seconds
            host.slow_looks += 1
            if host.slow_looks >= self.limits.slow_looks:
                self.policy.ended(self._view([], now), self._shared(host, now))
                why = f"the host takes {host.slowdown:.2f} times as long as alone"
                self._pause_guest(host, now, why, suffered_s=now - host.slow_since_s)
                host.rests_until_s = now + self.limits.rest_s

    def _tell_look(self, now: float) -> None:
        jobs = {
            one.guest.name: {"state": _state(one), "start_s": one.started_s, "on": self._host_of(one)}
            for one in self._guests
        }
        self.journal.write("look", now, looks=self._looks, jobs=jobs, gone=[], away={})

    def _host_of(self, guest: SeenGuest) -> str:
        return next((host.host.id for host in self._hosts.values() if host.guest is guest), "")

    def _decide(self, now: float) -> None:
        """Let the policy decide which guests start or continue and which quotas change, and carry that out."""
        hosts = {host.number: host for host in self._hosts.values() if now >= host.rests_until_s}
        shared = {number: self._shared(host, now) for number, host in hosts.items()}
        view = self._view(list(shared.values()), now)
        for decision in self.policy.share(view):
            match decision:
                case SetQuota():
                    self._set_quota(hosts[decision.host], decision.percent, now)
                    shared[decision.host].percent = decision.percent
                case PlaceGuest():
                    guest, host, one = self._guests[decision.job], hosts[decision.host], shared[decision.host]
                    view.queue.remove(guest.number)
                    if self._place(guest, host, decision.percent, now):
                        one.guest, one.percent = guest.progress(), decision.percent
                    else:
                        self.policy.ended(view, one)
                        host.rests_until_s = now + self.limits.rest_s

    def _view(self, shared: list[SharedCores], now: float) -> QuotaView:
        jobs = tuple(guest.queued for guest in self._guests)
        queue = [guest.number for guest in self._waiting]
        return QuotaView(now, sum(one.cores for one in shared), jobs, queue, shared, self._rng)

    def _shared(self, host: SeenHost, now: float) -> SharedCores:
        guest = None if host.guest is None else host.guest.progress()
        return SharedCores(host.progress(now, self._expected_s), guest, host.percent)

    def _place(self, guest: SeenGuest, host: SeenHost, percent: int, now: float) -> bool:
        """Start a guest beside a host, or let a paused one continue; return whether that was possible."""
        try:
            group, cores = self._group_beside(host)
        except ProcessLookupError:
            # The host has just ended, which the next look notes.
            return False
        except (NoGroupError, OSError) as error:
            self.journal.write("guest refused", now, guest=guest.guest.name, host=host.host.id, why=str(error))
            return False
        try:
            group.set_quota(percent, guest.guest.cores)
            if guest.process is None:
                asked = guest.guest
                guest.process = group.start(asked.command, cores, asked.output, self._environment)
                guest.started_s = now
            elif guest.group is not None:
                for pid in processes_below(guest.group.folder):
                    group.add_process(pid, cores)
                send(group.folder, signal.SIGCONT)
                self._remove(guest.group)
        except (OSError, ValueError) as error:
            self._remove(group)
            self.journal.write("guest refused", now, guest=guest.guest.name, host=host.host.id, why=str(error))
            return False
        guest.group = group
        self._waiting.remove(guest)
        host.guest, host.percent, host.slow_looks = guest, percent, 0
        self.journal.write("guest placed", now, guest=guest.guest.name, host=host.host.id, percent=percent)
        return True

    def _group_beside(self, host: SeenHost) -> tuple[Group, set[int]]:
        """Make a group beside a host; return the group and the cores of the host.

        Raises `NoGroupError` if the host shares its group or may run on more cores than it was allocated.
        """
        pid = min(host.alive)
        cores: set[int] = set()
        for one in host.alive:
            with suppress(ProcessLookupError):
                cores |= os.sched_getaffinity(one)
        if len(cores) > host.host.cores:
            raise NoGroupError(
                f"the host has {host.host.cores} cores, but may run on {len(cores)}, also on cores of other jobs; "
                "let Slurm bind jobs to their cores (TaskPlugin=task/affinity or task/cgroup)"
            )
        place = self._version.place_beside(pid, host.host.cores)
        if not host.alive.issuperset(place.competitors):
            raise NoGroupError("the control group of the host also has processes that do not belong to it")
        self._next_group += 1
        group = Group(place.parent / group_name(self._next_group), self._version, place.host_weight)
        self._tell_guard(f"+{group.folder}")
        group.create()
        return group, cores

    def _set_quota(self, host: SeenHost, percent: int, now: float) -> None:
        if host.guest is None or host.guest.group is None or percent == host.percent:
            return
        try:
            host.guest.group.set_quota(percent, host.guest.guest.cores)
        except OSError as error:
            # A guest that has just ended has no group: the next look notes its end.
            if host.guest.group.folder.exists():
                self._pause_guest(host, now, f"its quota cannot be set: {error}")
            return
        host.percent = percent
        self.journal.write("guest quota", now, guest=host.guest.guest.name, host=host.host.id, percent=percent)

    def _pause_guest(self, host: SeenHost, now: float, why: str, **more: float) -> None:
        """Pause the guest of a host; it waits before all others, and continues later."""
        guest, host.guest, host.percent, host.slow_looks = host.guest, None, 0, 0
        self._is_due = True
        if guest is None or guest.group is None:
            return
        send(guest.group.folder, signal.SIGSTOP)
        guest.pauses += 1
        self._waiting.insert(0, guest)
        self.journal.write("guest paused", now, guest=guest.guest.name, host=host.host.id, why=why, **more)

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
            # It ended while it was paused, so it was killed.
            self._waiting.remove(guest)
        background = len(list(processes_below(guest.group.folder)))
        self._remove(guest.group)
        self.journal.write(
            "guest ended", now, guest=guest.guest.name, code=guest.code, processor_s=guest.processor_s,
            killed_in_background=background,
        )  # fmt: skip

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Start a guard that kills the guests if this process is killed; at the end, kill those that are left."""
        self._guard = _guard()
        try:
            yield
        finally:
            now = time.time()
            for guest in self._guests:
                if guest.process is not None and guest.group is not None and guest.code is None:
                    self._remove(guest.group)
                    with suppress(subprocess.TimeoutExpired):
                        guest.process.wait(_DIE_S)
                    self.journal.write("guest killed", now, guest=guest.guest.name, why="the service ends")
            for host in self._hosts.values():
                self.slowdowns[host.host.id] = host.mean_slowdown
            with suppress(BrokenPipeError):
                self._guard.communicate()
            self.journal.write("ended", time.time())

    def _remove(self, group: Group) -> None:
        if clear(group.folder):
            self._tell_guard(f"-{group.folder}")
        else:
            self.journal.write("left", time.time(), job=str(group.folder), why="its processes do not end")

    def _tell_guard(self, line: str) -> None:
        """Send a line about a group to the guard. A guard that was killed is restarted and gets all groups first."""
        lines = [line]
        if self._guard.poll() is not None:
            self._guard = _guard()
            lines = [f"+{guest.group.folder}" for guest in self._guests if guest.group is not None] + lines
        assert self._guard.stdin is not None
        with suppress(BrokenPipeError):
            self._guard.stdin.write("".join(f"{one}\n" for one in lines))
            self._guard.stdin.flush()


def _check_output(path: Path) -> None:
    try:
        path.open("ab").close()
    except OSError as error:
        raise bad_file(path, os_fault(error)) from None


def _guard() -> subprocess.Popen[str]:
    return subprocess.Popen(
        module_command("allocopt.live.hosting.guard"),
        stdin=subprocess.PIPE,
        text=True,
        env=child_environment(),
        start_new_session=True,
    )


def _state(guest: SeenGuest) -> str:
    if guest.code is not None:
        return "ended"
    if guest.process is None:
        return "waiting"
    return "running"


def _outcome(guest: SeenGuest) -> Outcome:
    state = "killed" if guest.process is not None and guest.code is None else _state(guest)
    return Outcome(guest.guest.name, state, guest.code, guest.elapsed_s, guest.processor_s, guest.pauses)
