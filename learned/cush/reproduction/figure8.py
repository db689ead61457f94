"""Figure 8: CuSH beside the baselines by the size of the cluster; and the horizons of section 4.2.2.

The figure shows ratios of normalized turnaround times as bars, without numbers; in the text it says that on 16 nodes
shortest job first is better than CuSH, and CuSH than everything on more. Horizons matter to the paper's network only,
whose images have so many rows; it is trained on a small cluster here.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from heuristics.scheduling.job_selection import RULES
from learned.cush.reproduction.outcomes import FIXED, held_out, of_agent, of_baseline
from learned.cush.reproduction.published import HORIZON_TURNAROUND
from learned.cush.reproduction.trained import agents_for, epochs_of, train_now
from learned.cush.selectors import Agent
from learned.cush.training import CushTraining

NAME = "cush-figure8"
NODES = (16, 32, 64, 128)
HORIZONS = tuple(HORIZON_TURNAROUND)
HORIZON_NODES, HORIZON_EPOCHS = 16, 300
"""Nodes of the cluster on which horizons are compared, and epochs of these trainings."""
OWN, OTHER = "trained on it", "trained on 128 nodes"


@dataclass(frozen=True, slots=True)
class FigureEightReproduction:
    """Figure 8 of the CuSH paper, and the horizons.

    Parameters
    ----------
    trained
        Folder with trainings; the agent of 128 nodes is the first one for Sierra in it, else the shipped one.
    """

    trained: str = ""

    name: ClassVar[str] = NAME
    title: ClassVar[str] = "Figure 8 of the CuSH paper: CuSH and the baselines by size of the cluster; horizons"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return sizes of the cluster, for both agents, and horizons."""
        sizes = [f"{nodes} nodes: {whose}" for nodes in NODES for whose in (OWN, OTHER)]
        return [*sizes, *(f"horizon {horizon}" for horizon in HORIZONS)]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Train, and schedule the held-out job sets."""
        seed = request.seeds[0]
        if piece.startswith("horizon "):
            return horizon_record(int(piece.split()[1]), seed, request)
        size, whose = piece.split(": ")
        training = CushTraining(nodes=int(size.split()[0]), epochs=epochs_of(request))
        if whose == OWN:
            return compared(train_now(training, seed)[0], training, request)
        return compared(agents_for(self.trained, "sierra")[0].agent(), training, request)

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the turnarounds of CuSH, and those of the baselines over it."""
        rows = []
        for piece, record in records.items():
            sets = int(record["sets"])
            if piece.startswith("horizon "):
                published = HORIZON_TURNAROUND[int(piece.split()[1])]
                rows.append(ReproductionRow(NAME, piece, "NTAT", published, record["NTAT"], None, sets))
                continue
            rows.append(ReproductionRow(NAME, piece, "NTAT of CuSH", None, record["NTAT"], None, sets))
            for rule in RULES:
                ratio = record[rule] / record["NTAT"]
                rows.append(ReproductionRow(NAME, piece, f"NTAT of {rule} over CuSH's", None, ratio, None, sets))
        return rows


def compared(agent: Agent, training: CushTraining, request: ReproductionRequest) -> dict[str, float]:
    """Return CuSH's turnaround, and that of every rule with the better of the two policies."""
    machine = training.cluster()
    jobsets = held_out(machine, request)
    found = of_agent(agent, jobsets, machine, training.queue)
    record = {"NTAT": float(found.sets["normalized_turnaround"].mean()), "sets": float(len(jobsets))}
    for rule in RULES:
        runs = [of_baseline(jobsets, machine, f"{rule}, {policy}") for policy in FIXED]
        record[rule] = min(float(run.sets["normalized_turnaround"].mean()) for run in runs)
    return record


def horizon_record(horizon: int, seed: int, request: ReproductionRequest) -> dict[str, float]:
    """Train the paper's network with a horizon, and return its turnaround on the held-out job sets."""
    from learned.cush.acting import Validator
    from learned.rl.workers import ALONE

    epochs = epochs_of(request, HORIZON_EPOCHS)
    usual = CushTraining(nodes=HORIZON_NODES, network="published", horizon=horizon, epochs=epochs)
    training = replace(usual, jobsets=5, simulations=8)
    agent, _ = train_now(training, seed)
    jobsets = held_out(training.cluster(), request)
    validator = Validator(jobsets, training.cluster(), training.options(), ALONE)
    return {"NTAT": validator.measures(agent, ALONE)["score"], "sets": float(len(jobsets))}
