"""Figures 5 and 6: learning curves by the order of the phases, and of all agents beside the other methods' rewards.

The paper prints curves; of its text are the rewards at the end, by its own reward on a month of the full trace.
"""

import csv
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from allocopt.envs.dras.reward import CAPABILITY
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.training import TrainingRequest
from learned.dras.reproduction.methods import AGENTS, LEADER, PAPER_METHODS, PAPER_RULES, Trained
from learned.dras.reproduction.rewards import agent_rewards, rule_rewards
from learned.dras.reproduction.sites import THETA, trace_of
from learned.dras.training import DecimaPg, DrasA2c, DrasDql, DrasPg, DrasPpo, DrasTraining

ORDERS = ("sampled,real,synthetic", "real,sampled,synthetic", "synthetic,real,sampled", "real")
"""Phases in the orders of Figure 5; the last is the paper's training with real jobsets only."""

TRAININGS: dict[str, type[DrasTraining]] = {
    "Decima-PG": DecimaPg,
    "DRAS-DQL": DrasDql,
    "DRAS-PG": DrasPg,
    "DRAS-A2C": DrasA2c,
    "DRAS-PPO": DrasPpo,
}
ORDERED = "DRAS-PG"
"""The agent of Figure 5."""

UPDATES, QUICK_UPDATES = 1_000, 10
"""Updates of a training of Figure 5, and of any training where the run is quick."""

GOAL = ("goal", "paper", "mean_wait", "longest_wait", "tolerated")
"""Settings of a training that say what for."""

QUICK_JOBSETS = 2
POINTS = 10
"""Points of a curve that are rows."""

MEASURES = ("total_reward", "wait_ratio", "longest_ratio", "score")
REWARDS = ("reward as trained", "reward by Eq. 1")
CURVE = "curve"


def goal_of(trained: Trained) -> dict[str, Any]:
    """Return the settings that say what DRAS-PPO was trained for on Theta; none where there are no weights of it."""
    card = trained.card(AGENTS[LEADER], THETA)
    return {} if card is None else {name: card.settings[name] for name in GOAL}


def training_of(
    method: str, request: ReproductionRequest, trained: Trained, updates: int = 0, phases: str = ORDERS[0]
) -> DrasTraining:
    """Return a training of an agent on Theta, for what DRAS-PPO was trained for."""
    path = str(request.data / THETA.trace)
    return TRAININGS[method](path, THETA.processors, updates=updates, phases=phases, **goal_of(trained))


def curve_of(training: DrasTraining, seed: int, command: str) -> dict[str, Any]:
    """Train, and return what validation showed after every update."""
    with tempfile.TemporaryDirectory() as folder:
        progress = list(training.train(TrainingRequest(Path(folder), seed, None, False, command)))
    rows = [{**point.measures, "update": point.done} for point in progress]
    return _record(rows)


def read_curve(path: Path) -> dict[str, Any]:
    """Read the learning curve that a training wrote."""
    with path.open(encoding="utf-8") as file:
        return _record(list(csv.DictReader(file)))


