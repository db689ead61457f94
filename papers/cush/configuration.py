"""The jobsets of the comparisons, the paper's methods, and their results on the same jobsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.envs.cush.jobsets import HELD_OUT, JobSet, Machine, Recipe
from allocopt.envs.cush.task import CushEpisodes, CushOptions
from allocopt.heuristics.scheduling.job_selection import RULES, baseline_episodes
from allocopt.learned.cush.policies import Agent, Trained
from allocopt.learned.cush.training import CushTraining
from allocopt.simulator.locality import SIERRA_TABLE
from papers.artifact import Asked, published

PUBLISHED = published("cush")
TABLE_ONE = PUBLISHED["table1"]
CUSH = "CuSH"
FIXED = ("depth-first", "breadth-first")
BASELINES = tuple(f"{rule}, {policy}" for rule in RULES for policy in FIXED)
METHODS = (CUSH, *BASELINES, *(f"{rule}, oracle" for rule in RULES))
"""CuSH, the baselines of the paper, and these baselines with an oracle, the upper limit of any policy selector."""

OVER_REQUESTED = CushOptions(over_requested=True)
"""Options of the baselines' episodes."""
SETS, QUICK_SETS = 1000, 100
"""Number of held-out jobsets of a run."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Results of a scheduler on some jobsets: metrics of every set, and arrays of shape ``(n,)`` over all jobs.

    Normalized turnaround times are relative to the requested time unless noted otherwise. Times are in timesteps.
    ``share`` is the larger of a job's shares of the machine's CPUs and GPUs, ``policy`` is the policy by which it was
    allocated, and ``better`` is the better policy for it.
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
        """Turnaround times of all jobs over their requested times, as in the numbers of Table 1."""
        return np.asarray((self.wait + self.service) / self.length)

    @property
    def over_service(self) -> FloatArray:
        """Turnaround times of all jobs over their service times, as in the paper's text."""
        return np.asarray((self.wait + self.service) / self.service)

    def mean(self, metric: str) -> float:
        """Return the mean of a metric over the job sets."""
        return float(self.sets[metric].mean())


def unseen(asked: Asked) -> range:
    """Return the seeds of the jobsets that neither the locality model nor a training uses."""
    return range(HELD_OUT, HELD_OUT + asked.size(SETS, QUICK_SETS))


def held_out(machine: Machine, asked: Asked) -> list[JobSet]:
    """Draw the jobsets of the seeds of `unseen`."""
    return Recipe().draw_each(machine, SIERRA_TABLE, unseen(asked))


def of_baseline(
    jobsets: Sequence[JobSet], machine: Machine, method: str, seed: int = 0, options: CushOptions | None = None
) -> Outcomes:
    """Schedule job sets by a rule and a policy, or the ``oracle``, such as ``sjf, depth-first``."""
    rule, policy = method.split(", ")
    metrics, times = [], []
    for episodes in baseline_episodes(jobsets, machine, rule, policy, seed, options=options or OVER_REQUESTED):
        metrics.append(episodes.metrics())
        times.append(episodes.times(0))
    sets = {name: np.concatenate([row[name] for row in metrics]) for name in metrics[0]}
    return _outcomes(jobsets, machine, sets, times)


def of_agent(agent: Agent, jobsets: Sequence[JobSet], machine: Machine, options: CushOptions) -> Outcomes:
    """Schedule job sets by a trained agent, in episodes like those of its training."""
    episodes = CushEpisodes(jobsets, machine, len(jobsets), options)
    agent.run(episodes)
    times = [episodes.times(number) for number in range(len(jobsets))]
    return _outcomes(jobsets, machine, episodes.metrics(), times)


def _outcomes(
    jobsets: Sequence[JobSet],
    machine: Machine,
    sets: Mapping[str, FloatArray],
    times: Sequence[tuple[IntArray, IntArray, IntArray]],
) -> Outcomes:
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


def best_turnaround(jobsets: Sequence[JobSet], machine: Machine, methods: Sequence[str] = BASELINES) -> float:
    """Return the smallest mean normalized turnaround time of some baselines."""
    return min(of_baseline(jobsets, machine, method).mean("normalized_turnaround") for method in methods)


def runs_of(asked: Asked, name: str, method: str) -> list[Outcomes]:
    """Schedule the held-out job sets of a machine by a method; CuSH once for every training."""
    machine = Machine.of(name)
    jobsets = held_out(machine, asked)
    if method != CUSH:
        return [of_baseline(jobsets, machine, method)]
    return [
        of_agent(one.agent(), jobsets, machine, acting_options(one.queue)) for one in agents_for(asked.trained, name)
    ]


def acting_options(queue: int) -> CushOptions:
    """Return the options of episodes in which the shipped agents act."""
    return CushOptions(queue, skips_forced=True, over_requested=True)


def usual_trainings(folder: str, machine: str) -> list[Path]:
    """Return the folders with usual trainings for a machine, by their seeds; empty if no folder is given."""
    usual = CushTraining(machine=machine)
    found = []
    for path in sorted(Path(folder).glob("cush-*/weights.safetensors")) if folder else ():
        card = Trained.load(str(path)).card
        fields = ("machine", "nodes", "settings", "mask", "over", "network", "policies", "measured", "unknown_share")
        if all(card.settings[name] == getattr(usual, name) for name in fields):
            found.append((card.seed, path.parent))
    return [path for _, path in sorted(found)]


def agents_for(folder: str, machine: str) -> list[Trained]:
    """Return the agents in a folder for a machine, by their seeds, or the shipped one."""
    paths = usual_trainings(folder, machine)
    return [Trained.load(str(path / "weights.safetensors")) for path in paths] or [Trained.load(machine)]
