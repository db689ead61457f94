"""The whole simulation under a built-in scheduler."""

import numpy as np
from numba import boolean, int64, void

from allocopt.kernels.compiled import kernel
from allocopt.simulator.kernels.backfilling import fits, list_pass
from allocopt.simulator.kernels.conservative import conservative_pass
from allocopt.simulator.kernels.events import HAPPENED, advance, start_job
from allocopt.simulator.kernels.queue import dequeue, place_in_queue
from allocopt.simulator.rules import Backfill
from allocopt.simulator.state import FREE, STATE, State

CONSERVATIVE = int(Backfill.CONSERVATIVE)


@kernel(void(STATE), forceinline=True)
def scheduling_pass(state: State) -> None:
    """Start the jobs that the built-in scheduler would start now, or a part of them."""
    if state.rules[0].backfill == CONSERVATIVE:
        conservative_pass(state)
    else:
        list_pass(state)


@kernel(int64(STATE, int64))
def run(state: State, passes: int) -> int:
    """Simulate until nothing is left to happen, or for a number of passes; return how many were made."""
    for done in range(passes):
        if not state.clock[0].unfinished and advance(state, np.inf) != HAPPENED:
            return done
        scheduling_pass(state)
    return passes


@kernel(boolean(STATE, int64))
def start_waiting(state: State, job: int) -> bool:
    """Start a job if it waits and fits; return whether it did."""
    place = place_in_queue(state, job)
    if place < 0 or not fits(state, job, FREE):
        return False
    dequeue(state, place)
    start_job(state, job)
    return True