def _record(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the columns of a curve that are shown."""
    return {name: [float(row[name]) for row in rows] for name in ("update", "samples", *MEASURES)}


def curve_rows(artifact: str, row: str, record: dict[str, Any]) -> list[ReproductionRow]:
    """Return points of a curve, evenly spread, and where it was best."""
    n = len(record["update"])
    places = np.unique(np.linspace(0, n - 1, min(POINTS, n)).round().astype(np.int64)).tolist()
    rows = [
        ReproductionRow(
            artifact, row, f"{measure} at update {record['update'][i]:.0f}", None, record[measure][i], None, 1
        )
        for measure in MEASURES
        for i in places
    ]
    best = int(np.argmin(record["score"]))
    found = {"best score": record["score"][best], "update of the best score": record["update"][best]}
    return [*rows, *(ReproductionRow(artifact, row, name, None, value, None, n) for name, value in found.items())]


@dataclass(frozen=True, slots=True)
class FigureFiveReproduction:
    """Figure 5 of the DRAS paper.

    Parameters
    ----------
    trained
        Folder with trainings; the reward is that of DRAS-PPO in it, or of the shipped DRAS-PPO.
    """

    trained: str = ""

    name: ClassVar[str] = "dras-figure5"
    title: ClassVar[str] = "Figure 5 of the DRAS paper: learning curves of DRAS-PG by the order of the phases"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the orders for all seeds."""
        return [f"seed {seed}: {order}" for seed in request.seeds for order in ORDERS]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Train with the phases in an order."""
        seed, order = piece.removeprefix("seed ").split(": ")
        updates = QUICK_UPDATES if request.is_quick else UPDATES
        trace_of(THETA, request)
        training = training_of(ORDERED, request, Trained(self.trained), updates, order)
        return curve_of(training, int(seed), f"allocopt reproduce {self.name}")

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return points of the curves."""
        return [row for piece, record in records.items() for row in curve_rows(self.name, piece, dict(record))]


@dataclass(frozen=True, slots=True)
class FigureSixReproduction:
    """Figure 6 of the DRAS paper.

    Parameters
    ----------
    trained
        Folder with trainings, whose weights and curves are taken where they are there; agents that are not are
        trained, and their rewards at the end are those of the shipped weights.
    """

    trained: str = ""

    name: ClassVar[str] = "dras-figure6"
    title: ClassVar[str] = "Figure 6 of the DRAS paper: total reward of all methods on the validation jobsets of Theta"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the methods' rewards, and the agents' curves."""
        trained = Trained(self.trained)
        methods = [name for name in PAPER_METHODS if name in PAPER_RULES or trained.weights(AGENTS[name], THETA)]
        curves = [f"seed {seed}, {CURVE}: {agent}" for seed in request.seeds for agent in AGENTS]
        return [*(f"at the end: {name}" for name in methods), *curves]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Play the validation jobsets through, or train."""
        where, method = piece.split(": ")
        if where.endswith(CURVE):
            return self._curve(request, method, int(where.split(",")[0].split()[-1]))
        trained = Trained(self.trained)
        training = training_of(LEADER, request, trained)
        rewards = (training.reward, CAPABILITY)
        jobsets = training.jobsets(trace_of(THETA, request), THETA.processors, 0)[1]
        jobsets = jobsets[:QUICK_JOBSETS] if request.is_quick else jobsets
        if method in PAPER_RULES:
            totals = [rule_rewards(method, jobsets, THETA.processors, THETA.objective, rewards)]
        else:
            known = trained.weights(AGENTS[method], THETA)
            totals = [agent_rewards(method, weights, jobsets, THETA.processors, rewards) for weights in known]
        return {"jobsets": len(jobsets), "totals": totals}

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return total rewards, and points of the curves."""
        rows = []
        for piece, record in records.items():
            if "totals" not in record:
                rows += curve_rows(self.name, piece, dict(record))
                continue
            for column, totals in zip(REWARDS, np.array(record["totals"]).T, strict=True):
                spread = float(totals.std(ddof=1)) if len(totals) > 1 else None
                n = int(record["jobsets"]) * len(totals)
                rows.append(ReproductionRow(self.name, piece, column, None, float(totals.mean()), spread, n))
        return rows

    def _curve(self, request: ReproductionRequest, method: str, seed: int) -> dict[str, Any]:
        """Return the curve of an agent's training with a seed: from the folder, or of a training made now."""
        trained = Trained(self.trained)
        for path in trained.trainings(AGENTS[method], THETA, seed):
            return read_curve(path.with_name("curve.csv"))
        trace_of(THETA, request)
        updates = QUICK_UPDATES if request.is_quick else 0
        training = training_of(method, request, trained, updates)
        return curve_of(training, seed, f"allocopt reproduce {self.name}")
