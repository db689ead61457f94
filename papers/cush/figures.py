"""Table 1 and Figures 4 to 8 of the CuSH paper, and its section 4.2.2.

Table 1: CuSH and the baselines on both machines. Figure 4: learning curves. Figures 5 and 7: results by class of job.
Figure 8: results by size of the cluster. The paper shows bars without numbers; its text states that on 16 nodes
shortest job first is better than CuSH, and that CuSH is best on more nodes. Horizons (section 4.2.2) affect only the
paper's network, whose images have one row per timestep; here it is trained on a small cluster.

Figure 6: the policy chosen for each type of job, and the gain by the policy selector. Further rows show trainings
without a policy selector; trainings with the measured model, in which the better policy depends on the job and on the
GPUs; and jobs whose types become known (section 3.1) over several jobsets.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray, FloatArray
from allocopt.envs.cush.jobsets import HELD_OUT, MACHINES, Machine, Recipe
from allocopt.envs.cush.task import CushEpisodes, CushOptions, DynamicTypes
from allocopt.heuristics.scheduling.job_selection import RULES
from allocopt.learned.cush.policies import Agent, Validator
from allocopt.learned.cush.training import USUAL_EPOCHS, CushTraining
from allocopt.learned.rl.workers import ALONE
from allocopt.reproduction import Records
from allocopt.simulator.locality import SIERRA_TABLE, Policy, TypeClassifier, WorkloadType
from papers.artifact import Artifact, Asked, Number, Record, evenly, mean_of, read_curve, seed_and_name
from papers.cush.configuration import (
    BASELINES,
    CUSH,
    FIXED,
    METHODS,
    PUBLISHED,
    TABLE_ONE,
    Outcomes,
    acting_options,
    agents_for,
    best_turnaround,
    held_out,
    of_agent,
    of_baseline,
    runs_of,
    unseen,
    usual_trainings,
)

SHORT_EPOCHS, QUICK_EPOCHS = 200, 20
"""Epochs of a training for a single number of a figure, and in a quick run."""
RATIO, RIGHT = "NTAT over the best baseline", "right policies %"
RATIO_OVER_SERVICE = "the same, NTAT over service"
Curve = list[dict[str, float]]
"""The measures after every epoch."""

COLUMNS = {"NTAT": "normalized_turnaround", "wait": "wait", "rewards": "rewards", "penalty": "penalty"}
"""Metrics by the heading of their column; the paper prints the first three. NTAT is over the requested time."""
OVER_SERVICE = "NTAT, service"
"""NTAT over the service time, as in the paper's text."""


PRINTED = ("NTAT", "wait", "rewards")
LARGEST_ERROR, MEAN_ERROR = "largest |ln(ours / paper)|", "mean |ln(ours / paper)|"
ORDERED = "rules with the paper's better policy"


def _record_of_one(asked: Asked, piece: str) -> Record:
    runs = runs_of(asked, *piece.split(": "))
    means = [
        {column: run.mean(metric) for column, metric in COLUMNS.items()}
        | {OVER_SERVICE: float(run.over_service.mean())}
        | {RIGHT: 100 * float(np.mean(run.policy == run.better))}
        for run in runs
    ]
    return {"runs": means, "sets": len(next(iter(runs[0].sets.values())))}


def _numbers_of_one(records: Records) -> Iterator[Number]:
    """Yield means over the jobsets, and those of CuSH over those of the best baseline."""
    for name in MACHINES:
        for method in METHODS:
            row = f"{name}: {method}"
            runs, printed = records[row]["runs"], TABLE_ONE.get(row, {})
            n = records[row]["sets"] * len(runs)
            for column in (*COLUMNS, RIGHT):
                yield mean_of(row, column, [run[column] for run in runs], printed.get(column), n)
            yield mean_of(row, OVER_SERVICE, [run[OVER_SERVICE] for run in runs], printed.get("NTAT"), n)
        row, baselines = f"{name}: {CUSH}", [f"{name}: {method}" for method in BASELINES]
        expected = TABLE_ONE[row]["NTAT"] / min(TABLE_ONE[baseline]["NTAT"] for baseline in baselines)
        for column, shown in (("NTAT", RATIO), (OVER_SERVICE, RATIO_OVER_SERVICE)):
            best = min(fmean(run[column] for run in records[baseline]["runs"]) for baseline in baselines)
            ratios = [run[column] / best for run in records[row]["runs"]]
            yield mean_of(row, shown, ratios, expected, records[row]["sets"] * len(ratios))
        yield from _errors_of_one(records, baselines)


