"""The check of a co-allocation: every guest once, within the cores, the memory and the bounds of its host."""

import numpy as np

from allocopt.errors import InvalidSolutionError
from allocopt.problems.coallocation.interference import STEPS, in_steps
from allocopt.problems.coallocation.problem import LARGEST_PERCENT, Coallocation, CoallocationProblem, GuestPlace


def verify_coallocation(problem: CoallocationProblem, solution: Coallocation) -> float:
    """Return the objective of a co-allocation; raise `InvalidSolutionError` for a broken rule, and say how much."""
    placed: set[int] = set()
    for place in solution.places:
        _check_place(problem, place)
        if place.guest in placed:
            raise InvalidSolutionError(f"guest {problem.guests[place.guest].id!r} is placed twice")
        placed.add(place.guest)
    for number in sorted({place.host for place in solution.places}):
        host, places = problem.hosts[number], [place for place in solution.places if place.host == number]
        if len(places) > problem.max_guests:
            fault = f"host {host.id!r} has {len(places)} guests, at most {problem.max_guests} may be"
            raise InvalidSolutionError(fault)
        percent = sum(place.percent for place in places)
        if percent > LARGEST_PERCENT:
            fault = f"the guests of host {host.id!r} get {percent} % of its cores, at most {LARGEST_PERCENT} % may be"
            raise InvalidSolutionError(fault)
        peaks = [problem.guests[place.guest].peak_memory() * problem.guests[place.guest].cores for place in places]
        taken = in_steps(host.peak_memory()) + in_steps(np.array(peaks) / host.cores).sum()
        if taken > in_steps(1.0):
            raise InvalidSolutionError(f"the jobs on host {host.id!r} take {taken / STEPS:.4f} of its memory")
    of_hosts, of_guests = problem.excess_steps(solution)
    for what, jobs, steps, limits in (
        ("host", problem.hosts, of_hosts, problem.host_limits),
        ("guest", problem.guests, of_guests, problem.guest_limits),
    ):
        for number in np.flatnonzero(steps > limits).tolist():
            slowdown, limit = 1 + steps[number] / STEPS, 1 + limits[number] / STEPS
            fault = f"{what} {jobs[number].id!r} is slowed down {slowdown:.4f} times, at most {limit:.4f} times may be"
            raise InvalidSolutionError(fault)
    return problem.objective(solution)


def _check_place(problem: CoallocationProblem, place: GuestPlace) -> None:
    if not 0 <= place.guest < len(problem.guests):
        raise InvalidSolutionError(f"guest number {place.guest} does not exist")
    if not 0 <= place.host < len(problem.hosts):
        raise InvalidSolutionError(f"host number {place.host} does not exist")
    guest, host = problem.guests[place.guest], problem.hosts[place.host]
    if place.percent not in problem.percents:
        raise InvalidSolutionError(f"guest {guest.id!r} gets {place.percent} %, which is none of the quotas")
    if guest.cores > host.cores:
        fault = f"guest {guest.id!r} asks for {guest.cores} cores, host {host.id!r} has {host.cores}"
        raise InvalidSolutionError(fault)
    if problem.measured_steps is not None and problem.measured_steps[0, place.host, place.guest] < 0:
        raise InvalidSolutionError(f"guest {guest.id!r} was not measured beside host {host.id!r}")
