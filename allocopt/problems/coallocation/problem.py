"""Co-allocation problems and their solutions: the running job that hosts each waiting job, and the CPU quota.

A guest g gets a share q of the cores of one host h. The excess of a job, its slowdown less 1, has one part for the
cores that it lacks and one for the contention with each other job of the host (`.interference`).
Maximize

    ``sum over placed g of (a_g - lambda b_g excess_g) - lambda * sum over h of b_h excess_h``

Under ``capacity``, a = b = cores: the objective is the cores that guests use, less those that delays cost. Under
``response``, a is the remaining wait of a guest and b the remaining run time of a job, in seconds: the objective is the
saved response time of the window. With one guest per host there is also ``throughput``, whose terms are not linear in
the excess: the rates ``cores / (1 + excess)`` of the guests, less lambda times the losses in rate of the hosts. No job
exceeds its largest excess, and no host its cores or memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, NamedTuple

import numpy as np

from allocopt.arrays import FloatArray, IntArray, frozen_integers
from allocopt.errors import InvalidProblemError, InvalidSolutionError
from allocopt.notebook import html_table
from allocopt.problems.base import Sense, check_distinct, check_range, chosen
from allocopt.problems.coallocation.interference import STEPS, Demands, Interference, Sharing, in_steps
from allocopt.traces.job_profile import ProfiledJob, check_profile

LARGEST_CORES = 10**7
LEAST_S, LARGEST_S = 1e-3, 1e12
LARGEST_SLOWDOWN, LARGEST_WEIGHT, LARGEST_GUESTS = 100.0, 1e6, 9
LARGEST_PERCENT = 90  # percent of a host's cores that its guests may hold together
QUOTAS = tuple(step / 10 for step in range(1, 10))  # 10 %, ..., 90 % (ASAX paper, section 3.2)


class CoallocationObjective(StrEnum):
    """Quantity that a co-allocation maximizes."""

    CAPACITY = "capacity"  # cores that guests use, less those that delays cost
    RESPONSE = "response"  # seconds of response time that the window saves
    THROUGHPUT = "throughput"  # work rate of guests in cores, less the losses of hosts; for one guest per host


class GuestPlace(NamedTuple):
    """A guest and its host by their numbers, and its quota in percent of the host's cores."""

    guest: int
    host: int
    percent: int


@dataclass(frozen=True, slots=True)
class Coallocation:
    """The placed guests and their places, sorted by guest."""

    places: tuple[GuestPlace, ...] = ()

    def __post_init__(self) -> None:
        places = sorted(GuestPlace(int(guest), int(host), int(percent)) for guest, host, percent in self.places)
        object.__setattr__(self, "places", tuple(places))

    def as_list(self, problem: "CoallocationProblem") -> list[tuple[str, str, float]]:
        """Return guest, host and quota of each place, as the solution file holds them."""
        return [
            (problem.guests[guest].id, problem.hosts[host].id, percent / 100) for guest, host, percent in self.places
        ]

    @classmethod
    def from_list(cls, problem: "CoallocationProblem", placements: Sequence[tuple[str, str, float]]) -> "Coallocation":
        """Return the co-allocation with these guests, hosts and quotas.

        Raises `InvalidSolutionError` for an unknown guest or host, or a quota that is not a whole percent.
        """
        hosts, guests = _numbers(problem.hosts), _numbers(problem.guests)
        places = []
        for guest, host, quota in placements:
            if guest not in guests:
                raise InvalidSolutionError(f"guest {guest!r} is not in the instance")
            if host not in hosts:
                raise InvalidSolutionError(f"host {host!r} is not in the instance")
            percent = _percent_of(quota)
            if percent is None:
                raise InvalidSolutionError(f"the quota of guest {guest!r} is {quota}, must be a whole percent")
            places.append(GuestPlace(guests[guest], hosts[host], percent))
        return cls(tuple(places))


