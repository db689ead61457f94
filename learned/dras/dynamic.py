"""An agent that goes on learning in operation (DRAS paper, sections 3.3 and 6.5: *dynamic*).

From time to time the jobs that have ended in the last weeks, as they were submitted and as long as they really ran,
and variants of them become jobsets, on which the agent is trained a little further by PPO at a low rate: by simulation,
so that it never has to try anything on the machine. Other variants judge: the new weights are taken where they are
better there beyond doubt, and the longest wait is no longer. Needs torch, at these times only.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import Float32Array, FloatArray, IntArray
from allocopt.envs.dras.task import Options
from allocopt.simulator.view import View, state_of
from allocopt.traces.workload import Workload
from learned.dras.environment import JobsetEnvironment, Phase
from learned.dras.jobsets import varied_jobset
from learned.dras.validation import Validator, Waits
from learned.rl.settings import PpoSettings
from learned.rl.slots import CompactNetwork

LEAST_JOBS = 100
"""Jobs that must have ended for the agent to learn from them."""
DOUBT = 2.0
"""Standard errors by which new weights must be better than the old ones."""


@dataclass(frozen=True, slots=True)
class Adaptation:
    """How an agent goes on learning."""

    updates: int = 10  # Updates of PPO at a time, at least 1
    learning_rate: float = 2e-4  # Of Adam; a tenth of the training's
    environments: int = 16  # Episodes side by side, shared out evenly among the variants that are trained on
    variants: int = 4  # Variants of what was seen that are trained on, at least 1
    judging: int = 16  # Variants that judge, at least 2
    seed: int = 0  # Fixes every random choice

    def adapted(
        self, weights: Mapping[str, Float32Array], jobs: Workload, machine: int, options: Options, number: int
    ) -> dict[str, Float32Array]:
        """Train an agent further on jobs that have ended; return the better weights, by `is_better`.

        The weights are the critic's, too, the options have the reward that the agent was trained for, and ``number`` is
        how many times it has been trained further before.
        """
        import torch

        from learned.dras.experience import JobsetCollector
        from learned.dras.networks import SlotActorCritic
        from learned.rl.actor_critic import PpoLearner
        from learned.rl.networks import set_weights, weights_of

        rng = np.random.default_rng((self.seed, number))
        seed = int(rng.integers(2**31))
        trained, judging = ([varied_jobset(jobs, rng) for _ in range(n)] for n in (self.variants, self.judging))
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = SlotActorCritic(CompactNetwork.of(weights))
        set_weights(model, weights)
        environment = JobsetEnvironment([Phase("real", tuple(trained), 1.0)], machine, self.environments, options, seed)
        settings = PpoSettings(n_epochs=2, batch_size=2048, learning_rate=self.learning_rate, ent_coef=0.001)
        learner = PpoLearner(model, environment, settings, seed, JobsetCollector(groups=self.variants))
        for update in range(self.updates):
            learner.update(update / self.updates)
        validator, new = Validator(judging, machine, options), weights_of(model)
        return new if is_better(validator.waits(new), validator.waits(weights)) else dict(weights)


def is_better(new: Waits, old: Waits) -> bool:
    """Whether mean waits in the same jobsets, at least 2, are shorter by more than `DOUBT` standard errors.

    The longest ones must be no longer on average, too.
    """
    gain = 1.0 - new.mean_h / old.mean_h
    beyond_doubt = gain.mean() > DOUBT * gain.std(ddof=1) / np.sqrt(len(gain))
    return bool(beyond_doubt and new.longest_h.mean() <= old.longest_h.mean())


def ended_jobs(view: View, since_s: float) -> Workload:
    """Return the jobs that have ended, submitted at some time or later, with the run times that they really had."""
    jobs = state_of(view).jobs
    start, end = np.asarray(jobs["start"]), np.asarray(jobs["end"])
    started = np.isfinite(start)
    ended: FloatArray = np.where(started, end, np.inf)
    release = np.asarray(jobs["release"])
    rows: IntArray = np.flatnonzero((ended <= view.now) & (release >= since_s))
    run = np.maximum(end[rows] - start[rows], 1.0)
    first = float(release[rows].min()) if len(rows) else 0.0
    submit = release[rows] - first
    return Workload("seen", np.arange(len(rows)), submit, run, view.processors[rows], view.estimate[rows])
