"""Figures 10 and 11: which policies an agent names as its training goes on, by the baseline model and by contention.

The paper prints pictures, and names neither the policies nor the numbers of episodes.
"""

from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, ClassVar

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.simulator.multicore.setup import ExecutionKind
from learned.irmasim.agents import Agent
from learned.irmasim.environment import policy_rewards
from learned.irmasim.scenario import jobsets_of, machine_of
from learned.irmasim.training import PG, IrmasimTraining

QUICK_EPISODES = 320
WINDOW = 10
"""Updates over which shares are averaged."""
FAVOURED = 0.5
"""A policy is favoured once it is named in more than this share of all decisions, up to the end of the training."""
POINTS = 48
"""Points of a curve that are rows."""
OVER_BEST, UNTIL, SHARE_AT_END = "energy over the best policy", "episodes until favoured", "share at the end"
FIRST_ENERGY, LAST_ENERGY = "energy over the best policy, first episodes", "energy over the best policy, last episodes"


@dataclass(frozen=True, slots=True)
class _Convergence:
    """A training for every seed.

    Parameters
    ----------
    agent
        ``pg`` or ``a2c``.
    entropy
        Weight of the policy's entropy; negative for the usual one.
    """

    agent: str = PG
    entropy: float = -1.0

    model: ClassVar[ExecutionKind]
    name: ClassVar[str]

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the seeds."""
        return [f"seed {seed}" for seed in request.seeds]

    def training(self, request: ReproductionRequest) -> IrmasimTraining:
        """Return the training."""
        usual = IrmasimTraining()
        return IrmasimTraining(
            agent=self.agent,
            model=self.model.value,
            episodes=QUICK_EPISODES if request.is_quick else usual.episodes,
            ent_coef=usual.ent_coef if self.entropy < 0 else self.entropy,
        )

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Train, and let the agent act once."""
        from learned.irmasim.training import SHARE

        training = self.training(request)
        learner = training.learner(int(piece.removeprefix("seed ")))
        rows = [learner.update(update / training.updates) for update in range(training.updates)]
        machine, jobs = machine_of(training.platform), jobsets_of(training.trace, training.jobs, training.batch)[0]
        alone = -policy_rewards([jobs], machine, training.execution(), training.options())[0]
        played = Agent(learner.last(), training.options()).play(machine, jobs, training.execution())
        return {
            "episodes": [row["episodes"] for row in rows],
            "energy": [-row["mean_return"] for row in rows],
            "shares": [[row[SHARE + name] for name in training.options().actions] for row in rows],
            "policies": list(training.options().actions),
            "alone": alone.tolist(),
            "played": played.schedule.energy_j,
            "named": dict(played.shares),
        }

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return what the agents end on and when, and their curves."""
        rows = []
        ends: dict[str, list[float]] = {}
        for piece, record in records.items():
            found = _findings(dict(record))
            for column, value in found.items():
                rows.append(ReproductionRow(self.name, piece, column, None, value, None, 1))
                if value is not None:
                    ends.setdefault(column, []).append(value)
            rows += self._curve(piece, dict(record))
        for column, values in ends.items():
            spread = stdev(values) if len(values) > 1 else None
            rows.append(ReproductionRow(self.name, "all seeds", column, None, fmean(values), spread, len(values)))
        return rows

    def _curve(self, piece: str, record: dict[str, Any]) -> list[ReproductionRow]:
        """Return how often each policy was named as the training went on."""
        shares = smoothed_shares(np.array(record["shares"]))
        places = np.unique(np.linspace(0, len(shares) - 1, min(POINTS, len(shares))).round().astype(np.int64)).tolist()
        return [
            ReproductionRow(
                self.name,
                f"{piece}, {policy}",
                f"share at episode {record['episodes'][at]:.0f}",
                None,
                float(shares[at, number]),
                None,
                1,
            )
            for number, policy in enumerate(record["policies"])
            for at in places
        ]


def smoothed_shares(shares: FloatArray) -> FloatArray:
    """Average shares over the last updates, shape ``(U, A)``."""
    sums = np.concatenate((np.zeros((1, shares.shape[1])), shares.cumsum(axis=0)))
    last = np.arange(1, len(shares) + 1)
    first = np.maximum(last - WINDOW, 0)
    return np.asarray((sums[last] - sums[first]) / (last - first)[:, np.newaxis])


def favoured_from(shares: FloatArray) -> int | None:
    """First update from which on one policy is favoured up to the end; None where none is."""
    smoothed = smoothed_shares(shares)
    last = int(smoothed[-1].argmax())
    not_yet = np.flatnonzero(smoothed[:, last] <= FAVOURED)
    first = int(not_yet[-1]) + 1 if not_yet.size else 0
    return first if first < len(shares) else None


def _findings(record: dict[str, Any]) -> dict[str, float | None]:
    """Return what an agent ends on, and when it began to favour it."""
    shares, best = np.array(record["shares"]), min(record["alone"])
    first = favoured_from(shares)
    energy = np.array(record["energy"]) / best
    policies = {f"named at the end: {name}": share for name, share in record["named"].items()}
    return {
        OVER_BEST: record["played"] / best,
        UNTIL: None if first is None else record["episodes"][first],
        SHARE_AT_END: float(smoothed_shares(shares)[-1].max()),
        FIRST_ENERGY: float(energy[:WINDOW].mean()),
        LAST_ENERGY: float(energy[-WINDOW:].mean()),
        **policies,
    }


@dataclass(frozen=True, slots=True)
class FigureTenReproduction(_Convergence):
    """Figure 10 of the IRMaSim paper; see `_Convergence`."""

    model: ClassVar[ExecutionKind] = ExecutionKind.BASELINE
    name: ClassVar[str] = "irmasim-figure10"
    title: ClassVar[str] = "Figure 10 of the IRMaSim paper: what the agent comes to choose, by the baseline model"


@dataclass(frozen=True, slots=True)
class FigureElevenReproduction(_Convergence):
    """Figure 11 of the IRMaSim paper; see `_Convergence`."""

    model: ClassVar[ExecutionKind] = ExecutionKind.CONTENTION
    name: ClassVar[str] = "irmasim-figure11"
    title: ClassVar[str] = "Figure 11 of the IRMaSim paper: what the agent comes to choose, with contention"