@dataclass(frozen=True, slots=True, eq=False)
class CoallocationProblem:
    """The problem of placing waiting jobs beside running ones.

    Raises `InvalidProblemError`, which names the job or the field, if a value breaks a rule below.

    Parameters
    ----------
    hosts, guests
        The running jobs and the waiting jobs, at least one of each.
    quotas
        Shares of a host's cores that a guest may get, increasing, whole percents within 0 .. 0.9; 0 means no placement.
    max_slowdown
        Largest slowdown of a host, and of a guest unless ``max_guest_slowdown`` is given. Besides, no job may be slowed
        down beyond its time limit; a job that would exceed its limit anyway may not be slowed down at all.
    max_guests
        Most guests on a host, 1 .. 9.
    degradation_weight
        Weight lambda of the excess, not negative.
    sharing
        Meaning of a quota; ``shares`` requires ``max_guests`` 1.
    interference
        Coefficients of contention. Paging does not occur, because memory is never overcommitted.
    measured
        Measured slowdowns ``(host's, guest's)`` by the ids of host and guest, valid at any quota. They replace the
        slowdowns that follow from profiles; pairs that are not listed do not share. Requires ``max_guests`` 1.
    """

    hosts: tuple[ProfiledJob, ...]
    guests: tuple[ProfiledJob, ...]
    quotas: tuple[float, ...] = QUOTAS
    max_slowdown: float = 1.5
    max_guest_slowdown: float | None = None
    max_guests: int = 1
    objective_name: CoallocationObjective = CoallocationObjective.CAPACITY
    degradation_weight: float = 1.0
    sharing: Sharing = Sharing.CAPS
    interference: Interference = field(default_factory=Interference)
    measured: Mapping[tuple[str, str], tuple[float, float]] | None = None
    name: str = "unnamed"
    percents: IntArray = field(init=False, repr=False)  # quotas in percent, without 0, increasing, shape ``(Q,)``
    host_demands: Demands = field(init=False, repr=False)
    guest_demands: Demands = field(init=False, repr=False)
    # Measured excess of hosts and of guests in steps, -1 if a pair does not share, shape ``(2, H, G)``.
    measured_steps: IntArray | None = field(init=False, repr=False)

    kind: ClassVar[str] = "coallocation"
    sense: ClassVar[Sense] = "max"

    def __post_init__(self) -> None:
        for name in ("hosts", "guests", "quotas"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _check_jobs("hosts", self.hosts)
        _check_jobs("guests", self.guests)
        made = {
            "objective_name": chosen("objective", self.objective_name, CoallocationObjective),
            "sharing": chosen("sharing", self.sharing, Sharing),
            "measured": None if self.measured is None else dict(self.measured),
            "measured_steps": None if self.measured is None else _measured_steps(self),
            "percents": frozen_integers(_percents_of(self.quotas)),
            "host_demands": Demands.of(self.hosts),
            "guest_demands": Demands.of(self.guests),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)
        _check_options(self)

    def _repr_html_(self) -> str:
        facts = (
            ("hosts", len(self.hosts)),
            ("guests", len(self.guests)),
            ("quotas", ", ".join(f"{quota:g}" for quota in self.quotas)),
            ("greatest slowdown", float(self.max_slowdown)),
            ("objective", str(self.objective_name)),
        )
        return html_table(f"Co-allocation problem {self.name}", facts)

    @property
    def host_limits(self) -> IntArray:
        """Largest excess of each host in steps, shape ``(H,)``."""
        return in_steps([min(self.max_slowdown, max(1.0, job.happiness)) - 1.0 for job in self.hosts])

    @property
    def guest_limits(self) -> IntArray:
        """Largest excess of each guest in steps, shape ``(G,)``."""
        most = self.max_guest_slowdown or self.max_slowdown
        return in_steps([min(most, max(1.0, job.happiness)) - 1.0 for job in self.guests])

    @property
    def gains(self) -> FloatArray:
        """Worth a of placing each guest if no job is slowed down, shape ``(G,)``."""
        if self.objective_name is CoallocationObjective.RESPONSE:
            return np.array([job.wait_s for job in self.guests], dtype=np.float64)
        return self.guest_demands.cores

    @property
    def host_costs(self) -> FloatArray:
        """Cost of one step of excess of each host: lambda b per step, shape ``(H,)``."""
        return self._costs(self.hosts)

    @property
    def guest_costs(self) -> FloatArray:
        """Cost of one step of excess of each guest: lambda b per step, shape ``(G,)``."""
        return self._costs(self.guests)

    @property
    def memory_steps(self) -> tuple[IntArray, IntArray]:
        """Free memory of each host, and memory that each guest takes there, in steps, shapes ``(H,)``, ``(H, G)``."""
        size = self.guest_demands.cores / self.host_demands.cores[:, None]
        return in_steps(1.0) - in_steps(self.host_demands.peaks), in_steps(self.guest_demands.peaks * size)

    def objective(self, solution: Coallocation) -> float:
        """Return the objective of a solution, even if it breaks rules."""
        of_hosts, of_guests = self.excess_steps(solution)
        placed = np.array([place.guest for place in solution.places], dtype=np.int64)
        gained = self.guest_worth(placed, of_guests[placed])
        return float(gained.sum()) - float(self.host_losses(np.arange(len(self.hosts)), of_hosts).sum())

    def guest_worth(self, guests: IntArray, steps: IntArray) -> FloatArray:
        """Return the worth of placed guests, given their excess in steps; the arrays broadcast."""
        if self.objective_name is CoallocationObjective.THROUGHPUT:
            return np.asarray(self.guest_demands.cores[guests] * STEPS / (STEPS + steps))
        return np.asarray(self.gains[guests] - self.guest_costs[guests] * steps)

    def host_losses(self, hosts: IntArray, steps: IntArray) -> FloatArray:
        """Return the cost of hosts, given their excess in steps; the arrays broadcast."""
        if self.objective_name is CoallocationObjective.THROUGHPUT:
            lost = self.host_demands.cores[hosts] * steps / (STEPS + steps)
            return np.asarray(self.degradation_weight * lost)
        return np.asarray(self.host_costs[hosts] * steps)

    def excess_steps(self, solution: Coallocation) -> tuple[IntArray, IntArray]:
        """Return the excess in steps of every host and guest in a solution, shapes ``(H,)`` and ``(G,)``."""
        of_hosts, of_guests = (np.zeros(len(jobs), dtype=np.int64) for jobs in (self.hosts, self.guests))
        guests, hosts, percents = np.array(solution.places, dtype=np.int64).reshape(-1, 3).T
        for host in np.unique(hosts).tolist():
            there = hosts == host
            of_hosts[host], of_guests[guests[there]] = self._steps_on(host, guests[there], percents[there])
        return of_hosts, of_guests

    def _steps_on(self, host: int, guest: IntArray, percent: IntArray) -> tuple[int, IntArray]:
        if self.measured_steps is not None:
            of_hosts, of_guests = self.measured_steps
            return int(of_hosts[host, guest].sum()), of_guests[host, guest]
        one, hosts, guests = np.full(len(guest), host), self.host_demands, self.guest_demands
        alone, of_guest = hosts.cpu_steps(guests, one, guest, percent, self.sharing)
        whole = int(alone[0])
        if len(guest) > 1:
            whole = int(hosts.capped_host_steps(np.array([host]), np.array([percent.sum()]))[0])
        cores = hosts.cores[one]
        whole += int(hosts.contention_steps(one, guests, guest, cores, self.interference).sum())
        of_guest = of_guest + guests.contention_steps(guest, hosts, one, cores, self.interference)
        pairs = guests.contention_steps(guest[:, None], guests, guest[None, :], hosts.cores[[host]], self.interference)
        return whole, of_guest + pairs.sum(axis=1) - np.diag(pairs)

    def _costs(self, jobs: Sequence[ProfiledJob]) -> FloatArray:
        is_response = self.objective_name is CoallocationObjective.RESPONSE
        own = [job.remaining_s if is_response else job.cores for job in jobs]
        return self.degradation_weight * np.array(own, dtype=np.float64) / STEPS


def _check_jobs(place: str, jobs: Sequence[ProfiledJob]) -> None:
    if not jobs:
        raise InvalidProblemError(place, "is empty, must hold at least one job")
    check_distinct(place, (job.id for job in jobs))
    for index, job in enumerate(jobs):
        where = f"{place}[{index}]"
        if not 1 <= job.cores <= LARGEST_CORES or int(job.cores) != job.cores:
            raise InvalidProblemError(
                f"{where}.cores", f"is {job.cores}, must be an integer from 1 to {LARGEST_CORES:,}"
            )
        check_profile(f"{where}.profile", job.profile)
        check_range(f"{where}.remaining_s", job.remaining_s, LEAST_S, LARGEST_S)
        check_range(f"{where}.walltime_s", job.walltime_s, 0.0, LARGEST_S)
        check_range(f"{where}.wait_s", job.wait_s, 0.0, LARGEST_S)


def _check_options(problem: CoallocationProblem) -> None:
    check_range("max_slowdown", problem.max_slowdown, 1.0, LARGEST_SLOWDOWN)
    check_range("max_guest_slowdown", problem.max_guest_slowdown, 1.0, LARGEST_SLOWDOWN)
    most = problem.max_guests
    if not isinstance(most, int) or not 1 <= most <= LARGEST_GUESTS:
        raise InvalidProblemError("max_guests", f"is {most}, must be a whole number within 1 .. {LARGEST_GUESTS}")
    check_range("degradation_weight", problem.degradation_weight, 0.0, LARGEST_WEIGHT)
    if problem.objective_name is CoallocationObjective.RESPONSE:
        for index, job in enumerate(problem.guests):
            if job.wait_s is None:
                fault = f"is missing; the objective 'response' needs the wait of guest {job.id!r}"
                raise InvalidProblemError(f"guests[{index}].wait_s", fault)
    if most == 1:
        return
    if problem.sharing is Sharing.SHARES:
        raise InvalidProblemError("sharing", "is 'shares', which needs max_guests 1; use 'caps' for several guests")
    if problem.measured is not None:
        raise InvalidProblemError("pairs", "need max_guests 1; use profiles for several guests per host")
    if problem.objective_name is CoallocationObjective.THROUGHPUT:
        raise InvalidProblemError("objective", "is 'throughput', which needs max_guests 1")


def _numbers(jobs: Sequence[ProfiledJob]) -> dict[str, int]:
    return {job.id: number for number, job in enumerate(jobs)}


def _percent_of(quota: float) -> int | None:
    percent = round(100 * quota)
    return percent if abs(100 * quota - percent) <= 1e-7 else None


def _percents_of(quotas: Sequence[float]) -> list[int]:
    percents: list[int] = []
    for index, quota in enumerate(quotas):
        percent = _percent_of(quota)
        if percent is None or not 0 <= percent <= LARGEST_PERCENT:
            fault = f"is {quota}, must be a whole percent within 0 .. {LARGEST_PERCENT / 100}"
            raise InvalidProblemError(f"quotas[{index}]", fault)
        if percents and percent <= percents[-1]:
            raise InvalidProblemError(f"quotas[{index}]", f"is {quota}, must be above the one before it")
        percents.append(percent)
    if not any(percents):
        raise InvalidProblemError("quotas", "are all 0, at least one must be above 0")
    # A quota of 0 is the same as no placement.
    return [percent for percent in percents if percent > 0]


def _measured_steps(problem: CoallocationProblem) -> IntArray:
    hosts, guests = _numbers(problem.hosts), _numbers(problem.guests)
    steps = np.full((2, len(hosts), len(guests)), -1, dtype=np.int64)
    for index, ((host, guest), slowdowns) in enumerate((problem.measured or {}).items()):
        for name, job, known in (("host", host, hosts), ("guest", guest, guests)):
            if job not in known:
                raise InvalidProblemError(f"pairs[{index}].{name}", f"is {job!r}, must be the id of a {name}")
        for name, slowdown in zip(("host", "guest"), slowdowns, strict=True):
            check_range(f"pairs[{index}].{name}_slowdown", slowdown, 1.0, LARGEST_SLOWDOWN)
        steps[:, hosts[host], guests[guest]] = in_steps(np.array(slowdowns) - 1.0)
    steps.setflags(write=False)
    return steps


def verify_coallocation(problem: CoallocationProblem, solution: Coallocation) -> float:
    """Return the objective of a co-allocation; raise `InvalidSolutionError`, with the amount, if it breaks a rule."""
    placed: set[int] = set()
    for place in solution.places:
        _check_place(problem, place)
        if place.guest in placed:
            raise InvalidSolutionError(f"guest {problem.guests[place.guest].id!r} is placed twice")
        placed.add(place.guest)
    for number in sorted({place.host for place in solution.places}):
        host, places = problem.hosts[number], [place for place in solution.places if place.host == number]
        if len(places) > problem.max_guests:
            fault = f"host {host.id!r} has {len(places)} guests, at most {problem.max_guests} are allowed"
            raise InvalidSolutionError(fault)
        percent = sum(place.percent for place in places)
        if percent > LARGEST_PERCENT:
            fault = f"the guests of host {host.id!r} get {percent} % of its cores, the limit is {LARGEST_PERCENT} %"
            raise InvalidSolutionError(fault)
        # Computed from the profiles, independently of the tables that solvers read.
        peaks = [problem.guests[place.guest].peak_memory() * problem.guests[place.guest].cores for place in places]
        taken = in_steps(host.peak_memory()) + in_steps(np.array(peaks) / host.cores).sum()
        if taken > in_steps(1.0):
            raise InvalidSolutionError(f"the jobs on host {host.id!r} take {taken / STEPS:.4f} times its memory")
    of_hosts, of_guests = problem.excess_steps(solution)
    for what, jobs, steps, limits in (
        ("host", problem.hosts, of_hosts, problem.host_limits),
        ("guest", problem.guests, of_guests, problem.guest_limits),
    ):
        for number in np.flatnonzero(steps > limits).tolist():
            slowdown, limit = 1 + steps[number] / STEPS, 1 + limits[number] / STEPS
            fault = f"{what} {jobs[number].id!r} has slowdown {slowdown:.4f}, at most {limit:.4f} is allowed"
            raise InvalidSolutionError(fault)
    return problem.objective(solution)


def _check_place(problem: CoallocationProblem, place: GuestPlace) -> None:
    if not 0 <= place.guest < len(problem.guests):
        raise InvalidSolutionError(f"guest number {place.guest} does not exist")
    if not 0 <= place.host < len(problem.hosts):
        raise InvalidSolutionError(f"host number {place.host} does not exist")
    guest, host = problem.guests[place.guest], problem.hosts[place.host]
    if place.percent not in problem.percents:
        raise InvalidSolutionError(f"guest {guest.id!r} gets {place.percent} %, which is not one of the quotas")
    if guest.cores > host.cores:
        fault = f"guest {guest.id!r} asks for {guest.cores} cores, host {host.id!r} has {host.cores}"
        raise InvalidSolutionError(fault)
    if problem.measured_steps is not None and problem.measured_steps[0, place.host, place.guest] < 0:
        raise InvalidSolutionError(f"guest {guest.id!r} may not share host {host.id!r}: the pair was not measured")
