"""Figure 5: learning curves by the order of the phases. Figure 6: those of all agents, and rewards of all methods.

The paper prints curves; its text states the rewards at the end, by its own reward on a month of the full trace.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from allocopt.envs.dras.dynamics import CAPABILITY, Weights
from allocopt.envs.dras.task import DrasEpisodes, DrasOptions
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed, LargestFirst
from allocopt.heuristics.scheduling.two_level import AtRandom, Following, InOrder
from allocopt.learned.dras.environment import Validator
from allocopt.learned.dras.policies import Agent
from allocopt.learned.dras.training import DrasTraining
from allocopt.learned.weights import find_weights, read_weights
from allocopt.reproduction import Records
from allocopt.simulator.rules import Reservations
from allocopt.simulator.two_level import END, Selector
from allocopt.simulator.window import OptimizationScheduler
from allocopt.traces.workload import Workload
from allocopt.training import get_training
from papers.artifact import Artifact, Asked, Number, Record, evenly, mean_of, progress_of, read_curve, seed_and_name
from papers.dras.configuration import (
    AGENTS,
    LEADER,
    PAPER_METHODS,
    REFERENCE,
    THETA,
    present,
    trace_of,
    trainings,
    weights_of,
)

ORDERS = ("sampled,real,synthetic", "real,sampled,synthetic", "synthetic,real,sampled", "real")
"""Orders of the phases in Figure 5; the last one is the paper's training with only real jobsets."""
ORDERED = "DRAS-PG"
"""The agent of Figure 5."""
UPDATES, QUICK_UPDATES = 1_000, 10
"""Updates of a training of Figure 5, and of any training in a quick run."""
GOAL = ("goal", "paper", "mean_wait", "longest_wait", "tolerated")
"""Settings of a training that define its objective."""
QUICK_JOBSETS = 2
POINTS = 10
"""Number of points of a curve that become rows."""

MEASURES = ("total_reward", "wait_ratio", "longest_ratio", "score")
TERMS = ("oldest", "size", "used")
"""Terms of Eq. 1: wait over the longest wait, size over the machine's, and the share of the machine in use."""
REWARDS = ("reward as trained", "reward by Eq. 1", *(f"of which {term}" for term in TERMS))
AT_END = "at the end"


def _training(method: str, asked: Asked, updates: int = 0, phases: str = ORDERS[0]) -> DrasTraining:
    """Return a training of an agent on Theta, with the objective of DRAS-PPO's weights for Theta if there are any."""
    goal: dict[str, Any] = {}
    for weights in weights_of(asked.trained, LEADER, THETA)[:1]:
        settings = read_weights(find_weights(AGENTS[LEADER], weights))[1].settings
        goal = {name: settings[name] for name in GOAL}
    options = {"trace": str(asked.data / THETA.trace), "processors": THETA.processors, "updates": updates}
    training = get_training(AGENTS[method], {**options, "phases": phases, **goal})
    assert isinstance(training, DrasTraining)
    return training


def _curve_of(training: DrasTraining, seed: int, name: str) -> Record:
    progress = progress_of(training, seed, name)
    return curve_record([{**point.measures, "update": point.done} for point in progress])


def curve_record(curve: Sequence[Mapping[str, float]]) -> Record:
    """Return the columns of a curve that are shown."""
    return {name: [float(point[name]) for point in curve] for name in ("update", "samples", *MEASURES)}


def curve_numbers(row: str, record: Mapping[str, Any]) -> Iterator[Number]:
    """Yield evenly spread points of a curve, and its best one."""
    n = len(record["update"])
    for measure in MEASURES:
        for i in evenly(n, POINTS):
            yield Number(row, f"{measure} at update {record['update'][i]:.0f}", record[measure][i])
    best = int(np.argmin(record["score"]))
    yield Number(row, "best score", record["score"][best], None, n)
    yield Number(row, "update of the best score", record["update"][best], None, n)


def _record_of_five(asked: Asked, piece: str) -> Record:
    seed, order = seed_and_name(piece)
    trace_of(THETA, asked)
    return _curve_of(_training(ORDERED, asked, asked.size(UPDATES, QUICK_UPDATES), order), seed, FIVE.name)


