"""Rewards that methods collect on validation jobsets, all of them through the environment."""

from collections.abc import Callable, Sequence

import numpy as np

from allocopt.envs.dras.reward import Weights
from allocopt.envs.dras.task import Episodes, Options
from allocopt.simulator.optimization import OptimizationScheduler
from allocopt.simulator.two_level import END, Selector
from allocopt.simulator.two_level_rules import Reservations
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed
from heuristics.scheduling.two_level import AtRandom, Following, InOrder, bin_packing
from learned.dras.agents import load_agent
from learned.dras.reproduction.methods import AGENTS, REFERENCE
from learned.dras.validation import Validator

RULES: dict[str, tuple[Callable[[str], Selector], Options]] = {
    REFERENCE: (lambda objective: InOrder(FirstComeFirstServed()), Options()),
    "BinPacking": (lambda objective: bin_packing(), Options(reservations=Reservations.NONE)),
    "Random": (lambda objective: AtRandom(), Options(reservations=Reservations.NONE)),
    "Optimization": (
        lambda objective: Following(OptimizationScheduler(objective=objective)),
        Options(reservations=Reservations.NONE, can_end=True),
    ),
}
"""How the paper's rules, for an objective of Optimization, choose in the environment."""


def rule_rewards(
    method: str, jobsets: Sequence[Workload], machine: int, objective: str, rewards: Sequence[Weights]
) -> list[float]:
    """Return the mean total reward of a rule over jobsets, by each of some rewards."""
    maker, options = RULES[method]
    return [
        float(np.mean([_played(jobs, machine, maker(objective), _rewarded(options, reward)) for jobs in jobsets]))
        for reward in rewards
    ]


def agent_rewards(
    method: str, weights: str, jobsets: Sequence[Workload], machine: int, rewards: Sequence[Weights]
) -> list[float]:
    """Return the mean total reward of an agent over jobsets, by each of some rewards; see `rule_rewards`."""
    agent = load_agent(AGENTS[method], weights)
    kind = Reservations.NONE if method == "Decima-PG" else Reservations.KEPT
    options = Options(window=agent.window, reservations=kind)
    return [
        Validator(jobsets, machine, _rewarded(options, reward)).waits(agent.weights).total_reward for reward in rewards
    ]


def _rewarded(options: Options, reward: Weights) -> Options:
    """Return options with another reward."""
    return Options(window=options.window, reservations=options.reservations, reward=reward, can_end=options.can_end)


def _played(jobs: Workload, machine: int, selector: Selector, options: Options) -> float:
    """Play a jobset through and return its total reward."""
    episodes = Episodes([jobs], machine, 1, options)
    episodes.begin(np.zeros(1, dtype=np.int64))
    over = False
    while not over:
        slot = selector.select(episodes.choice(0))
        over = bool(episodes.step(np.array([options.window if slot == END else slot]))[1][0])
    return float(episodes.tally["total_reward"][0])