def _errors_of_one(records: Records, baselines: Sequence[str]) -> Iterator[Number]:
    """Yield errors of a machine's baselines, as logarithms, and the number of pairs that are ordered as printed.

    A pair compares depth-first with breadth-first under one rule.
    """
    name = baselines[0].partition(": ")[0]
    for column in PRINTED:
        ours = {row: abs(fmean(run[column] for run in records[row]["runs"])) for row in baselines}
        printed = {row: abs(TABLE_ONE[row][column]) for row in baselines}
        errors = [log(ours[row] / printed[row]) for row in baselines]
        pairs = [[f"{name}: {rule}, {policy}" for policy in FIXED] for rule in RULES]
        alike = sum((ours[deep] < ours[broad]) == (printed[deep] < printed[broad]) for deep, broad in pairs)
        row = f"{name}: {column} of the baselines"
        yield Number(row, LARGEST_ERROR, max(map(abs, errors)), None, len(errors))
        yield Number(row, MEAN_ERROR, fmean(map(abs, errors)), None, len(errors))
        yield Number(row, ORDERED, float(alike), float(len(pairs)), len(pairs))


ONE = Artifact(
    "cush-table1",
    "Table 1 of the CuSH paper: CuSH and the baselines on Sierra and Summit",
    lambda asked: [f"{machine}: {method}" for machine in MACHINES for method in METHODS],
    _record_of_one,
    _numbers_of_one,
    ("trained",),
)

SHOWN = {
    "score": ("NTAT", "normalized_turnaround"),
    "validated_turnaround": ("TAT", "turnaround"),
    "validated_wait": ("wait", "wait"),
    "validated_rewards": ("rewards", "rewards"),
}
"""Columns of Figure 4 and metrics of jobsets, by the measure of a training."""


def _train_now(training: CushTraining, seed: int) -> tuple[Agent, Curve]:
    """Train, and return the best agent and the measures after every epoch."""
    learner, curve = training.trained(seed)
    return learner.best_agent(), curve


def _points_of(curve: Curve, names: Iterable[str]) -> dict[str, list[float]]:
    """Return ten epochs of a curve, evenly spread, and the measures after them."""
    places = evenly(len(curve), 10)
    found = {"epoch": [float(place + 1) for place in places]}
    return found | {name: [float(curve[place][name]) for place in places] for name in names}


def _curve_for(asked: Asked, seed: int) -> Curve:
    # Return the curve of the first usual training for Sierra in the folder, or of a training made now.
    for path in usual_trainings(asked.trained, "sierra"):
        return read_curve(path / "curve.csv")
    return _train_now(CushTraining(epochs=asked.size(USUAL_EPOCHS, QUICK_EPOCHS)), seed)[1]


def _record_of_four(asked: Asked, piece: str) -> Record:
    if piece.startswith("seed "):
        return _points_of(_curve_for(asked, seed_and_name(piece)[0]), SHOWN)
    training = CushTraining()
    found = of_baseline(training.validation_sets(), training.cluster(), piece)
    return {name: [found.mean(metric)] for name, (_, metric) in SHOWN.items()}


def _numbers_of_four(records: Records) -> Iterator[Number]:
    """Yield the baselines and points of the curves; baselines and last points with Table 1's values, if printed."""
    n = CushTraining().validation
    for piece, record in records.items():
        epochs = record.get("epoch", [None])
        table = TABLE_ONE[f"sierra: {CUSH if 'epoch' in record else piece}"]
        for name, (column, _) in SHOWN.items():
            for epoch, value in zip(epochs, record[name], strict=True):
                at = column if epoch is None else f"{column} after epoch {epoch:.0f}"
                yield Number(piece, at, value, table.get(column) if epoch == epochs[-1] else None, n)


FOUR = Artifact(
    "cush-figure4",
    "Figure 4 of the CuSH paper: turnaround, wait and rewards while CuSH learns, on Sierra",
    lambda asked: [*BASELINES, *(f"seed {seed}" for seed in asked.seeds)],
    _record_of_four,
    _numbers_of_four,
    ("trained",),
)

Classes = Mapping[str, tuple[float, float]]
LENGTHS: Classes = {
    "short, 1-5": (0, 5),
    "medium short, 6-10": (5, 10),
    "medium long, 11-15": (10, 15),
    "long, 16-20": (15, 20),
}
"""Classes of Figure 5: longer than the first, and up to the second number of timesteps."""
SIZES: Classes = {
    "small, up to 25 %": (0.0, 0.25),
    "medium small, up to 50 %": (0.25, 0.5),
    "medium large, up to 75 %": (0.5, 0.75),
    "large": (0.75, 1.0),
}
"""Classes of Figure 7: more than the first, and up to the second share of the cluster."""


def class_means(classes: Classes, by: FloatArray, values: Mapping[str, FloatArray]) -> dict[str, dict[str, float]]:
    """Return means of values over the jobs of each class that is not empty, and the number of its jobs."""
    found = {}
    for name, (above, most) in classes.items():
        members: BoolArray = (by > above) & (by <= most)
        if members.any():
            means = {column: float(value[members].mean()) for column, value in values.items()}
            found[name] = {**means, "jobs": float(members.sum())}
    return found


