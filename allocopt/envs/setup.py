"""What an environment is made of, checked: the jobs, the machine, the window, and what is rewarded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from allocopt.envs.rewards import Reward
from allocopt.errors import UsageError
from allocopt.simulator.rules import Backfill, Rules
from allocopt.traces.lublin import lublin_workload
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

LUBLIN_PROCESSORS = 256
LUBLIN_JOBS = 10_000
"""Jobs drawn where no workload is given, or twice an episode if that is more."""

BackfillName = Literal["none", "easy"]
BACKFILLS: dict[BackfillName, Backfill] = {"none": Backfill.NONE, "easy": Backfill.EASY}


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """An environment, but for chance.

    Parameters
    ----------
    workload
        The jobs of which an episode takes some, or a file of them; None for jobs of the Lublin-Feitelson model.
    processors
        Size of the machine; None for that of the workload's, 256 for the model's.
    n_jobs
        Consecutive jobs of an episode, at least 1.
    window
        Waiting jobs among which the agent chooses, at least 1.
    backfill
        Which jobs may start while the chosen one waits for processors.
    reward
        What the agent is rewarded for.
    rules
        How events at the same time are taken, and whether jobs are killed and wait for others.

    Raises
    ------
    UsageError
        If a number is out of range, the size of the machine is not known, or the workload has too few jobs or one
        larger than the machine.
    BadFileError
        If the workload cannot be read.
    """

    workload: Workload | Path | str | None
    processors: int | None
    n_jobs: int
    window: int
    backfill: BackfillName
    reward: Reward
    rules: Rules

    def __post_init__(self) -> None:
        if isinstance(self.workload, str | Path):
            object.__setattr__(self, "workload", read_workload(Path(self.workload)))
        for name, number in (("n_jobs", self.n_jobs), ("window", self.window), ("processors", self.machine)):
            if number < 1:
                raise UsageError(f"{name} is {number}, must be at least 1")
        if self.backfill not in BACKFILLS:
            raise UsageError(f"backfill is {self.backfill!r}, must be one of {', '.join(BACKFILLS)}")
        if not self.reward.unit_s > 0:
            raise UsageError(f"the reward's unit is {self.reward.unit_s} s, must be positive")
        if isinstance(self.workload, Workload):
            self._check_jobs(self.workload)

    @property
    def is_drawn(self) -> bool:
        """Whether the jobs are drawn from the model."""
        return self.workload is None

    @property
    def machine(self) -> int:
        """Number of processors of the machine."""
        if self.processors is not None:
            return self.processors
        known = self.workload.machine_processors if isinstance(self.workload, Workload) else LUBLIN_PROCESSORS
        if known is None:
            raise UsageError("the workload does not say how large its machine is; give processors")
        return known

    def jobs(self, rng: np.random.Generator) -> Workload:
        """Return the workload, drawn where none is given."""
        if isinstance(self.workload, Workload):
            return self.workload
        return lublin_workload(max(LUBLIN_JOBS, 2 * self.n_jobs), self.machine, rng)

    def _check_jobs(self, workload: Workload) -> None:
        """Raise `UsageError` for a workload that the machine cannot run, or that is too short."""
        if len(workload) < self.n_jobs:
            raise UsageError(f"{workload.name} has {len(workload)} jobs, an episode takes {self.n_jobs}")
        large = workload.processors > self.machine
        if large.any():
            job = int(np.argmax(large))
            fault = f"asks for {workload.processors[job]} processors of {self.machine}"
            remedy = "drop such jobs with Workload.fitting"
            raise UsageError(f"job {workload.ids[job]} of {workload.name} {fault}; {remedy}")