FIVE = Artifact(
    "dras-figure5",
    "Figure 5 of the DRAS paper: learning curves of DRAS-PG by the order of the phases",
    lambda asked: [f"seed {seed}: {order}" for seed in asked.seeds for order in ORDERS],
    _record_of_five,
    lambda records: (number for piece, record in records.items() for number in curve_numbers(piece, record)),
    ("trained",),
)

_ALL_RUN = DrasOptions(reservations=Reservations.NONE)
IN_ENVIRONMENT: dict[str, tuple[Callable[[], Selector], DrasOptions]] = {
    REFERENCE: (lambda: InOrder(FirstComeFirstServed()), DrasOptions()),
    "BinPacking": (lambda: InOrder(LargestFirst()), _ALL_RUN),
    "Random": (AtRandom, _ALL_RUN),
    "Optimization": (
        lambda: Following(OptimizationScheduler(objective=THETA.objective)),
        DrasOptions(reservations=Reservations.NONE, can_end=True),
    ),
}
"""Selectors that follow the paper's rules in the environment, in which all methods collect their rewards."""


def _total_reward(jobs: Workload, selector: Selector, options: DrasOptions) -> float:
    episodes = DrasEpisodes([jobs], THETA.processors, 1, options)
    episodes.begin(np.zeros(1, dtype=np.int64))
    over = False
    while not over:
        slot = selector.select(episodes.choice(0))
        over = bool(episodes.step(np.array([options.window if slot == END else slot]))[1][0])
    return float(episodes.tally["total_reward"][0])


def _mean_reward(method: str, weights: str, jobsets: Sequence[Workload], reward: Weights) -> float:
    """Return the mean total reward over jobsets, of a rule or of an agent with some weights."""
    if method in IN_ENVIRONMENT:
        maker, options = IN_ENVIRONMENT[method]
        return float(np.mean([_total_reward(jobs, maker(), replace(options, reward=reward)) for jobs in jobsets]))
    agent = Agent.load(AGENTS[method], weights)
    kind = Reservations.NONE if method == "Decima-PG" else Reservations.KEPT
    validator = Validator(jobsets, THETA.processors, DrasOptions(window=agent.window, reservations=kind, reward=reward))
    return validator.waits(agent.weights).total_reward


def _record_of_six(asked: Asked, piece: str) -> Record:
    """Return an agent's curve from the folder, or from a training made now."""
    seed, method = seed_and_name(piece)
    for path in trainings(asked.trained, method, THETA):
        if read_weights(path)[1].seed == seed:
            return curve_record(read_curve(path.with_name("curve.csv")))
    trace_of(THETA, asked)
    return _curve_of(_training(method, asked, asked.size(0, QUICK_UPDATES)), seed, SIX.name)


SIX = Artifact(
    "dras-figure6",
    "Figure 6 of the DRAS paper: learning curves of all agents on the validation jobsets of Theta",
    lambda asked: [f"seed {seed}: {agent}" for seed in asked.seeds for agent in AGENTS],
    _record_of_six,
    lambda records: (number for piece, record in records.items() for number in curve_numbers(piece, record)),
    ("trained",),
)


def _rewards(asked: Asked, piece: str) -> Record:
    """Return the total rewards of a method on the validation jobsets, for the terms `REWARDS`."""
    training = _training(LEADER, asked)
    jobsets = training.jobsets(trace_of(THETA, asked), THETA.processors, 0)[1][: asked.size(None, QUICK_JOBSETS)]
    known = weights_of(asked.trained, piece, THETA) if piece in AGENTS else [""]
    # Each single term, with its weight in Eq. 1.
    terms = [Weights(**{term: getattr(CAPABILITY, term)}) for term in TERMS]
    totals = [
        [_mean_reward(piece, weights, jobsets, reward) for reward in (training.reward, CAPABILITY, *terms)]
        for weights in known
    ]
    return {"jobsets": len(jobsets), "totals": totals}


def _reward_numbers(records: Records) -> Iterator[Number]:
    for piece, record in records.items():
        for column, totals in zip(REWARDS, zip(*record["totals"], strict=True), strict=True):
            yield mean_of(f"{AT_END}: {piece}", column, totals, None, int(record["jobsets"]) * len(totals))


SIX_REWARDS = Artifact(
    "dras-figure6-rewards",
    "Figure 6 of the DRAS paper: total reward of all methods on the validation jobsets of Theta",
    lambda asked: present(PAPER_METHODS, THETA, asked),
    _rewards,
    _reward_numbers,
    ("trained",),
)
