"""Where agents that select policies are trained, rewarded relative to what the policies alone come to."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.cluster.irmasim import heterogeneous, homogeneous
from allocopt.cluster.multicore import Machine
from allocopt.envs.policy_selection.task import Episodes, Options
from allocopt.errors import UsageError
from allocopt.simulator.multicore.state import Execution
from allocopt.traces.irmasim import npb_batch
from allocopt.traces.tasks import TaskWorkload
from learned.rl.state import Stateful

HETEROGENEOUS, HOMOGENEOUS = "heterogeneous", "homogeneous"
SUBSET = (
    "first-high_gflops",
    "first-high_cores",
    "first-low_power",
    "low_mem_bw-high_gflops",
    "low_mem_bw-high_cores",
    "low_mem_bw-low_power",
)
"""The small subset of policies among which agents choose, where nothing else is said."""
PAPERS: Mapping[str, Machine] = MappingProxyType({HETEROGENEOUS: heterogeneous(), HOMOGENEOUS: homogeneous()})
"""The clusters on which IRMaSim was validated."""


def machine_of(platform: str, types: str = "") -> Machine:
    """Return one of `PAPERS`, or read a platform file, with a library's folder for types that it leaves out.

    Raises `UsageError` if it is neither, `BadFileError` if the file is not right.
    """
    if platform in PAPERS:
        return PAPERS[platform]
    if not Path(platform.partition("#")[0]).exists():
        known = ", ".join(PAPERS)
        raise UsageError(f"there is no platform {platform!r}; it must be one of {known}, or a file")
    from allocopt.cluster.reading import read_machine

    return read_machine(platform, types or None)


def jobsets_of(trace: str, jobs: int, batch: int) -> tuple[TaskWorkload, ...]:
    """Read workloads of tasks, separated by commas; where none is named, draw NPB jobs by the seed ``batch``."""
    if not trace:
        return (npb_batch(jobs, np.random.default_rng(batch)),)
    from allocopt.traces.irmasim import read_irmasim

    return tuple(read_irmasim(path) for path in trace.split(","))


class WholeEpisodes(Stateful):
    """Episodes on the same random job set that begin together, at least 2; see `learned.rl.algorithms.Environment`.

    All begin anew after as many steps as the longest can have. What an episode gains in a step is the reward over that
    of a reference, negative and one for each job set, plus the share of the work that was done in it: this adds up to
    the share by which it stays below the reference. It is rewarded with what it gains beyond the mean of all.
    """

    state = ("episodes", "_rng", "_at")

    def __init__(
        self,
        jobsets: Sequence[TaskWorkload],
        machine: Machine,
        execution: Execution,
        options: Options,
        references: FloatArray,
        count: int,
        seed: int,
    ) -> None:
        self.episodes = Episodes(jobsets, machine, count, execution, options, seed)
        self.n_environments = count
        self.horizon = longest(jobsets, machine, options)
        self._references = -references
        self._rng = np.random.default_rng((seed, 1))
        self._at = 0
        self._taken = np.zeros(len(options.actions), dtype=np.int64)
        self.shares = np.zeros(len(options.actions))
        """Share of the decisions in which each policy was named, in the episodes that were over last, ``(A,)``."""
        self.totals = np.zeros(count)  # What the rewards of the options added up to in these, shape ``(E,)``

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return states and legal actions; see `learned.rl.algorithms.Environment.observe`."""
        if self._at == 0:
            self._taken[:] = 0
            jobset = int(self._rng.integers(0, len(self.episodes.jobsets)))
            self.episodes.begin(np.full(self.n_environments, jobset))
        return self.episodes.observe()

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        """Let a policy start jobs in each episode; an episode ends in one step only, the last that it plays."""
        tally = self.episodes.tally
        was_over, before = tally["over"] != 0, tally["done"].copy()
        self._taken += np.bincount(actions[~was_over], minlength=len(self._taken))
        rewards, over = self.episodes.step(actions)
        self._at = (self._at + 1) % self.horizon
        if self._at == 0:
            self.shares = self._taken / self._taken.sum()
            self.totals = tally["total_reward"].copy()
        gained = rewards / self._references[tally["jobset"]] + tally["done"] - before
        return gained - gained.mean(), over & ~was_over

    def score(self, choose: Callable[[Float32Array, BoolArray], IntArray]) -> float:
        """Play every job set once; return the mean share by which rewards stay below the references."""
        mine = self.episodes
        played = Episodes(mine.jobsets, mine.machine, len(mine.jobsets), mine.execution, mine.options)
        played.begin(np.arange(len(mine.jobsets)))
        over = np.zeros(len(mine.jobsets), dtype=np.bool_)
        while not over.all():
            over = played.step(choose(*played.observe()))[1]
        return float(1 + (played.tally["total_reward"] / self._references).mean())


def longest(jobsets: Sequence[TaskWorkload], machine: Machine, options: Options) -> int:
    """Most decisions of an episode: one at each submission and each end of a task, or at each start alone."""
    return max(
        len(jobs) if _starts_always(jobs, machine, options) else len(jobs) + int(jobs.tasks.sum()) for jobs in jobsets
    )


def _starts_always(jobs: TaskWorkload, machine: Machine, options: Options) -> bool:
    # Every policy starts a job wherever a core is idle: serial jobs that memory does not limit.
    enough = all(
        node.memory_mb is None or node.cores * jobs.memory_mb.max() <= node.memory_mb for node in machine.nodes()
    )
    return enough and int(jobs.tasks.max()) == 1 and all(action.jobs is not None for action in options.policies)


def policy_rewards(
    jobsets: Sequence[TaskWorkload], machine: Machine, execution: Execution, options: Options, seed: int = 0
) -> FloatArray:
    """Return what the rewards of each policy alone come to, shape ``(S, A)``; void, which needs others, is NaN."""
    n_actions = len(options.actions)
    actions = np.tile(np.arange(n_actions), len(jobsets))
    episodes = Episodes(jobsets, machine, len(actions), execution, options, seed)
    episodes.begin(np.repeat(np.arange(len(jobsets)), n_actions))
    while not episodes.step(actions)[1].all():
        pass
    rewards = episodes.tally["total_reward"].reshape(len(jobsets), n_actions).copy()
    rewards[:, [action.jobs is None for action in options.policies]] = np.nan
    return np.asarray(rewards)
