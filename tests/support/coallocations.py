"""Co-allocation problems for tests, and their optima by looking at every solution."""

import itertools
import math
from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.problems.coallocation.problem import (
    Coallocation,
    CoallocationObjective,
    CoallocationProblem,
    GuestPlace,
)
from allocopt.traces.job_profile import ProfiledJob, Stage

STEP = 1e-4


def job(
    name: str,
    cores: int = 4,
    *stages: Stage,
    remaining: float = 100.0,
    walltime: float = 1e6,
    wait: float | None = 50.0,
) -> ProfiledJob:
    """Make a job; it keeps half of its cores busy unless stages are given."""
    return ProfiledJob(name, cores, stages or (Stage(1.0, 0.5),), remaining, walltime, wait)


def problem(hosts: Sequence[ProfiledJob], guests: Sequence[ProfiledJob], **changes: object) -> CoallocationProblem:
    """Make a problem."""
    return CoallocationProblem(tuple(hosts), tuple(guests), **changes)  # type: ignore[arg-type]


def solution(*places: tuple[int, int, int]) -> Coallocation:
    """Make a solution of guests, hosts and percents."""
    return Coallocation(tuple(GuestPlace(*place) for place in places))


def step(value: float) -> int:
    """Round a term down to a step, as docs/coallocation.md says."""
    return math.floor(value / STEP + 1e-6)


def steps_of(case: CoallocationProblem, places: Sequence[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
    """Excess of all hosts and guests, written out term by term."""
    of_hosts, of_guests = [0] * len(case.hosts), [0] * len(case.guests)
    for number, host in enumerate(case.hosts):
        mine = [(case.guests[guest], guest, percent / 100) for guest, where, percent in places if where == number]
        if not mine:
            continue
        if case.measured is not None:
            (one, guest, _) = mine[0]
            own, other = case.measured[host.id, one.id]
            of_hosts[number], of_guests[guest] = step(own - 1), step(other - 1)
            continue
        of_hosts[number] = step(_host_cpu(case, host, mine)) + sum(
            step(_contention(case, host, one, host)) for one, _, _ in mine
        )
        for one, guest, quota in mine:
            of_guests[guest] = step(_guest_cpu(case, host, one, quota)) + step(_contention(case, one, host, host))
            of_guests[guest] += sum(
                step(_contention(case, one, other, host)) for other, number, _ in mine if number != guest
            )
    return of_hosts, of_guests


def _host_cpu(case: CoallocationProblem, host: ProfiledJob, mine: Sequence[tuple[ProfiledJob, int, float]]) -> float:
    left = 1 - sum(quota for _, _, quota in mine)
    if case.sharing is Sharing.CAPS:
        return math.fsum(stage.share * max(0, stage.cpu / left - 1) for stage in host.profile)
    guest = mine[0][0]
    return math.fsum(
        own.share * other.share * max(0, own.cpu / max(left, 1 - other.cpu * guest.cores / host.cores) - 1)
        for own in host.profile
        for other in guest.profile
    )


def _guest_cpu(case: CoallocationProblem, host: ProfiledJob, guest: ProfiledJob, quota: float) -> float:
    size = guest.cores / host.cores
    if case.sharing is Sharing.CAPS:
        return math.fsum(stage.share * max(0, stage.cpu * size / quota - 1) for stage in guest.profile)
    return math.fsum(
        own.share * other.share * max(0, own.cpu * size / max(quota, 1 - other.cpu) - 1)
        for own in guest.profile
        for other in host.profile
    )


def _contention(case: CoallocationProblem, one: ProfiledJob, other: ProfiledJob, host: ProfiledJob) -> float:
    how = case.interference
    return math.fsum(
        beta * one.mean(name) * other.mean(name) * other.cores / host.cores
        for name, beta in (("cpu", how.cpu), ("memory", how.memory), ("io", how.io))
    )


def value_of(case: CoallocationProblem, places: Sequence[tuple[int, int, int]]) -> float:
    """Objective, written out."""
    of_hosts, of_guests = steps_of(case, places)
    is_response = case.objective_name is CoallocationObjective.RESPONSE
    if case.objective_name is CoallocationObjective.THROUGHPUT:
        done = math.fsum(case.guests[guest].cores / (1 + of_guests[guest] * STEP) for guest, _, _ in places)
        lost = math.fsum(one.cores * (1 - 1 / (1 + s * STEP)) for one, s in zip(case.hosts, of_hosts, strict=True))
        return done - case.degradation_weight * lost
    total = 0.0
    for guest, _, _ in places:
        one = case.guests[guest]
        gain, cost = (one.wait_s, one.remaining_s) if is_response else (one.cores, one.cores)
        total += gain - case.degradation_weight * cost * of_guests[guest] * STEP  # type: ignore[operator]
    for host, steps in zip(case.hosts, of_hosts, strict=True):
        total -= case.degradation_weight * (host.remaining_s if is_response else host.cores) * steps * STEP
    return total


def is_feasible(case: CoallocationProblem, places: Sequence[tuple[int, int, int]]) -> bool:
    """Whether a solution breaks no rule, written out."""
    for number, host in enumerate(case.hosts):
        mine = [(case.guests[guest], percent) for guest, where, percent in places if where == number]
        memory = sum(step(max(s.memory for s in one.profile) * one.cores / host.cores) for one, _ in mine)
        if mine and (
            len(mine) > case.max_guests
            or sum(percent for _, percent in mine) > 90
            or any(one.cores > host.cores for one, _ in mine)
            or memory + step(max(s.memory for s in host.profile)) > 10_000
        ):
            return False
    of_hosts, of_guests = steps_of(case, places)
    pairs = [(case.hosts, of_hosts, case.max_slowdown)]
    pairs.append((case.guests, of_guests, case.max_guest_slowdown or case.max_slowdown))
    return all(
        steps <= step(min(most, max(1.0, one.walltime_s / one.remaining_s)) - 1)
        for jobs, all_steps, most in pairs
        for one, steps in zip(jobs, all_steps, strict=True)
    )


def solutions(case: CoallocationProblem) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """All solutions that break no rule."""
    choices = [None, *itertools.product(range(len(case.hosts)), case.percents.tolist())]
    for chosen in itertools.product(choices, repeat=len(case.guests)):
        places = tuple((guest, *where) for guest, where in enumerate(chosen) if where is not None)
        listed = case.measured is None or all(
            (case.hosts[host].id, case.guests[guest].id) in case.measured for guest, host, _ in places
        )
        alone = case.max_guests > 1 or len({host for _, host, _ in places}) == len(places)
        if listed and alone and is_feasible(case, places):
            yield places


def best_value(case: CoallocationProblem) -> float:
    """Largest objective of all solutions."""
    return max(value_of(case, places) for places in solutions(case))


@st.composite
def stages(draw: st.DrawFn) -> tuple[Stage, ...]:
    """Draw a profile of one or two stages."""
    numbers = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1))
    cut = draw(st.sampled_from([0.25, 0.5, 1.0]))
    return tuple(
        Stage(share, draw(st.floats(0.05, 1)), draw(numbers) / 2, draw(numbers))
        for share in (cut, 1 - cut)
        if share > 0
    )


