"""Checks of a co-allocation problem: each raises `InvalidProblemError` and names the field."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from allocopt.errors import InvalidProblemError
from allocopt.traces.job_profile import ProfiledJob, check_profile

LARGEST_CORES = 10**7
LEAST_S, LARGEST_S = 1e-3, 1e12
LARGEST_SLOWDOWN, LARGEST_WEIGHT, LARGEST_GUESTS = 100.0, 1e6, 9
WHOLE_PERCENT = 1e-9


def check_jobs(place: str, jobs: Sequence[ProfiledJob]) -> None:
    """Check that jobs are there and distinct, and that their numbers make sense."""
    if not jobs:
        raise InvalidProblemError(place, "is empty, must hold at least one job")
    seen: set[str] = set()
    for index, job in enumerate(jobs):
        where = f"{place}[{index}]"
        if job.id in seen:
            raise InvalidProblemError(f"{where}.id", f"job {job.id!r} is given twice")
        seen.add(job.id)
        if not 1 <= job.cores <= LARGEST_CORES or int(job.cores) != job.cores:
            raise InvalidProblemError(f"{where}.cores", f"is {job.cores}, must be a whole number to {LARGEST_CORES:,}")
        check_profile(f"{where}.profile", job.profile)
        check_range(f"{where}.remaining_s", job.remaining_s, LEAST_S, LARGEST_S)
        check_range(f"{where}.walltime_s", job.walltime_s, 0.0, LARGEST_S)
        if job.wait_s is not None:
            check_range(f"{where}.wait_s", job.wait_s, 0.0, LARGEST_S)


def check_range(place: str, value: float, least: float, largest: float) -> None:
    """Check that a value lies within a range."""
    if not least <= value <= largest:
        raise InvalidProblemError(place, f"is {value}, must be within {least:g} .. {largest:g}")


def check_enum(place: str, value: str, choices: type[StrEnum]) -> None:
    """Check that a value is one of a few."""
    if value not in list(choices):
        raise InvalidProblemError(place, f"is {value!r}, must be one of {', '.join(choices)}")


def check_numbers(max_slowdown: float, max_guest_slowdown: float | None, max_guests: int, weight: float) -> None:
    """Check the bounds and the weight."""
    check_range("max_slowdown", max_slowdown, 1.0, LARGEST_SLOWDOWN)
    if max_guest_slowdown is not None:
        check_range("max_guest_slowdown", max_guest_slowdown, 1.0, LARGEST_SLOWDOWN)
    if not isinstance(max_guests, int) or not 1 <= max_guests <= LARGEST_GUESTS:
        raise InvalidProblemError("max_guests", f"is {max_guests}, must be a whole number within 1 .. {LARGEST_GUESTS}")
    check_range("degradation_weight", weight, 0.0, LARGEST_WEIGHT)


def check_waits(guests: Sequence[ProfiledJob]) -> None:
    """Check that every guest says for how long it would still wait."""
    for index, job in enumerate(guests):
        if job.wait_s is None:
            fault = f"is missing, the objective 'response' needs it of guest {job.id!r}"
            raise InvalidProblemError(f"guests[{index}].wait_s", fault)


def check_for_several(is_capped: bool, is_computed: bool, is_linear: bool) -> None:
    """Check what several guests on a host ask for."""
    if not is_capped:
        raise InvalidProblemError("sharing", "is 'shares', which is for one guest a host; several need 'caps'")
    if not is_computed:
        raise InvalidProblemError("pairs", "are measured for one guest a host; several need profiles")
    if not is_linear:
        raise InvalidProblemError("objective", "is 'throughput', which is for one guest a host")


def check_measured(
    measured: Mapping[tuple[str, str], tuple[float, float]], hosts: Sequence[ProfiledJob], guests: Sequence[ProfiledJob]
) -> None:
    """Check that measured slowdowns are of jobs that are there, and from 1 on."""
    known = {job.id for job in hosts}, {job.id for job in guests}
    for index, ((host, guest), slowdowns) in enumerate(measured.items()):
        for name, job, ids in (("host", host, known[0]), ("guest", guest, known[1])):
            if job not in ids:
                raise InvalidProblemError(f"pairs[{index}].{name}", f"is {job!r}, which is none of the {name}s")
        for name, slowdown in zip(("host_slowdown", "guest_slowdown"), slowdowns, strict=True):
            check_range(f"pairs[{index}].{name}", slowdown, 1.0, LARGEST_SLOWDOWN)


def percent_of(quota: float) -> int | None:
    """Return a quota in percent; None if it is not whole."""
    percent = round(100 * quota)
    return percent if abs(100 * quota - percent) <= 100 * WHOLE_PERCENT else None


def percents_of(quotas: Sequence[float], largest: int) -> list[int]:
    """Return quotas in percent, checked: rising, whole, within range, at least one above 0."""
    percents: list[int] = []
    for index, quota in enumerate(quotas):
        percent = percent_of(quota)
        if percent is None or not 0 <= percent <= largest:
            fault = f"is {quota}, must be of whole percent, within 0 .. {largest / 100}"
            raise InvalidProblemError(f"quotas[{index}]", fault)
        if percents and percent <= percents[-1]:
            raise InvalidProblemError(f"quotas[{index}]", f"is {quota}, must be above the one before it")
        percents.append(percent)
    if not any(percents):
        raise InvalidProblemError("quotas", "hold none above 0, there must be at least one")
    return percents
