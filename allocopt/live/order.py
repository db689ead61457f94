"""A queue order for waiting jobs by the scores of a network, with a history of jobs that started and ended."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.slurm_jobs import RUNNING
from allocopt.errors import UsageError
from allocopt.kernels.ready import make_ready
from allocopt.live.slurm import Look, SlurmJob
from allocopt.simulator.kernels.scoring import learn_run, learn_wait, run_time_after, score_queue
from allocopt.simulator.rules import QueueKeys, QueueOrder
from allocopt.simulator.scheduler import get_policy
from allocopt.simulator.scoring import IDLE, MEAN_WAIT, N_STARTED, WAITING, new_scores, no_history
from allocopt.simulator.shared.state import SharedMachine, amounts_asked
from allocopt.traces.workload import Workload

ENDED = frozenset(("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "DEADLINE"))
"""States of ended jobs whose run times are learned. Jobs that lost their nodes (NODE_FAIL, PREEMPTED) are left out."""


_NONE, _NO_IDS = np.empty(0), np.empty(0, dtype=np.int64)


def network_named(policy: str, options: dict[str, str] | None = None) -> FloatArray:
    """Return the network of a policy that scores jobs, such as ``evolved-priority``; raise `UsageError` for others."""
    order = get_policy(policy, options)
    if isinstance(order, QueueOrder):
        keys = order.keys(Workload("no jobs", _NO_IDS, _NONE, _NONE, _NO_IDS, _NONE), np.random.default_rng(0))
        if keys.network is not None:
            return keys.network
    raise UsageError(f"policy {policy!r} does not score jobs: give evolved-priority or evolved-formula")


@dataclass(slots=True)
class LiveOrder:
    """The queue order of a network on a running cluster, and what it has learned since the service began."""

    network: FloatArray
    _users: dict[str, FloatArray] = field(default_factory=dict)  # rows of `Scores.history`
    _waits: FloatArray = field(
        default_factory=lambda: np.zeros(N_STARTED + 1)
    )  # as the row ``WAITING`` of `Scores.now`
    _begun: set[str] = field(default_factory=set)  # listed jobs whose start was learned from
    _ended: set[str] = field(default_factory=set)  # listed jobs whose end was learned from

    def learn(self, look: Look) -> None:
        """Learn from the jobs that have started or ended since the last look; Slurm lists ended ones for minutes."""
        ended = [job for job in look.jobs if job.state in ENDED and 0 < job.start_s < job.end_s]
        begun = [*(job for job in look.jobs if job.state in RUNNING and job.start_s > 0), *ended]
        for job in sorted(begun, key=lambda job: (job.start_s, job.number)):
            if job.id not in self._begun:
                learn_wait(self._waits, waited(job, job.start_s))
        for job in sorted(ended, key=lambda job: (job.end_s, job.number)):
            if job.id not in self._ended:
                past = self._users.setdefault(job.user, no_history(1)[0])
                learn_run(past, job.end_s - job.start_s, max(job.finite_limit_s, 1.0))
        self._begun, self._ended = {job.id for job in begun}, {job.id for job in ended}

    def run_s(self, job: SlurmJob) -> float:
        """Return the predicted run time of a job in seconds, from its user's last jobs; its limit if there are none."""
        past = self._users.get(job.user)
        return job.finite_limit_s if past is None else run_time_after(past, job.finite_limit_s)

    def places(self, look: Look, jobs: Sequence[SlurmJob], requests: Sequence[ClusterRequest]) -> IntArray:
        """Return the indices of waiting jobs in the order of their scores, the first in line first, shape ``(n,)``.

        Parameters
        ----------
        look
            The cluster now.
        jobs, requests
            The waiting jobs in Slurm's order, which decides between equal scores, and what they ask for.
        """
        make_ready((score_queue,))
        machine, n = SharedMachine.of(look.cluster), len(jobs)
        users, user = np.unique([job.user for job in jobs], return_inverse=True)
        limits = np.array([max(job.finite_limit_s, 1.0) for job in jobs])
        asked = np.stack([amounts_asked(one, machine.capacity) for one in requests])
        scores = new_scores(
            QueueKeys.by_score(n, self.network), None, limits, asked, machine.total, user.reshape(-1).astype(np.int64)
        )
        for row, name in enumerate(users.tolist()):
            if name in self._users:
                scores.history[row] = self._users[name]
        scores.now[WAITING, [MEAN_WAIT, N_STARTED]] = self._waits[[MEAN_WAIT, N_STARTED]]
        _, held = look.held(*(job for job in look.jobs if job.state in RUNNING))
        counted = machine.total > 0
        scores.now[IDLE, : counted.sum()] -= held.sum(axis=0)[counted]
        found = np.empty(n)
        score_queue(scores, limits, np.array([waited(job, look.now_s) for job in jobs]), found)
        return np.argsort(found, kind="stable")


def waited(job: SlurmJob, until_s: float) -> float:
    """Return the seconds that a job has waited until a time, from the later of its submission and its begin time."""
    # A job that the service holds has a begin time set by the service, not by its user.
    since = job.submit_s if job.is_delayed else max(job.submit_s, job.begin_s)
    return max(0.0, until_s - since)


def exchanged(jobs: Sequence[SlurmJob], is_ours: Sequence[bool], places: IntArray) -> list[int]:
    """Return the indices of jobs in an order in which ours exchange places and all others keep theirs.

    Jobs exchange places only within a partition, so that partitions keep the priority that the site gives them.

    Parameters
    ----------
    jobs
        The jobs in Slurm's order.
    is_ours
        Whether each has opted in.
    places
        Indices of the jobs in the order that ours are to have among themselves.
    """
    wanted: dict[str, list[int]] = {}
    for place in places.tolist():
        if is_ours[place]:
            wanted.setdefault(jobs[place].partition, []).append(place)
    following = {partition: iter(ours) for partition, ours in wanted.items()}
    return [next(following[jobs[at].partition]) if is_ours[at] else at for at in range(len(jobs))]


def nice_of(jobs: Sequence[SlurmJob]) -> dict[str, tuple[SlurmJob, int]]:
    """Return the nice values that make Slurm keep the jobs of each partition in the given order.

    The own priorities of a partition's jobs are redistributed: the first job gets the highest one. The result has only
    the jobs whose nice value changes, by id, with that value. Tasks of an array that wait as one record are one job.
    """
    listed: dict[str, SlurmJob] = {}
    for job in jobs:
        listed.setdefault(job.together or job.id, job)
    own: dict[str, list[int]] = {}
    for job in listed.values():
        own.setdefault(job.partition, []).append(job.own_priority)
    shared = {partition: iter(_falling(sorted(values, reverse=True))) for partition, values in own.items()}
    changed = {}
    for ids, job in listed.items():
        nice = job.priority + job.nice - next(shared[job.partition])
        if nice != job.nice:
            changed[ids] = job, nice
    return changed


def _falling(values: Sequence[int]) -> list[int]:
    """Return values lowered until each is below the one before: Slurm orders jobs of equal priority by their ids."""
    found = list(values[:1])
    for value in values[1:]:
        found.append(min(value, found[-1] - 1))
    return found
