"""The training of ``rlscheduler``: the kernel network of Zhang et al. (SC 2020) on blocks of a trace."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from allocopt.envs.batch_scheduling.task import BACKFILLS, BatchScheduling
from allocopt.errors import UsageError
from allocopt.learned.rl.traces import acknowledgement, read_traces
from allocopt.learned.rl.training import DeclaredTraining, Trained, option
from allocopt.learned.rl.workers import Workers
from allocopt.learned.rlscheduler.policy import EPISODE_JOBS, NAME, WINDOW

if TYPE_CHECKING:
    from allocopt.learned.rlscheduler.learner import RlSchedulerLearner


@dataclass(frozen=True)
class RlSchedulerTraining(DeclaredTraining["RlSchedulerLearner"]):
    """Trains RLScheduler's kernel network by PPO on episodes of 256 jobs; the reward is minus the mean slowdown."""

    trace: str = ""  # Workload file
    processors: int | str = 0  # Size of the machine; 0 for the size in the trace
    epochs: int = option(100, least=1)
    trajectories: int = option(100, least=2)  # Number of episodes of an epoch
    backfill: str = option("easy", among=BACKFILLS)  # Backfilling while the chosen job waits for processors

    name: ClassVar[str] = NAME
    paths: ClassVar[tuple[str, ...]] = ("trace",)

    def __post_init__(self) -> None:
        if not self.trace:
            raise UsageError(f"{self.name} needs a trace; give --trace FILE")
        super().__post_init__()

    @property
    def n_updates(self) -> int:
        return self.epochs

    def result(self, learner: "RlSchedulerLearner") -> Trained:
        return "kernel", learner.actor_parameters(), {"acknowledgement": acknowledgement(self.trace)}

    def _learner(self, seed: int, workers: Workers) -> "RlSchedulerLearner":
        from allocopt.learned.rlscheduler.learner import RlSchedulerLearner

        ((workload, machine),) = read_traces(self.trace, self.processors)
        task = BatchScheduling(
            workload,
            machine,
            n_jobs=EPISODE_JOBS,
            window=WINDOW,
            backfill=self.backfill,  # type: ignore[arg-type]
        )
        return RlSchedulerLearner(task, self.trajectories, seed)
