"""Experiments that explain claims that do not hold: the mask, the settings of Algorithm 1, and the paper's network.

All trainings are on Sierra's nodes, with the shipped penalties; all numbers are of held-out jobsets.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from allocopt.envs.cush.task import CushOptions
from allocopt.learned.cush.training import CushTraining
from allocopt.reproduction import Records
from papers.artifact import Artifact, Asked, Number, Record
from papers.cush.configuration import BASELINES, CUSH, FIXED, best_turnaround, held_out, of_agent, of_baseline
from papers.cush.figures import LENGTHS, QUICK_EPOCHS, SHORT_EPOCHS, class_means

MASK_METHODS = (CUSH, *(method for method in BASELINES if method.startswith(("fcfs", "sjf"))))
DIFFERENCE, ERROR = "difference %", "standard error %"


def _record_of_mask(asked: Asked, method: str) -> Record:
    """Schedule the same jobsets twice: once jobs may only start now, once they may be planned ahead."""
    found = {}
    for mask in ("now", "horizon"):
        training = CushTraining(mask=mask, epochs=asked.size(SHORT_EPOCHS, QUICK_EPOCHS))
        machine = training.cluster()
        jobsets = held_out(machine, asked)
        if method == CUSH:
            agent = training.trained(asked.seeds[0])[0].best_agent()
            found[mask] = of_agent(agent, jobsets, machine, training.options())
        else:
            options = CushOptions(plans_ahead=mask == "horizon", over_requested=True)
            found[mask] = of_baseline(jobsets, machine, method, options=options)
    now, ahead = (found[mask].sets["normalized_turnaround"] for mask in ("now", "horizon"))
    base = float(now.mean())
    return {
        "NTAT, now": base,
        "NTAT, horizon": float(ahead.mean()),
        DIFFERENCE: 100 * float((ahead - now).mean()) / base,
        ERROR: 100 * float((ahead - now).std(ddof=1)) / len(now) ** 0.5 / base,
        "wait, now": found["now"].mean("wait"),
        "wait, horizon": found["horizon"].mean("wait"),
        "sets": float(len(now)),
    }


def _plain_numbers(records: Records) -> Iterator[Number]:
    """Yield all measured values except the number of jobsets."""
    for row, record in records.items():
        for column, value in record.items():
            if column != "sets":
                yield Number(row, column, value, None, int(record["sets"]))


MASK = Artifact(
    "cush-mask",
    "The mask of the CuSH paper: jobs that may be planned within the horizon, on Sierra",
    lambda asked: MASK_METHODS,
    _record_of_mask,
    _plain_numbers,
    (),
)

REMEDIES = {
    "published": "as printed",
    "normalized": "advantages over their standard deviation",
    "entropy": "entropy bonus 0.01",
    "stable": "both",
    "usual": "the settings of the shipped agents",
}
SHORTEST, *_, LONGEST = LENGTHS
SHORT_WAIT, LONG_OVER_SHORT = "wait of jobs up to 5", "wait of jobs from 16 over that"
ALGORITHM_EPOCHS = 200
"""Epochs of each training by Algorithm 1."""


def _compared(asked: Asked, training: CushTraining) -> Record:
    """Train; return the effort, the results on held-out jobsets, and the validations at the start and at the end."""
    training = replace(training, epochs=asked.size(training.epochs, QUICK_EPOCHS))
    before = time.process_time()
    learner, curve = training.trained(asked.seeds[0])
    used = time.process_time() - before
    machine = training.cluster()
    jobsets = held_out(machine, asked)
    found = of_agent(learner.best_agent(), jobsets, machine, training.options())
    turnaround = found.mean("normalized_turnaround")
    best = best_turnaround(jobsets, machine, [f"sjf, {policy}" for policy in FIXED])
    scores = np.array([point["score"] for point in curve])
    waits = class_means(LENGTHS, found.length, {"wait": found.wait})
    short, long = (waits[name]["wait"] for name in (SHORTEST, LONGEST))
    return {
        "epochs": float(training.epochs),
        "episodes": float(training.epochs * training.jobsets * training.simulations),
        "processor s": used,
        "NTAT": turnaround,
        "NTAT of sjf over CuSH's": best / turnaround,
        "validation at first": float(scores[0]),
        "validation at the end": float(scores[-1]),
        "wait": found.mean("wait"),
        SHORT_WAIT: short,
        LONG_OVER_SHORT: long / short,
        "right policies %": 100 * float(np.mean(found.policy == found.better)),
        "sets": float(len(jobsets)),
    }


ALGORITHM = Artifact(
    "cush-algorithm1",
    "Algorithm 1 of the CuSH paper: as printed, and what makes it stable, on Sierra",
    lambda asked: list(REMEDIES.values()),
    lambda asked, piece: _compared(
        asked,
        CushTraining(
            settings=next(name for name, shown in REMEDIES.items() if shown == piece), epochs=ALGORITHM_EPOCHS
        ),
    ),
    _plain_numbers,
    (),
)

NETWORK_EPOCHS = {16: 600, 32: 300, 128: 150}
"""Epochs of the trainings by nodes of the cluster; the time of an image network's epoch grows with the image width."""
NETWORK_JOBSETS, NETWORK_SIMULATIONS = 5, 8
NETWORKS_BY_NAME = {"image": "published", "slots": "compact"}


def _network_training(piece: str) -> CushTraining:
    size, kind = piece.split(": ")
    nodes = int(size.split()[0])
    return CushTraining(
        nodes=nodes,
        network=NETWORKS_BY_NAME[kind],
        epochs=NETWORK_EPOCHS[nodes],
        jobsets=NETWORK_JOBSETS,
        simulations=NETWORK_SIMULATIONS,
    )


NETWORKS = Artifact(
    "cush-networks",
    "The image network of the CuSH paper beside the small one of slots, by size of the cluster",
    lambda asked: [f"{nodes} nodes: {kind}" for nodes in NETWORK_EPOCHS for kind in NETWORKS_BY_NAME],
    lambda asked, piece: _compared(asked, _network_training(piece)),
    _plain_numbers,
    (),
)
