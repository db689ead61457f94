"""Jobs that run beside others, on units that these hold."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from allocopt.arrays import IntArray
from allocopt.errors import InvalidSolutionError
from allocopt.problems.coallocation.problem import LARGEST_PERCENT
from allocopt.simulator.kernels.run import start_waiting
from allocopt.simulator.state import FREE, RUNNING, State


class Guest(NamedTuple):
    """A job that runs on units which another one holds.

    Parameters
    ----------
    job
        Its number.
    percent
        Its quota, in percent of these units.
    """

    job: int
    percent: int


class Guests:
    """Who runs on whose units. What a guest asks for is put aside, so that it holds nothing of its own.

    Parameters
    ----------
    state
        The simulation.
    ids
        Numbers of the jobs by which errors name them, shape ``(n,)``.
    """

    def __init__(self, state: State, ids: IntArray) -> None:
        self._state = state
        self._ids = ids
        self._of: dict[int, Guest] = {}
        self._asked: dict[int, IntArray] = {}
        self.of: Mapping[int, Guest] = MappingProxyType(self._of)
        """The guest of each job that has one, by the number of the job."""
        self.ended_at: dict[int, float] = {}
        """When each job that was a guest came to hold its own units, or ended as one."""

    def start(self, job: int, host: int, percent: int) -> bool:
        """Start a waiting job as the guest of a running one; return False if it does not wait.

        Raises
        ------
        InvalidSolutionError
            If it cannot be a guest there, or the quota is out of range.
        """
        self._check_host(job, host)
        self._check_percent(percent)
        asked = self._state.request[job].copy()
        self._state.request[job] = 0
        if not start_waiting(self._state, job):
            self._state.request[job] = asked
            return False
        self._asked[job] = asked
        self._of[host] = Guest(job, percent)
        return True

    def set_quota(self, host: int, percent: int) -> None:
        """Give the guest of a job another quota.

        Raises
        ------
        InvalidSolutionError
            If the job has no guest, or the quota is out of range.
        """
        if host not in self._of:
            raise InvalidSolutionError(f"job {self._ids[host]} has no guest whose quota could change")
        self._check_percent(percent)
        self._of[host] = self._of[host]._replace(percent=percent)

    def leave(self, ended: Iterable[int]) -> None:
        """Let jobs end; a guest whose host has ended holds what it asks for from now on."""
        gone = set(ended)
        for host, guest in list(self._of.items()):
            if host in gone or guest.job in gone:
                del self._of[host]
                self._state.request[guest.job] = self._asked.pop(guest.job)
                self.ended_at[guest.job] = float(self._state.clock["now"][0])
                if guest.job not in gone:
                    self._hold(guest.job)

    def _hold(self, job: int) -> None:
        units = self._state.request[job]
        self._state.units[FREE] -= units
        self._state.held[self._state.jobs["user"][job]] += units

    def _check_host(self, job: int, host: int) -> None:
        who, other = f"job {self._ids[job]}", f"job {self._ids[host]}"
        if host not in self._state.lists[RUNNING, : self._state.clock["n_running"][0]]:
            raise InvalidSolutionError(f"{who} is to be a guest of {other}, which does not run")
        if host in self._asked:
            raise InvalidSolutionError(f"{who} is to be a guest of {other}, which is a guest itself")
        if host in self._of:
            raise InvalidSolutionError(f"{who} is to be a guest of {other}, which has one already")
        asked, held = self._state.request[job], self._state.request[host]
        if (asked > held).any():
            raise InvalidSolutionError(f"{who} is to be a guest of {other}: it asks for {asked} units of its {held}")

    def _check_percent(self, percent: int) -> None:
        if not 0 < percent <= LARGEST_PERCENT:
            raise InvalidSolutionError(f"the quota is {percent} %, must be above 0 and at most {LARGEST_PERCENT} %")
