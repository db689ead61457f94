"""The task of batch scheduling: its arguments, its episodes side by side, and its environments."""

from pathlib import Path
from typing import Any, Literal

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.batch_scheduling.dynamics import (
    LAYOUT,
    MEANINGS,
    BoundedSlowdown,
    Episode,
    Makespan,
    MeanWait,
    Reward,
    Utilization,
    step_and_describe_all,
)
from allocopt.envs.environments import About, Task, check_sizes, check_type, environments_of
from allocopt.envs.side_by_side import Compiled, first_state
from allocopt.errors import UsageError
from allocopt.simulator.rules import Backfill, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.traces.generators import lublin_workload
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

LUBLIN_PROCESSORS = 256
LUBLIN_JOBS = 10_000  # jobs drawn where no workload is given, or twice an episode if that is more

BackfillName = Literal["none", "easy"]
BACKFILLS: dict[BackfillName, Backfill] = {"none": Backfill.NONE, "easy": Backfill.EASY}


class Episodes(Compiled):
    """Runs of consecutive jobs, all of them over until `begin` is called; a jobset is the number of the first job."""

    layout = LAYOUT

    def __init__(self, task: "BatchScheduling", workload: Workload, count: int) -> None:
        self.workload, self.machine, self.n_jobs = workload, task.machine, task.n_jobs
        state = first_state(
            workload, workload.processors[:, np.newaxis], [self.machine], task.rules, BACKFILLS[task.backfill]
        )
        one = Episode(
            state._replace(
                jobs=np.zeros_like(np.asarray(state.jobs)[: self.n_jobs]), lists=state.lists[:, : self.n_jobs]
            ),
            LAYOUT.record("tally"),
            LAYOUT.record("terms", kind=task.reward.kind, unit_s=task.reward.unit_s, window=task.window),
            state.clock,
            state.jobs,
        )
        first = np.arange(len(workload) - self.n_jobs + 1)
        # A jobset is a window into one array of jobs, so that no job is copied for each episode that holds it.
        super().__init__(count, [one], task.n_actions, task.shape, jobs=np.stack([first, first + self.n_jobs], axis=1))
        self._play(self._stay, self._stay)

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return what the agents see, shape ``(E, window, 8)``, and which slots are occupied, ``(E, window)``."""
        return self._seen

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        self._play(self._stay, self._stay)

    def _play(self, actions: IntArray, jobsets: IntArray) -> tuple[FloatArray, BoolArray]:
        results, self._seen = (np.empty(len(actions)), np.empty(len(actions), np.bool_)), self._blank()
        step_and_describe_all(self._batch, actions, jobsets, *results, *self._seen)
        return results

    def metrics(self) -> dict[str, FloatArray]:
        """Return means over the jobs started so far, and the last end in seconds, shapes ``(E,)``."""
        tally, started = self.tally, np.maximum(self.tally["started"], 1)
        return {
            "mean_bounded_slowdown": tally["bounded_slowdown"] / started,
            "mean_wait_s": tally["wait_s"] / started,
            "makespan_s": tally["makespan_s"].copy(),
        }

    def schedule(self, e: int = 0) -> Schedule:
        """Return when the jobs of an episode started and end, counted from its first submission; NaN where unknown."""
        jobs = np.asarray(self.arrays(e).state.jobs)
        first = int(self.tally["jobset"][e])
        workload = self.workload.subset(slice(first, first + self.n_jobs), float(self.workload.submit[first]))
        return Schedule(workload, self.machine, jobs["release"].copy(), jobs["start"].copy(), jobs["end"].copy())


class BatchScheduling(Task[Episodes, Float32Array]):
    """An agent chooses which waiting job starts next.

    Raises `UsageError` if a number is out of range, the size of the machine is not known, or the workload has too few
    jobs or one larger than the machine; `BadFileError` if the workload cannot be read.

    Parameters
    ----------
    workload
        The jobs of which an episode takes some, or a file of them (SWF, Batsim JSON, the NSA paper's text; packed too);
        None: 10,000 jobs of the Lublin-Feitelson model, drawn at the first `reset` and at every one with a ``seed``.
    processors
        Size of the machine; None for that of the workload's, 256 for the model's.
    n_jobs
        Consecutive jobs of an episode, at least 1.
    window
        Waiting jobs among which the agent chooses, at least 1.
    backfill
        ``easy``: while the chosen job waits for processors, others start if they do not delay it by the estimates;
        ``none``, the default of RLScheduler (Zhang et al., SC 2020): no other does.
    reward
        What the agent is rewarded for; None for ``BoundedSlowdown()``.
    rules
        Order of simultaneous events, whether jobs are killed at limits and wait for others; None for the defaults.
    """

    jobset_option = "offset"
    about = About(
        title="Batch scheduling",
        episode="""\
An episode schedules `n_jobs` consecutive jobs of the workload on an empty machine, of which the first, drawn or named
as `offset`, is submitted at 0.

The window holds the first waiting jobs in order of arrival. If the chosen job fits, it starts. If not, it gets a
reservation: time advances until it fits, and meanwhile EASY backfilling starts other jobs, also from outside the
window. The episode ends when every job has started. `allocopt.measure(env.unwrapped.episodes.schedule())`
returns all metrics of what the agent did.""",
        action="The slot whose job starts next.",
        mask="A slot is legal where a job waits; another one stands for slot 0.",
        seen="A row per slot.",
        meanings={"A slot": MEANINGS},
        rewards=(BoundedSlowdown, MeanWait, Makespan, Utilization),
        example="""\
env = gymnasium.make("allocopt.envs:allocopt/BatchScheduling-v0")
observation, info = env.reset(seed=1)
over = False
while not over:
    slots = np.flatnonzero(info["action_mask"])
    shortest = slots[observation[slots, 2].argmin()]
    observation, reward, over, _, info = env.step(shortest)
print(info["mean_bounded_slowdown"])
""",
    )

    def __init__(
        self,
        workload: Workload | Path | str | None = None,
        processors: int | None = None,
        n_jobs: int = 256,
        window: int = 128,
        backfill: BackfillName = "easy",
        reward: Reward | None = None,
        rules: Rules | None = None,
    ) -> None:
        self.workload = read_workload(Path(workload)) if isinstance(workload, str | Path) else workload
        super().__init__(None if self.workload is None else [self.workload])
        machine = processors
        if machine is None:
            machine = LUBLIN_PROCESSORS if self.workload is None else self.workload.machine_processors
        if machine is None:
            raise UsageError("the workload does not say how large its machine is; give processors")
        for name, number in (("n_jobs", n_jobs), ("window", window), ("processors", machine)):
            if number < 1:
                raise UsageError(f"{name} is {number}, must be at least 1")
        if backfill not in BACKFILLS:
            raise UsageError(f"backfill is {backfill!r}, must be one of {', '.join(BACKFILLS)}")
        self.machine, self.n_jobs, self.window, self.backfill = machine, n_jobs, window, backfill
        self.reward: Reward = BoundedSlowdown() if reward is None else reward
        check_type("reward", self.reward, Reward)
        if not self.reward.unit_s > 0:
            raise UsageError(f"the reward's unit is {self.reward.unit_s} s, must be positive")
        self.rules = Rules() if rules is None else rules
        check_type("rules", self.rules, Rules)
        self.shape, self.n_actions = (window, len(MEANINGS)), window
        if self.workload is not None:
            if len(self.workload) < n_jobs:
                raise UsageError(f"{self.workload.name} has {len(self.workload)} jobs, an episode takes {n_jobs}")
            check_sizes(self.workload, machine, "processors")

    def episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        workload = self.workload
        if workload is None:
            workload = lublin_workload(max(LUBLIN_JOBS, 2 * self.n_jobs), self.machine, rng)
        return Episodes(self, workload, count)


BatchSchedulingEnv, BatchSchedulingVectorEnv = environments_of(BatchScheduling)
