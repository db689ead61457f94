"""Episodes side by side: the arrays they live in, and the compiled call that steps all of them."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.envs.batch import GOAL_DTYPE, N_FEATURES, TALLY_DTYPE, Batch, Masks, Observations
from allocopt.envs.kernels import step_all
from allocopt.envs.setup import BACKFILLS, Setup
from allocopt.errors import UsageError
from allocopt.simulator.rules import OrderKind, QueueKeys
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.state import CLOCK_DTYPE, JOB_DTYPE, new_state
from allocopt.traces.precedence import without_lost
from allocopt.traces.workload import Workload

GO_ON = -1
"""Stands where an episode goes on, instead of the offset at which a new one begins."""


class Episodes:
    """Independent episodes, all of the same workload.

    Parameters
    ----------
    setup
        What they have in common.
    count
        How many run side by side, at least 1.
    rng
        Source of randomness, where the workload is drawn.
    """

    def __init__(self, setup: Setup, count: int, rng: np.random.Generator) -> None:
        self._window = setup.window
        self._workload = setup.jobs(rng)
        self._machine = setup.machine
        self._n_jobs = setup.n_jobs
        self._batch = new_batch(setup, self._workload, count)

    @property
    def tally(self) -> NDArray[np.void]:
        """What each episode has come to, records of `Tally`, shape ``(count,)``; changed by `step`."""
        tally: NDArray[np.void] = self._batch.tally[:, 0]
        return tally

    def offsets(self, count: int, rng: np.random.Generator) -> IntArray:
        """Draw the first jobs of new episodes, shape ``(count,)``."""
        return rng.integers(0, len(self._workload) - self._n_jobs + 1, count)

    def check_offset(self, offset: int) -> int:
        """Return the first job of an episode if there are enough after it.

        Raises
        ------
        UsageError
            If there are not, or the number is negative.
        """
        most = len(self._workload) - self._n_jobs
        if not 0 <= offset <= most:
            raise UsageError(f"the offset is {offset}, must be within 0 .. {most}")
        return offset

    def step(self, slots: IntArray, offsets: IntArray) -> tuple[Observations, Masks]:
        """Carry out one action in every episode, or begin a new one.

        Parameters
        ----------
        slots
            The actions, shape ``(count,)``.
        offsets
            ``GO_ON``, or the first job of a new episode, shape ``(count,)``.

        Returns
        -------
        Observations, Masks
            New arrays of shapes ``(count, window, 8)`` and ``(count, window)``.
        """
        observations = np.empty((len(slots), self._window, N_FEATURES), dtype=np.float32)
        masks = np.empty((len(slots), self._window), dtype=np.int8)
        step_all(self._batch, slots, offsets, observations, masks)
        return observations, masks

    def results(self) -> dict[str, FloatArray]:
        """Return what each episode has come to: means over the jobs started so far, and the last end in seconds."""
        started = np.maximum(self.tally["started"], 1)
        return {
            "mean_bounded_slowdown": self.tally["bounded_slowdown"] / started,
            "mean_wait_s": self.tally["wait_s"] / started,
            "makespan_s": self.tally["makespan_s"].copy(),
        }

    def schedule(self, episode: int) -> Schedule:
        """Return when the jobs of an episode started and end; NaN where that is not known yet."""
        jobs = self._batch.jobs[episode]
        workload = part(self._workload, int(self.tally["offset"][episode]), self._n_jobs)
        return Schedule(workload, self._machine, *(jobs[field].copy() for field in ("release", "start", "end")))


def part(workload: Workload, offset: int, jobs: int) -> Workload:
    """Return consecutive jobs of a workload, the first submitted at 0; they wait for no job that is not among them."""
    kept = slice(offset, offset + jobs)
    preceding, think_s, _ = without_lost(workload.ids[kept], workload.preceding[kept], workload.think_s[kept])
    return replace(
        workload,
        ids=workload.ids[kept],
        submit=workload.submit[kept] - workload.submit[offset],
        run=workload.run[kept],
        processors=workload.processors[kept],
        estimate=workload.estimate[kept],
        users=workload.users[kept],
        executables=workload.executables[kept],
        preceding=preceding,
        think_s=think_s,
    )


def new_batch(setup: Setup, workload: Workload, count: int) -> Batch:
    """Return the arrays of episodes that have not begun."""
    arrival = QueueKeys(OrderKind.ARRIVAL, np.zeros(len(workload)))
    request, capacity = workload.processors[:, np.newaxis].copy(), np.array([setup.machine])
    state = new_state(workload, request, capacity, setup.rules, BACKFILLS[setup.backfill], arrival)
    pool = np.asarray(state.jobs)
    # One count of what is held is enough: nobody asks for shares of users.
    pool["user"] = 0
    goal = np.array([(setup.reward.kind, setup.reward.unit_s)], dtype=GOAL_DTYPE)
    return Batch(
        clock=np.zeros((count, 1), dtype=CLOCK_DTYPE),
        jobs=np.zeros((count, setup.n_jobs), dtype=JOB_DTYPE),
        lists=np.zeros((count, len(state.lists), setup.n_jobs), dtype=np.int64),
        units=np.tile(state.units, (count, 1, 1)),
        held=np.zeros((count, 1, 1), dtype=np.int64),
        tally=np.zeros((count, 1), dtype=TALLY_DTYPE),
        rules=state.rules,
        steps=state.steps,
        unpromised=state.unpromised,
        least=state.least[:, :0],
        goal=goal,
        pool=pool,
        request=state.request,
    )
