"""The DRAS paper's network beside the compact one and rules, on Theta's jobs that no training has seen.

Weights of the paper's network (88 MB) are not shipped. ``allocopt train dras-pg --option network=paper ... --out
FOLDER/NAME`` trains them; ``--option trained=FOLDER`` takes all trainings in a folder. Trainings with the same
algorithm, network and reward count as one method.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.learned.dras.environment import Validator
from allocopt.learned.dras.jobsets import EVALUATION_SEEDS, Split, SyntheticModel
from allocopt.learned.dras.policies import Agent
from allocopt.learned.weights import Card, find_weights, read_weights
from allocopt.reproduction import Records
from allocopt.simulator.simulate import simulate
from allocopt.traces.variants import varied_run_times
from allocopt.traces.weekly_cycle import HOUR_S
from allocopt.traces.workload import Workload
from papers.artifact import Artifact, Asked, Number, Record, mean_of, read_curve
from papers.dras.configuration import AGENTS, HELD_OUT, REFERENCE, RULES, THETA, jobsets_of, trace_of
from papers.dras.figures import paired_numbers

LOADS = (0.85, 1.0)
"""Loads of the synthetic weeks."""
JOBSETS, QUICK_JOBSETS = 20, 2
"""Number of jobsets of a place: synthetic weeks, or variants of the held-out days."""
JITTER = 0.05
"""Standard deviation of the logarithm of the factors by which run times of a variant are multiplied."""
COMPARED_RULES = (REFERENCE, "WFP3/B", "UNICEP/B", "Optimization")
TRAINED_AGENTS = ("DRAS-PG", "DRAS-DQL", "DRAS-A2C", "DRAS-PPO")
ONLY_EQ_1, WITH_WAITS = "Eq. 1 alone", "Eq. 1 and waits"
"""Rewards of trainings: the paper's, and with terms for the mean and the longest wait of an episode."""
REWARDED_WAITS = ("mean_wait", "mean_square_wait", "longest_wait")
"""Weights of a reward for waits; see `allocopt.envs.dras.dynamics.Weights`."""
WAITS = ("mean wait", "max wait")


class Weighted(NamedTuple):
    """Weights of a training, and the processor time that it took; None if that is not known."""

    path: str
    seed: int
    processor_s: float | None


def _reward_of(card: Card) -> str:
    reward = card.settings["reward"]
    return WITH_WAITS if any(reward[name] for name in REWARDED_WAITS) else ONLY_EQ_1


def _processor_s(path: Path) -> float | None:
    curve = path.with_name("curve.csv")
    return read_curve(curve)[-1].get("processor_s") if curve.exists() else None


def agents_of(folder: str) -> dict[str, list[Weighted]]:
    """Return the trainings of a folder and the shipped compact agents, by method."""
    agents = {name: label for label, name in AGENTS.items() if label in TRAINED_AGENTS}
    found = {}
    for name, label in agents.items():
        path = find_weights(name, THETA.weights)
        card = read_weights(path)[1]
        found[f"{label}, compact, {_reward_of(card)}"] = [Weighted(str(path), card.seed, None)]
    for path in sorted(Path(folder).glob("*/weights.safetensors")) if folder else ():
        card = read_weights(path)[1]
        if card.training in agents and str(card.settings["trace"]).startswith(THETA.trace_name):
            method = f"{agents[card.training]}, {card.network}, {_reward_of(card)}"
            found.setdefault(method, []).append(Weighted(str(path), card.seed, _processor_s(path)))
    return found


def _jobsets(place: str, asked: Asked) -> list[Workload]:
    """Return the jobsets of a place; none of their jobs has been used by a training."""
    count = asked.size(JOBSETS, QUICK_JOBSETS)
    if place == HELD_OUT:
        (jobs,) = jobsets_of(THETA, HELD_OUT, asked)
        return [varied_run_times(jobs, np.random.default_rng(seed), JITTER) for seed in range(count)]
    model = SyntheticModel.fitted(Split.of(trace_of(THETA, asked)).training(), THETA.processors)
    load = float(place.removeprefix("load "))
    return [model.span(seed, 0, load) for seed in EVALUATION_SEEDS[:count]]


def _waits_of_rule(method: str, jobsets: Sequence[Workload]) -> FloatArray:
    """Return mean and longest wait in hours by jobset, shape ``(n, 2)``."""
    scheduler = RULES[method](THETA, 0)
    waits = [simulate(jobs, THETA.processors, scheduler).job_times.wait_s / HOUR_S for jobs in jobsets]
    return np.array([[wait.mean(), wait.max()] for wait in waits])


def _waits_of_agent(weights: Weighted, jobsets: Sequence[Workload]) -> FloatArray:
    """Return mean and longest wait in hours by jobset, shape ``(n, 2)``."""
    _, card = read_weights(Path(weights.path))
    agent = Agent.load(card.training, weights.path)
    validator = Validator(jobsets, THETA.processors, agent.options(), policy_of=lambda _: agent.policy())
    waits = validator.waits(agent.weights)
    return np.column_stack((waits.mean_h, waits.longest_h))


def _record(asked: Asked, piece: str) -> Record:
    place, method = piece.split(": ")
    jobsets = _jobsets(place, asked)
    if method in COMPARED_RULES:
        return {"runs": [{"waits": _waits_of_rule(method, jobsets).tolist()}]}
    trained = agents_of(asked.trained)[method]
    return {
        "runs": [
            {"seed": one.seed, "processor_s": one.processor_s, "waits": _waits_of_agent(one, jobsets).tolist()}
            for one in trained
        ]
    }


def _ratios(record: Mapping[str, Any], reference: Mapping[str, Any]) -> FloatArray:
    """Return mean and longest waits over those of the reference on the same jobset, shape ``(runs, n, 2)``."""
    usual = np.array(reference["runs"][0]["waits"])
    ratios: FloatArray = np.array([run["waits"] for run in record["runs"]]) / usual
    return ratios


def _numbers(records: Records) -> Iterator[Number]:
    for piece, record in records.items():
        ratios = _ratios(record, records[f"{piece.split(': ')[0]}: {REFERENCE}"])
        for number, wait in enumerate(WAITS):
            yield from paired_numbers(piece, f"{wait} / {REFERENCE}", ratios[:, :, number].mean(axis=0).tolist())
            if len(ratios) > 1:
                yield mean_of(piece, f"{wait} / {REFERENCE}, by seed", ratios[:, :, number].mean(axis=1).tolist())
        yield Number(piece, "trainings", float(len(ratios)), None, ratios.shape[1])
        spent = [run["processor_s"] for run in record["runs"] if run.get("processor_s")]
        if spent:
            yield Number(piece, "processor minutes of a training", fmean(spent) / 60.0, None, len(spent))


NETWORKS = Artifact(
    "dras-networks",
    "The network of the DRAS paper and the compact one, trained with two rewards, beside rules",
    lambda asked: [
        f"{place}: {method}"
        for place in (HELD_OUT, *(f"load {load:g}" for load in LOADS))
        for method in (*COMPARED_RULES, *agents_of(asked.trained))
    ],
    _record,
    _numbers,
    ("trained",),
)
