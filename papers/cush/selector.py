"""Figure 6: which policy is chosen for which type of job, and what the policy selector is worth.

Beside the figure stand trainings without a policy selector, and with the measured model, where the better policy
depends on the job and on the GPUs; and types that become known (section 3.1), job set after job set.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.envs.cush.applications import DynamicTypes, draw_application_sets
from allocopt.envs.cush.jobsets import HELD_OUT, JobSet
from allocopt.envs.cush.task import Episodes, Options
from allocopt.reproduction import Records
from allocopt.simulator.locality import SIERRA_TABLE, Policy, WorkloadType
from allocopt.simulator.locality_fit import TypeClassifier
from learned.cush.acting import right_share, run_dynamic
from learned.cush.training import CushTraining
from papers.artifact import Artifact, Asked, Number, Record
from papers.cush.configuration import (
    MACHINES,
    PUBLISHED,
    QUICK_EPOCHS,
    RATIO,
    RIGHT,
    SHORT_EPOCHS,
    agents_for,
    best_turnaround,
    held_out,
    of_agent,
    points_of,
    train_now,
    unseen,
)
from papers.cush.figures import curve_for

ALMOST = 0.99
MEASURED = Path("gpu_colocation") / "gavel_physical_cluster_throughputs.json.gz"
"""Where the measured throughputs are among the data."""
RATIOS, CURVE, DYNAMIC = "policies by type", "policies while it learns", "types not known at first"
WITHOUT, ORACLE_GAIN = "policies", "measured"
WAYS = ("learned", "depth-first", "breadth-first", "oracle")

APPLICATIONS = 12
UNKNOWN_SHARE = 0.3
"""Share of the jobs of the training whose type is hidden."""
CAMPAIGN_SETS, CAMPAIGNS, QUICK_CAMPAIGNS = 10, 20, 2
"""Job sets that follow each other, and how many times this is done with nothing known at first."""


def _keys(asked: Asked) -> list[str]:
    return [RATIOS, CURVE, DYNAMIC, *(f"{kind}: {way}" for kind in (WITHOUT, ORACLE_GAIN) for way in WAYS)]


def _record(asked: Asked, piece: str) -> Record:
    if piece == RATIOS:
        return _ratios(asked)
    if piece == CURVE:
        curve = curve_for(asked, asked.seeds[0])
        below = [epoch for epoch, point in enumerate(curve, 1) if point["right_drawn"] < ALMOST]
        return {**points_of(curve, ("right_drawn",)), "from": max(below, default=0) + 1}
    epochs = asked.size(SHORT_EPOCHS, QUICK_EPOCHS)
    if piece == DYNAMIC:
        return _right_by_set(asked, CushTraining(unknown_share=UNKNOWN_SHARE, epochs=epochs))
    kind, way = piece.split(": ")
    training = CushTraining(policies=way, epochs=epochs)
    if kind == ORACLE_GAIN:
        training = replace(training, measured=str(asked.data / MEASURED))
    return _compared(asked, training)


def _ratios(asked: Asked) -> Record:
    """Return how the agents allocate each type of job on the held-out job sets of Sierra."""
    machine = MACHINES["sierra"]()
    jobsets = held_out(machine, asked)
    kinds = np.concatenate([jobs.traits.argmax(axis=1) for jobs in jobsets])
    agents = agents_for(asked.trained, "sierra")
    chosen = [of_agent(one.agent(), jobsets, machine, one.queue).policy for one in agents]
    wanted = ((WorkloadType.COMPUTE, Policy.DEPTH_FIRST), (WorkloadType.NETWORK, Policy.BREADTH_FIRST))
    shares = {
        f"{kind.label} jobs that are allocated {policy.label}, %": float(
            np.mean([(policies[kinds == kind] == policy).mean() for policies in chosen])
        )
        for kind, policy in wanted
    }
    return {"shares": shares, "jobs": len(kinds) * len(agents)}


def _right_by_set(asked: Asked, training: CushTraining) -> Record:
    """Train with jobs of unknown types, and return the share of right policies in one job set after the other."""
    agent, _ = train_now(training, asked.seeds[0])
    machine, shares = training.cluster(), []
    for campaign in range(asked.size(CAMPAIGNS, QUICK_CAMPAIGNS)):
        first = HELD_OUT + campaign * CAMPAIGN_SETS
        sets = draw_application_sets(machine, SIERRA_TABLE, range(first, first + CAMPAIGN_SETS), APPLICATIONS)
        classifier, row = TypeClassifier(SIERRA_TABLE), []
        for one in sets:
            episodes = Episodes([one.jobs], machine, 1, Options(training.queue, skips_forced=True))
            run_dynamic(agent, DynamicTypes(classifier, episodes, [one]), episodes, 0)
            row.append(right_share(episodes))
        shares.append(row)
    return {"right": [float(share) for share in np.mean(shares, axis=0)], "campaigns": [float(len(shares))]}


def _compared(asked: Asked, training: CushTraining) -> Record:
    """Train, and return what the agent, and the baselines, make of held-out job sets."""
    agent, _ = train_now(training, asked.seeds[0])
    jobsets, machine = training.draw(unseen(asked)), training.cluster()
    found = of_agent(agent, jobsets, machine, training.queue)
    turnaround = found.mean("normalized_turnaround")
    return {
        "NTAT": turnaround,
        "wait": found.mean("wait"),
        "penalty": found.mean("penalty"),
        RIGHT: 100 * float(_is_right(jobsets, found.policy).mean()),
        RATIO: turnaround / best_turnaround(jobsets, machine),
        "sets": float(len(jobsets)),
    }


def _is_right(jobsets: Sequence[JobSet], policies: IntArray) -> BoolArray:
    """Whether no other policy has a smaller penalty, of every job."""
    penalty = np.concatenate([jobs.penalty for jobs in jobsets])
    right: BoolArray = penalty[np.arange(len(penalty)), policies] <= penalty.min(axis=1) + 1e-9
    return right


def _numbers(records: Records) -> Iterator[Number]:
    ratios, curve, dynamic = records[RATIOS], records[CURVE], records[DYNAMIC]
    for column, value in ratios["shares"].items():
        yield Number(RATIOS, column, 100 * value, PUBLISHED["types"][RATIOS][RIGHT], ratios["jobs"])
    for epoch, share in zip(curve["epoch"], curve["right_drawn"], strict=True):
        yield Number(CURVE, f"{RIGHT} drawn in epoch {epoch:.0f}", 100 * share)
    column = f"epoch from which over {100 * ALMOST:.0f} % are right"
    yield Number(CURVE, column, curve["from"], PUBLISHED["learning"][CURVE][column])
    for number, share in enumerate(dynamic["right"], 1):
        yield Number(DYNAMIC, f"{RIGHT} in job set {number}", 100 * share, None, int(dynamic["campaigns"][0]))
    for kind in (WITHOUT, ORACLE_GAIN):
        yield from _way_numbers(kind, {way: records[f"{kind}: {way}"] for way in WAYS})


def _way_numbers(kind: str, records: Mapping[str, Mapping[str, Any]]) -> Iterator[Number]:
    """Yield what each way to choose policies comes to, and how much of the oracle's gain the learned one has."""
    for way, record in records.items():
        for column in ("NTAT", "wait", "penalty", RIGHT, RATIO):
            yield Number(f"{kind}: {way}", column, record[column], None, int(record["sets"]))
    for column in ("penalty", "wait", "NTAT"):
        fixed = min(float(records[way][column]) for way in ("depth-first", "breadth-first"))
        gain, most = (fixed - float(records[way][column]) for way in ("learned", "oracle"))
        yield Number(f"{kind}: learned", f"% of the oracle's gain in {column}", 100 * gain / most if most else None)


SIX = Artifact(
    "cush-figure6",
    "Figure 6 of the CuSH paper: policies by type of job; without a policy selector; as measured",
    _keys,
    _record,
    _numbers,
    ("trained",),
)