def _by_class(name: str, title: str, means: Callable[[Outcomes], dict[str, dict[str, float]]]) -> Artifact:
    def numbers(records: Records) -> Iterator[Number]:
        for method, record in records.items():
            runs = record["runs"]
            for kind, first in runs[0].items():
                for column in (column for column in first if column != "jobs"):
                    values = [run[kind][column] for run in runs]
                    yield mean_of(f"{method}: {kind}", column, values, None, int(first["jobs"]) * len(values))

    return Artifact(
        name,
        title,
        lambda asked: METHODS,
        lambda asked, method: {"runs": [means(run) for run in runs_of(asked, "sierra", method)]},
        numbers,
        ("trained",),
    )


FIVE = _by_class(
    "cush-figure5",
    "Figure 5 of the CuSH paper: turnaround and wait by the length of jobs, on Sierra",
    lambda run: class_means(LENGTHS, run.length, {"NTAT": run.turnaround, "wait": run.wait}),
)
SEVEN = _by_class(
    "cush-figure7",
    "Figure 7 of the CuSH paper: locality penalty by the size of jobs, on Sierra",
    lambda run: class_means(SIZES, run.share, {"penalty": run.service - run.length}),
)

HORIZONS = PUBLISHED["horizons"]
NODES = (16, 32, 64, 128)
HORIZON_NODES, HORIZON_EPOCHS = 16, 300
"""Number of nodes of the cluster on which horizons are compared, and of epochs of these trainings."""
OWN, OTHER = "trained on it", "trained on 128 nodes"


def _record_of_eight(asked: Asked, piece: str) -> Record:
    seed = asked.seeds[0]
    size, whose = piece.split(": ")
    training = CushTraining(nodes=int(size.split()[0]), epochs=asked.size(SHORT_EPOCHS, QUICK_EPOCHS))
    agent: Agent = _train_now(training, seed)[0] if whose == OWN else agents_for(asked.trained, "sierra")[0].agent()
    machine = training.cluster()
    jobsets = held_out(machine, asked)
    found = of_agent(agent, jobsets, machine, training.options())
    rules = {rule: best_turnaround(jobsets, machine, [f"{rule}, {policy}" for policy in FIXED]) for rule in RULES}
    return {"NTAT": found.mean("normalized_turnaround"), "sets": float(len(jobsets)), **rules}


def _record_of_horizon(asked: Asked, piece: str) -> Record:
    """Train the paper's network with a horizon, and return its turnaround on the held-out jobsets."""
    epochs = asked.size(HORIZON_EPOCHS, QUICK_EPOCHS)
    training = CushTraining(
        nodes=HORIZON_NODES,
        network="published",
        horizon=int(piece.split()[1]),
        epochs=epochs,
        jobsets=5,
        simulations=8,
    )
    agent, _ = _train_now(training, asked.seeds[0])
    jobsets = held_out(training.cluster(), asked)
    validator = Validator(jobsets, training.cluster(), training.options(), ALONE)
    return {"NTAT": validator.measures(agent, ALONE)["score"], "sets": float(len(jobsets))}


def _numbers_of_eight(records: Records) -> Iterator[Number]:
    """Yield the turnaround of CuSH and, for every rule with its better policy, its turnaround over CuSH's."""
    for piece, record in records.items():
        sets, ours = int(record["sets"]), record["NTAT"]
        yield Number(piece, "NTAT of CuSH", ours, None, sets)
        for rule in RULES:
            yield Number(piece, f"NTAT of {rule} over CuSH's", record[rule] / ours, None, sets)


EIGHT = Artifact(
    "cush-figure8",
    "Figure 8 of the CuSH paper: CuSH and the baselines by size of the cluster",
    lambda asked: [f"{nodes} nodes: {whose}" for nodes in NODES for whose in (OWN, OTHER)],
    _record_of_eight,
    _numbers_of_eight,
    ("trained",),
)


def _numbers_of_horizons(records: Records) -> Iterator[Number]:
    """Yield the turnarounds, with those of section 4.2.2."""
    for piece, record in records.items():
        yield Number(piece, "NTAT", record["NTAT"], HORIZONS[piece]["NTAT"], int(record["sets"]))


HORIZON = Artifact(
    "cush-horizons",
    "Section 4.2.2 of the CuSH paper: horizons of the paper's network, on a small cluster",
    lambda asked: list(HORIZONS),
    _record_of_horizon,
    _numbers_of_horizons,
    (),
)

ALMOST = 0.99
MEASURED = Path("gpu_colocation") / "gavel_physical_cluster_throughputs.json.gz"
"""File of the measured throughputs in the data folder."""
RATIOS, CURVE, DYNAMIC = "policies by type", "policies while it learns", "types not known at first"
WITHOUT, ORACLE_GAIN = "policies", "measured"
WAYS = ("learned", "depth-first", "breadth-first", "oracle")

