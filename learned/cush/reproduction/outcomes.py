"""What schedulers make of the same job sets: means of every set, and every job's own times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.envs.cush.jobsets import HELD_OUT, JobSet, Machine, draw_jobsets, sierra, summit
from allocopt.envs.cush.task import Episodes, Options
from allocopt.reproduction import ReproductionRequest
from allocopt.simulator.locality_table import SIERRA_TABLE
from heuristics.scheduling.job_selection import BACKFILLS, RULES, list_values, policies_of
from learned.cush.acting import Agent, run_agent
from learned.cush.reproduction.published import CUSH

MACHINES = {"sierra": sierra, "summit": summit}
FIXED = ("depth-first", "breadth-first")
BASELINES = tuple(f"{rule}, {policy}" for rule in RULES for policy in FIXED)
ORACLES = tuple(f"{rule}, oracle" for rule in RULES)
METHODS = (CUSH, *BASELINES, *ORACLES)
"""CuSH, the baselines of the paper, and what a policy selector can give these at most."""

SETS, QUICK_SETS = 1000, 100
"""Held-out job sets of a run."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """What a scheduler made of some job sets.

    Parameters
    ----------
    sets
        What `Episodes.metrics` says of every job set.
    wait, service, length
        Times of all jobs in timesteps, shape ``(n,)``.
    share
        Largest share of the machine's CPUs or GPUs that each job asks for, shape ``(n,)``.
    policy, better
        How each job was allocated, and the better policy for it, shape ``(n,)``.
    """

    sets: Mapping[str, FloatArray]
    wait: FloatArray
    service: FloatArray
    length: FloatArray
    share: FloatArray
    policy: IntArray
    better: IntArray

    @property
    def turnaround(self) -> FloatArray:
        """Normalized turnaround times of all jobs."""
        return np.asarray((self.wait + self.service) / self.service)


def held_out(machine: Machine, request: ReproductionRequest) -> list[JobSet]:
    """Draw the job sets that neither the locality model nor a training has seen."""
    count = QUICK_SETS if request.is_quick else SETS
    return draw_jobsets(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + count))


def of_baseline(jobsets: Sequence[JobSet], machine: Machine, method: str, seed: int = 0) -> Outcomes:
    """Schedule job sets by a baseline, one of `BASELINES` or `ORACLES`."""
    rule, policy = method.split(", ")
    episodes, rng = Episodes(jobsets, machine), np.random.default_rng(seed)
    metrics, times = [], []
    for number, jobs in enumerate(jobsets):
        values, policies = list_values(rule, jobs, machine, rng), policies_of(policy, jobs)
        episodes.follow_list(number, values, policies, BACKFILLS[rule])
        metrics.append(episodes.metrics())
        times.append(episodes.times(0))
    sets = {name: np.concatenate([row[name] for row in metrics]) for name in metrics[0]}
    return _outcomes(jobsets, machine, sets, times)


def of_agent(agent: Agent, jobsets: Sequence[JobSet], machine: Machine, queue: int) -> Outcomes:
    """Schedule job sets by a trained agent."""
    episodes = Episodes(jobsets, machine, len(jobsets), Options(queue, skips_forced=True))
    run_agent(agent, episodes)
    times = [episodes.times(number) for number in range(len(jobsets))]
    return _outcomes(jobsets, machine, episodes.metrics(), times)


def _outcomes(
    jobsets: Sequence[JobSet],
    machine: Machine,
    sets: Mapping[str, FloatArray],
    times: Sequence[tuple[IntArray, IntArray, IntArray]],
) -> Outcomes:
    """Put the jobs of all sets one after the other."""
    pairs = list(zip(jobsets, times, strict=True))
    return Outcomes(
        sets=sets,
        wait=np.concatenate([start - jobs.arrival for jobs, (start, _, _) in pairs]).astype(np.float64),
        service=np.concatenate([jobs.service[np.arange(len(jobs)), policy] for jobs, (_, _, policy) in pairs]),
        length=np.concatenate([jobs.length for jobs in jobsets]),
        share=np.concatenate([(jobs.request / np.array(machine.total)).max(axis=1) for jobs in jobsets]),
        policy=np.concatenate([policy for _, (_, _, policy) in pairs]),
        better=np.concatenate([jobs.better for jobs in jobsets]),
    )


def best_turnaround(jobsets: Sequence[JobSet], machine: Machine) -> float:
    """Return the smallest mean normalized turnaround time of a baseline."""
    runs = [of_baseline(jobsets, machine, method).sets["normalized_turnaround"] for method in BASELINES]
    return min(float(run.mean()) for run in runs)
