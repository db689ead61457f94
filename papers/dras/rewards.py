"""The effect of the reward on an agent of DRAS: agents trained on Theta with several rewards.

The paper's agents are rewarded by Eq. 1, the shipped ones mostly for short waits. Trainings here are shorter than those
of the shipped agents; as always, the best weights by validation are kept.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from allocopt.learned.dras.policies import AgentScheduler, DrasDql, DrasPg, DrasPpo
from allocopt.reproduction import Records
from allocopt.simulator.rules import Mode
from allocopt.traces.weekly_cycle import HOUR_S
from allocopt.training import TrainingRequest, get_training
from papers.artifact import Artifact, Asked, Number, Record
from papers.dras.configuration import HELD_OUT, THETA, jobsets_of, trace_of
from papers.dras.figures import LARGE_SHARE, placed_by, shares_of

AGENT_TYPES: dict[str, type[AgentScheduler]] = {"DRAS-DQL": DrasDql, "DRAS-PG": DrasPg, "DRAS-PPO": DrasPpo}
UPDATES = {"DRAS-DQL": 600, "DRAS-PG": 600, "DRAS-PPO": 80}
QUICK_UPDATES = 2
REWARDS: dict[str, Mapping[str, Any]] = {
    "Eq. 1 alone": {"paper": 1.0, "mean_wait": 0.0, "longest_wait": 0.0},
    "as shipped": {},
    "longest wait x 10": {"longest_wait": 300.0},
}
"""Options of a training by its reward."""


def _record(asked: Asked, piece: str) -> Record:
    """Train an agent with a reward, and simulate the held-out days with it."""
    reward, method = piece.split(": ")
    kind = AGENT_TYPES[method]
    trace_of(THETA, asked)
    options = {
        "trace": str(asked.data / THETA.trace),
        "processors": THETA.processors,
        "updates": asked.size(UPDATES[method], QUICK_UPDATES),
        **REWARDS[reward],
    }
    with tempfile.TemporaryDirectory() as folder:
        training = get_training(kind.name, options)
        *_, last = training.train(TrainingRequest(Path(folder), asked.seeds[0], None, False, "allocopt reproduce"))
        jobs = placed_by(kind(str(Path(folder) / "weights.safetensors")), jobsets_of(THETA, HELD_OUT, asked))
    large = jobs.size >= LARGE_SHARE * THETA.processors
    hours = jobs.wait_s / HOUR_S
    return {
        "n": len(hours),
        "columns": {
            "mean wait h": float(hours.mean()),
            "backfilled, jobs %": 100 * float((jobs.mode == Mode.BACKFILLED).mean()),
            "reserved, core hours %": 100 * shares_of(jobs)["shares"]["reserved"]["core hours"],
            "large jobs, max wait h": float(hours[large].max(initial=0.0)),
            "other jobs, max wait h": float(hours[~large].max(initial=0.0)),
            "reserved, mean wait h": float(hours[jobs.mode == Mode.RESERVED].mean()),
            "validation, best score": float(last.measures["best_score"]),
        },
    }


def _numbers(records: Records) -> Iterator[Number]:
    for piece, record in records.items():
        for column, value in record["columns"].items():
            yield Number(piece, column, value, None, record["n"])


BY_REWARD = Artifact(
    "dras-rewards",
    "Agents of DRAS on Theta's held-out days, by the reward of their training",
    lambda asked: [f"{reward}: {method}" for method in AGENT_TYPES for reward in REWARDS],
    _record,
    _numbers,
)