APPLICATIONS = 12
UNKNOWN_SHARE = 0.3
"""Share of the jobs of the training whose type is hidden."""
CAMPAIGN_SETS, CAMPAIGNS, QUICK_CAMPAIGNS = 10, 20, 2
"""Number of successive jobsets of a campaign, and number of campaigns, each of which begins without knowledge."""


def _keys_of_six(asked: Asked) -> list[str]:
    return [RATIOS, CURVE, DYNAMIC, *(f"{kind}: {way}" for kind in (WITHOUT, ORACLE_GAIN) for way in WAYS)]


def _record_of_six(asked: Asked, piece: str) -> Record:
    if piece == RATIOS:
        return _ratios(asked)
    if piece == CURVE:
        curve = _curve_for(asked, asked.seeds[0])
        below = [epoch for epoch, point in enumerate(curve, 1) if point["right_drawn"] < ALMOST]
        return {**_points_of(curve, ("right_drawn",)), "from": max(below, default=0) + 1}
    epochs = asked.size(SHORT_EPOCHS, QUICK_EPOCHS)
    if piece == DYNAMIC:
        return _right_by_set(asked, CushTraining(unknown_share=UNKNOWN_SHARE, epochs=epochs))
    kind, way = piece.split(": ")
    training = CushTraining(policies=way, epochs=epochs)
    if kind == ORACLE_GAIN:
        training = replace(training, measured=str(asked.data / MEASURED))
    return _compared(asked, training)


def _ratios(asked: Asked) -> Record:
    """Return the share of each type of job that agents allocate by its better policy, on Sierra's held-out jobsets."""
    machine = Machine.of("sierra")
    jobsets = held_out(machine, asked)
    kinds = np.concatenate([jobs.traits.argmax(axis=1) for jobs in jobsets])
    agents = agents_for(asked.trained, "sierra")
    chosen = [of_agent(one.agent(), jobsets, machine, acting_options(one.queue)).policy for one in agents]
    wanted = ((WorkloadType.COMPUTE, Policy.DEPTH_FIRST), (WorkloadType.NETWORK, Policy.BREADTH_FIRST))
    shares = {
        f"{kind.label} jobs that are allocated {policy.label}, %": float(
            np.mean([(policies[kinds == kind] == policy).mean() for policies in chosen])
        )
        for kind, policy in wanted
    }
    return {"shares": shares, "jobs": len(kinds) * len(agents)}


def _right_by_set(asked: Asked, training: CushTraining) -> Record:
    """Train with jobs of unknown types, and return the share of right policies in each of successive jobsets."""
    agent, _ = _train_now(training, asked.seeds[0])
    machine, shares = training.cluster(), []
    for campaign in range(asked.size(CAMPAIGNS, QUICK_CAMPAIGNS)):
        first = HELD_OUT + campaign * CAMPAIGN_SETS
        sets = Recipe().draw_runs(machine, SIERRA_TABLE, range(first, first + CAMPAIGN_SETS), APPLICATIONS)
        classifier, row = TypeClassifier(SIERRA_TABLE), []
        for one in sets:
            episodes = CushEpisodes([one], machine, 1, CushOptions(training.queue, skips_forced=True))
            types = DynamicTypes(classifier, episodes)
            types.begin(0)
            agent.run(episodes, types)
            row.append(episodes.right_share())
        shares.append(row)
    return {"right": [float(share) for share in np.mean(shares, axis=0)], "campaigns": [float(len(shares))]}


def _compared(asked: Asked, training: CushTraining) -> Record:
    """Train, and return the results of the agent and of the baselines on held-out jobsets."""
    agent, _ = _train_now(training, asked.seeds[0])
    jobsets, machine = training.draw(unseen(asked)), training.cluster()
    found = of_agent(agent, jobsets, machine, training.options())
    turnaround = found.mean("normalized_turnaround")
    penalty = np.concatenate([jobs.penalty for jobs in jobsets])
    # A policy is right if no other one has a smaller penalty.
    is_right = penalty[np.arange(len(penalty)), found.policy] <= penalty.min(axis=1) + 1e-9
    return {
        "NTAT": turnaround,
        "wait": found.mean("wait"),
        "penalty": found.mean("penalty"),
        RIGHT: 100 * float(is_right.mean()),
        RATIO: turnaround / best_turnaround(jobsets, machine),
        "sets": float(len(jobsets)),
    }


def _numbers_of_six(records: Records) -> Iterator[Number]:
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
    """Yield the results of each way to choose policies, and which share of the oracle's gain the learned one has."""
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
    _keys_of_six,
    _record_of_six,
    _numbers_of_six,
    ("trained",),
)
