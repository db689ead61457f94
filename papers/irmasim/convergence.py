"""Figures 10 and 11: which policies an agent names as its training goes on, by the baseline model and by contention.

The paper prints pictures, and names neither the policies nor the numbers of episodes.
"""

from collections.abc import Iterator

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.reproduction import Records
from allocopt.simulator.multicore.state import ExecutionKind
from learned.irmasim.agents import Agent
from learned.irmasim.environment import policy_rewards
from learned.irmasim.scenario import jobsets_of, machine_of
from learned.irmasim.training import SHARE, IrmasimTraining
from papers.artifact import Artifact, Asked, Number, Record, evenly, mean_of, seed_and_name

QUICK_EPISODES = 320
WINDOW = 10
"""Updates over which shares are averaged."""
FAVOURED = 0.5
"""A policy is favoured once it is named in more than this share of all decisions, up to the end of the training."""
POINTS = 48
"""Points of a curve that are rows."""
OVER_BEST, UNTIL, SHARE_AT_END = "energy over the best policy", "episodes until favoured", "share at the end"
FIRST_ENERGY, LAST_ENERGY = "energy over the best policy, first episodes", "energy over the best policy, last episodes"


def _training(asked: Asked, model: ExecutionKind) -> IrmasimTraining:
    usual = IrmasimTraining()
    return IrmasimTraining(
        agent=asked.agent,
        model=model.value,
        episodes=asked.size(usual.episodes, QUICK_EPISODES),
        ent_coef=usual.ent_coef if asked.entropy < 0 else asked.entropy,
    )


def _record(training: IrmasimTraining, seed: int) -> Record:
    learner = training.learner(seed)
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


def _numbers(records: Records) -> Iterator[Number]:
    ends: dict[str, list[float]] = {}
    for piece, record in records.items():
        for column, value in _findings(dict(record)).items():
            yield Number(piece, column, value)
            if value is not None:
                ends.setdefault(column, []).append(value)
        shares = smoothed_shares(np.array(record["shares"]))
        for number, policy in enumerate(record["policies"]):
            for at in evenly(len(shares), POINTS):
                column = f"share at episode {record['episodes'][at]:.0f}"
                yield Number(f"{piece}, {policy}", column, float(shares[at, number]))
    for column, values in ends.items():
        yield mean_of("all seeds", column, values)


def smoothed_shares(shares: FloatArray) -> FloatArray:
    """Average shares over the last updates, shape ``(U, A)``."""
    sums = np.concatenate((np.zeros((1, shares.shape[1])), shares.cumsum(axis=0)))
    last = np.arange(1, len(shares) + 1)
    first = np.maximum(last - WINDOW, 0)
    return np.asarray((sums[last] - sums[first]) / (last - first)[:, np.newaxis])


def favoured_from(shares: FloatArray) -> int | None:
    """Return the first update from which on one policy is favoured up to the end; None where none is."""
    smoothed = smoothed_shares(shares)
    not_yet = np.flatnonzero(smoothed[:, int(smoothed[-1].argmax())] <= FAVOURED)
    first = int(not_yet[-1]) + 1 if not_yet.size else 0
    return first if first < len(shares) else None


def _findings(record: Record) -> dict[str, float | None]:
    shares, best = np.array(record["shares"]), min(record["alone"])
    first = favoured_from(shares)
    energy = np.array(record["energy"]) / best
    return {
        OVER_BEST: record["played"] / best,
        UNTIL: None if first is None else record["episodes"][first],
        SHARE_AT_END: float(smoothed_shares(shares)[-1].max()),
        FIRST_ENERGY: float(energy[:WINDOW].mean()),
        LAST_ENERGY: float(energy[-WINDOW:].mean()),
        **{f"named at the end: {name}": share for name, share in record["named"].items()},
    }


def _figure(number: int, model: ExecutionKind, by: str) -> Artifact:
    return Artifact(
        f"irmasim-figure{number}",
        f"Figure {number} of the IRMaSim paper: what the agent comes to choose, {by}",
        lambda asked: [f"seed {seed}" for seed in asked.seeds],
        lambda asked, piece: _record(_training(asked, model), seed_and_name(piece)[0]),
        _numbers,
        ("agent", "entropy"),
    )


TEN = _figure(10, ExecutionKind.BASELINE, "by the baseline model")
ELEVEN = _figure(11, ExecutionKind.CONTENTION, "with contention")
