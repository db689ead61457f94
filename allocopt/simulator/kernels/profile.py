"""The profile of conservative backfilling: how much of each resource nobody was promised, as steps in time."""

import numpy as np

from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.state import CAPACITY, State


@inlined
def _copy_step(state: State, source: int, target: int) -> None:
    state.steps[target].time = state.steps[source].time
    for resource in range(state.units.shape[1]):
        state.unpromised[target, resource] = state.unpromised[source, resource]


@inlined
def _are_equal(state: State, a: int, b: int) -> bool:
    for resource in range(state.units.shape[1]):
        if state.unpromised[a, resource] != state.unpromised[b, resource]:
            return False
    return True


@inlined
def _place_of(state: State, time: float) -> int:
    first, end = 0, state.clock[0].n_profile
    while first < end:
        middle = (first + end) // 2
        if state.steps[middle].time < time:
            first = middle + 1
        else:
            end = middle
    return first


@helper()
def forget_past(state: State) -> None:
    """Let the profile begin now."""
    clock = state.clock[0]
    past = 0
    while past + 1 < clock.n_profile and state.steps[past + 1].time <= clock.now:
        past += 1
    if past > 0:
        for i in range(past, clock.n_profile):
            _copy_step(state, i, i - past)
        clock.n_profile -= past
    state.steps[0].time = clock.now


@helper()
def empty_profile(state: State) -> None:
    """Promise nothing to anyone, from now on."""
    state.clock[0].n_profile = 1
    state.steps[0].time = state.clock[0].now
    for resource in range(state.units.shape[1]):
        state.unpromised[0, resource] = state.units[CAPACITY, resource]


@helper()
def step_at(state: State, time: float) -> int:
    """Begin a step at a time that is not before the profile, and return its number."""
    clock = state.clock[0]
    at = _place_of(state, time)
    if at < clock.n_profile and state.steps[at].time == time:
        return at
    for i in range(clock.n_profile, at, -1):
        _copy_step(state, i - 1, i)
    _copy_step(state, at - 1, at)
    state.steps[at].time = time
    clock.n_profile += 1
    return at


@helper()
def merge_step(state: State, at: int) -> None:
    """Join a step with the one before it, if they are the same."""
    clock = state.clock[0]
    if at == 0 or at >= clock.n_profile or not _are_equal(state, at - 1, at):
        return
    for i in range(at + 1, clock.n_profile):
        _copy_step(state, i, i - 1)
    clock.n_profile -= 1


@helper()
def change_profile(state: State, job: int, begin: float, end: float, sign: int) -> None:
    """Promise what a job asks for from ``begin`` to ``end`` (sign -1), or take the promise back (sign 1)."""
    begin = max(begin, state.steps[0].time)
    if not begin < end:
        return
    first = step_at(state, begin)
    last = step_at(state, end)
    for i in range(first, last):
        for resource in range(state.units.shape[1]):
            state.unpromised[i, resource] += sign * state.request[job, resource]
    merge_step(state, last)
    merge_step(state, first)


@inlined
def _holds(state: State, job: int, step: int) -> bool:
    for resource in range(state.units.shape[1]):
        if state.request[job, resource] > state.unpromised[step, resource]:
            return False
    return True


@helper()
def lasts(state: State, job: int) -> bool:
    """Whether a job fits now, and for as long as it is estimated to run."""
    end = state.steps[0].time + state.jobs[job].estimate
    step = 0
    while step < state.clock[0].n_profile and state.steps[step].time < end:
        if not _holds(state, job, step):
            return False
        step += 1
    return True


@helper()
def earliest_start(state: State, job: int) -> float:
    """First time at which a job fits for as long as it is estimated to run."""
    n = state.clock[0].n_profile
    begin = state.steps[0].time
    for i in range(n):
        if state.steps[i].time >= begin + state.jobs[job].estimate:
            break
        if not _holds(state, job, i):
            begin = state.steps[i + 1].time if i + 1 < n else np.inf
    return begin