@st.composite
def coallocations(
    draw: st.DrawFn, most_hosts: int = 2, most_guests: int = 3, several: bool = False, measured: bool = False
) -> CoallocationProblem:
    """Small problems, ties and guests that do not fit among them."""
    hosts, guests = (
        tuple(
            job(
                f"{name}-{number}",
                draw(st.sampled_from([1, 2, 4, 8])),
                *draw(stages()),
                remaining=float(draw(st.integers(1, 100))),
                walltime=float(draw(st.sampled_from([10, 100, 1000]))),
                wait=float(draw(st.integers(0, 60))) if name == "guest" else None,
            )
            for number in range(draw(st.integers(1, most)))
        )
        for name, most in (("host", most_hosts), ("guest", most_guests))
    )
    pairs = None
    if measured:
        slowdown = st.sampled_from([1.0, 1.1, 1.25, 1.7, 3.0])
        pairs = {
            (host.id, guest.id): (draw(slowdown), draw(slowdown))
            for host in hosts
            for guest in guests
            if draw(st.booleans())
        }
    return CoallocationProblem(
        hosts,
        guests,
        quotas=draw(st.sampled_from([(0.1, 0.5), (0.0, 0.3, 0.45), (0.2,), (0.25, 0.5, 0.9)])),
        max_slowdown=draw(st.sampled_from([1.0, 1.3, 2.0, 9.0])),
        max_guest_slowdown=draw(st.sampled_from([None, 1.5, 5.0])),
        max_guests=draw(st.integers(2, 3)) if several else 1,
        objective_name=draw(st.sampled_from(list(CoallocationObjective)[: 2 if several else None])),
        degradation_weight=draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])),
        sharing=Sharing.CAPS if several else draw(st.sampled_from(list(Sharing))),
        interference=draw(st.sampled_from([Interference(), Interference(0, 0, 0), Interference(0.5, 2.0, 0.1)])),
        measured=pairs,
        name="drawn",
    )
