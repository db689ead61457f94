"""A simulation seen as an episode of CuSH: what its agents would see of the queue and the machine now."""

from dataclasses import dataclass

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.cush.batch import NOBODY
from allocopt.envs.cush.episodes import Episodes, Options
from allocopt.envs.cush.jobsets import JobSet, Machine


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """What the policy selector is to know of the jobs of a workload, and what their placement costs.

    Parameters
    ----------
    traits
        What is told of each job's kind, shape ``(n, K)``, as in `JobSet`.
    penalty_s
        Seconds that each takes longer under each `Policy`, shape ``(n, 2)``.
    """

    traits: FloatArray
    penalty_s: FloatArray


class LiveEpisode:
    """An episode that is set, not stepped.

    Parameters
    ----------
    jobs
        The jobs of the simulation; their numbers below are those of this set.
    machine
        The cluster.
    options
        Queue and observation.
    """

    def __init__(self, jobs: JobSet, machine: Machine, options: Options) -> None:
        self._episodes = Episodes([jobs], machine, 1, options)
        self._batch = self._episodes._batch

    def set(self, now: int, waiting: IntArray, running: IntArray, ends: IntArray, free: IntArray) -> None:
        """Say how things stand.

        Parameters
        ----------
        now
            Timesteps since the beginning.
        waiting
            Jobs that wait, first things first; those beyond the queue are the backlog.
        running, ends
            Jobs that run, and the timesteps by which they end, those that end first in front.
        free
            CPUs and GPUs that nobody holds.
        """
        batch, tally = self._batch, self._batch.tally[0]
        shown = waiting[: self._episodes.options.queue]
        batch.slots[0] = NOBODY
        batch.slots[0, : len(shown)] = shown
        batch.list[0, : len(running)] = running
        batch.end[0, running] = ends
        tally["over"] = 0
        tally["now"] = now
        tally["admitted"], tally["arrived"] = len(shown), len(waiting)
        tally["running"] = len(running)
        tally["free_cpus"], tally["free_gpus"] = free

    def look(self) -> tuple[Float32Array, BoolArray]:
        """Return what the job selector sees and what it may do, one episode in front."""
        return self._episodes.observe()

    def slots(self) -> IntArray:
        """Return the jobs of the queue, `NOBODY` in an empty slot."""
        slots: IntArray = self._batch.slots[0].copy()
        return slots

    def described(self, slot: int) -> Float32Array:
        """Return what the policy selector is told of the job in a slot, shape ``(1, inputs)``."""
        return self._episodes.descriptions()[:, slot]
