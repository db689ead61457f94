"""Figure 6: which policy is chosen for which type of job, and what the policy selector is worth.

Beside the figure stand trainings without a policy selector, and with the measured model, where the better policy
depends on the job and on the GPUs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.envs.cush.jobsets import HELD_OUT, JobSet
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.simulator.locality import Policy, WorkloadType
from learned.cush.reproduction.dynamic import right_by_set
from learned.cush.reproduction.figure4 import curve_for
from learned.cush.reproduction.outcomes import (
    MACHINES,
    QUICK_SETS,
    SETS,
    best_turnaround,
    held_out,
    of_agent,
)
from learned.cush.reproduction.published import RIGHT_FROM_EPOCH
from learned.cush.reproduction.trained import agents_for, epochs_of, points_of, train_now
from learned.cush.selectors import Agent
from learned.cush.training import CushTraining

SIX = "cush-figure6"
ALMOST = 0.99
MEASURED = Path("gpu_colocation") / "gavel_physical_cluster_throughputs.json.gz"
"""Where the measured throughputs are among the data."""
RATIO = "NTAT over the best baseline"
RATIOS, CURVE, DYNAMIC = "policies by type", "policies while it learns", "types not known at first"
WITHOUT, ORACLE_GAIN = "policies", "measured"
WAYS = ("learned", "depth-first", "breadth-first", "oracle")


@dataclass(frozen=True, slots=True)
class FigureSixReproduction:
    """Figure 6 of the CuSH paper, and what the policy selector is worth.

    Parameters
    ----------
    trained
        Folder with trainings; the policies chosen are those of the ones for Sierra.
    """

    trained: str = ""

    name: ClassVar[str] = SIX
    title: ClassVar[str] = "Figure 6 of the CuSH paper: policies by type of job; without a policy selector; as measured"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the figure, the ablation, and the measured model."""
        return [
            RATIOS,
            CURVE,
            DYNAMIC,
            *(f"{WITHOUT}: {way}" for way in WAYS),
            *(f"{ORACLE_GAIN}: {way}" for way in WAYS),
        ]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Look at the policies that are chosen, or train in another way."""
        if piece == RATIOS:
            return _ratios(self.trained, request)
        if piece == CURVE:
            curve = curve_for(self.trained, request.seeds[0], request)
            right = [point["right_drawn"] for point in curve]
            below = [epoch for epoch, share in enumerate(right, 1) if share < ALMOST]
            return {**points_of(curve, ("right_drawn",)), "from": (max(below) if below else 0) + 1}
        if piece == DYNAMIC:
            return dict(right_by_set(request))
        kind, way = piece.split(": ")
        training = CushTraining(policies=way, epochs=epochs_of(request))
        if kind == ORACLE_GAIN:
            training = replace(training, measured=str(request.data / MEASURED))
        agent, _ = train_now(training, request.seeds[0])
        return _compared(agent, training, request)

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return shares in per cent, and turnarounds with the share of the oracle's gain."""
        ratios, curve = records[RATIOS], records[CURVE]
        rows = [
            ReproductionRow(SIX, RATIOS, column, 100.0, 100 * value, None, ratios["jobs"])
            for column, value in ratios["shares"].items()
        ]
        for epoch, share in zip(curve["epoch"], curve["right_drawn"], strict=True):
            column = f"right policies % drawn in epoch {epoch:.0f}"
            rows.append(ReproductionRow(SIX, CURVE, column, None, 100 * share, None, 1))
        column = f"epoch from which over {100 * ALMOST:.0f} % are right"
        rows.append(ReproductionRow(SIX, CURVE, column, RIGHT_FROM_EPOCH, curve["from"], None, 1))
        dynamic = records[DYNAMIC]
        for number, share in enumerate(dynamic["right"], 1):
            column = f"right policies % in job set {number}"
            rows.append(ReproductionRow(SIX, DYNAMIC, column, None, 100 * share, None, int(dynamic["campaigns"][0])))
        for kind in (WITHOUT, ORACLE_GAIN):
            rows += _way_rows(kind, {way: records[f"{kind}: {way}"] for way in WAYS})
        return rows


def _ratios(folder: str, request: ReproductionRequest) -> dict[str, Any]:
    """Return how the agents allocate each type of job on the held-out job sets of Sierra."""
    machine = MACHINES["sierra"]()
    jobsets = held_out(machine, request)
    kinds = np.concatenate([jobs.traits.argmax(axis=1) for jobs in jobsets])
    agents = agents_for(folder, "sierra")
    chosen = [of_agent(one.agent(), jobsets, machine, one.queue).policy for one in agents]
    wanted = ((WorkloadType.COMPUTE, Policy.DEPTH_FIRST), (WorkloadType.NETWORK, Policy.BREADTH_FIRST))
    shares = {
        f"{kind.label} jobs that are allocated {policy.label}, %": float(
            np.mean([(policies[kinds == kind] == policy).mean() for policies in chosen])
        )
        for kind, policy in wanted
    }
    return {"shares": shares, "jobs": len(kinds) * len(agents)}


def _compared(agent: Agent, training: CushTraining, request: ReproductionRequest) -> dict[str, float]:
    """Return what an agent, and the baselines, make of held-out job sets."""
    jobsets = training.draw(range(HELD_OUT, HELD_OUT + (QUICK_SETS if request.is_quick else SETS)))
    machine = training.cluster()
    found = of_agent(agent, jobsets, machine, training.queue)
    return {
        "NTAT": float(found.sets["normalized_turnaround"].mean()),
        "wait": float(found.sets["wait"].mean()),
        "penalty": float(found.sets["penalty"].mean()),
        "right policies %": 100 * float(_is_right(jobsets, found.policy).mean()),
        RATIO: float(found.sets["normalized_turnaround"].mean()) / best_turnaround(jobsets, machine),
        "sets": float(len(jobsets)),
    }


def _is_right(jobsets: Sequence[JobSet], policies: IntArray) -> BoolArray:
    """Whether no other policy has a smaller penalty, of every job."""
    penalty = np.concatenate([jobs.penalty for jobs in jobsets])
    right: BoolArray = penalty[np.arange(len(penalty)), policies] <= penalty.min(axis=1) + 1e-9
    return right


def _way_rows(kind: str, records: Mapping[str, Mapping[str, Any]]) -> list[ReproductionRow]:
    """Return what each way to choose policies comes to, and how much of the oracle's gain the learned one has."""
    rows = [
        ReproductionRow(SIX, f"{kind}: {way}", column, None, record[column], None, int(record["sets"]))
        for way, record in records.items()
        for column in ("NTAT", "wait", "penalty", "right policies %", RATIO)
    ]
    for column in ("penalty", "wait", "NTAT"):
        fixed = min(float(records[way][column]) for way in ("depth-first", "breadth-first"))
        gains = [fixed - float(records[way][column]) for way in ("learned", "oracle")]
        share = 100 * gains[0] / gains[1] if gains[1] else None
        rows.append(
            ReproductionRow(SIX, f"{kind}: learned", f"% of the oracle's gain in {column}", None, share, None, 1)
        )
    return rows
