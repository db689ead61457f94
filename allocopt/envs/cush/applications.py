"""Jobs of applications whose types become known: after a few runs of an application it is classified (section 3.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import IntArray
from allocopt.envs.cush.jobsets import GPUS, JobSet, Machine, Recipe
from allocopt.envs.cush.task import Episodes
from allocopt.errors import UsageError
from allocopt.simulator.locality import PenaltyTable, Policy, WorkloadType
from allocopt.simulator.locality_fit import Measured, TypeClassifier


@dataclass(frozen=True, slots=True, eq=False)
class ApplicationSet:
    """A job set, and which application each job is a run of.

    Parameters
    ----------
    jobs
        The jobs; no type is told.
    applications
        Numbers of their applications, in the order of the jobs, shape ``(n,)``.
    """

    jobs: JobSet
    applications: IntArray


def draw_application_sets(
    machine: Machine, table: PenaltyTable, seeds: Sequence[int], count: int, recipe: Recipe | None = None
) -> list[ApplicationSet]:
    """Draw a job set for each seed, of runs of the same applications: half compute-bound, half network-bound.

    Parameters
    ----------
    machine, table, seeds, recipe
        As in `allocopt.envs.cush.jobsets.draw_jobsets`; shares of types are not looked at.
    count
        Number of applications; those with even numbers are compute-bound, the others network-bound.

    Raises
    ------
    UsageError
        If there is no application.
    """
    if count < 1:
        raise UsageError(f"the number of applications is {count}, must be at least 1")
    return [_drawn(machine, table, np.random.default_rng(seed), count, recipe or Recipe()) for seed in seeds]


def _drawn(
    machine: Machine, table: PenaltyTable, rng: np.random.Generator, count: int, recipe: Recipe
) -> ApplicationSet:
    arrival, length, request = recipe.shapes(machine, rng)
    # Job sets are in this order, so that applications must be drawn for it.
    order = np.lexsort((length, arrival))
    applications = rng.integers(0, count, recipe.jobs)
    kinds = np.where(applications % 2 == 0, WorkloadType.COMPUTE, WorkloadType.NETWORK)
    arrival, length, request = arrival[order], length[order], request[order]
    service = length[:, np.newaxis] + table.penalties(kinds, request[:, GPUS])
    told = np.tile(np.eye(len(WorkloadType))[WorkloadType.UNKNOWN], (recipe.jobs, 1))
    return ApplicationSet(JobSet(arrival, length, request, service, told), applications)


class DynamicTypes:
    """Tells agents the types of applications as soon as enough runs of them have ended.

    Parameters
    ----------
    classifier
        Classifies applications; what it knows stays from one job set to the next.
    episodes
        One episode at a time, over the job sets of ``sets``.
    sets
        Job sets of applications.

    Raises
    ------
    UsageError
        If there are several episodes side by side, or other job sets.
    """

    def __init__(self, classifier: TypeClassifier, episodes: Episodes, sets: Sequence[ApplicationSet]) -> None:
        if episodes.n_environments != 1 or len(episodes.jobsets) != len(sets):
            raise UsageError("types are classified in one episode at a time, over the job sets that are given")
        self._classifier, self._episodes, self._sets = classifier, episodes, tuple(sets)
        self._seen: set[int] = set()

    def begin(self, number: int) -> None:
        """Begin an episode with a job set, and tell what is known by now."""
        self._seen.clear()
        self._episodes.begin(np.array([number]))
        self._tell(number)

    def look(self) -> None:
        """Take note of the jobs that have ended since, and tell what is known by now; to be called after steps."""
        episodes = self._episodes
        number, now = int(episodes.tally["jobset"][0]), int(episodes.tally["now"][0])
        one, (start, end, policy) = self._sets[number], episodes.times(0)
        ended = [int(job) for job in np.flatnonzero((start >= 0) & (end <= now)) if int(job) not in self._seen]
        for job in ended:
            self._seen.add(job)
            how = Policy(int(policy[job]))
            service, length = float(one.jobs.service[job, how]), float(one.jobs.length[job])
            run = Measured(WorkloadType.UNKNOWN, how, int(one.jobs.request[job, GPUS]), length, service)
            self._classifier.observe(str(one.applications[job]), run)
        if ended:
            self._tell(number)

    def _tell(self, number: int) -> None:
        kinds = [self._classifier.type_of(str(application)) for application in self._sets[number].applications]
        self._episodes.tell(number, np.eye(len(WorkloadType))[kinds])
