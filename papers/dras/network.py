"""Times of decisions and updates of the paper's network (Table 3), with random weights."""

import time
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from allocopt.arrays import Float32Array
from allocopt.learned.dras.paper_module import PaperActorCritic, PaperModule
from allocopt.learned.dras.paper_network import THETA_LAYERS, THETA_NODES, WINDOW, RowNetwork, paper_network
from allocopt.learned.rl.algorithms import Rollout, descend
from allocopt.learned.rl.networks import SlotNetwork, masked_log_softmax, weights_of
from allocopt.learned.rl.slots import CompactNetwork, SlotPolicy
from allocopt.learned.rl.training import A2cSettings

RUNNING, CHOICES, FEATURES, REPEATS = 34, 30, 21, 30
"""Running jobs in a state, choices of an update (about ten scheduling points), features, and measured repetitions."""


def _state(rng: np.random.Generator) -> Float32Array:
    nodes = np.repeat(rng.random((RUNNING, 2)), -(-THETA_NODES // RUNNING), axis=0)[:THETA_NODES]
    return np.concatenate((rng.random((2 * WINDOW, 2)), nodes)).astype(np.float32)


def _median_ms(what: Callable[[], Any], repeats: int = REPEATS) -> float:
    what()  # Warm up
    return 1e3 * float(np.median(timeit.repeat(what, timer=time.process_time, repeat=repeats, number=1)))


def decision_times(rng: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    """Time decisions on Theta with random weights; yield label, milliseconds, and the most that are allowed."""
    given = _state(rng)
    for agent in ("pg", "a2c", "ppo", "dql"):
        network = paper_network(agent, THETA_NODES, THETA_LAYERS)
        weights = {name: rng.normal(0, 0.02, shape).astype(np.float32) for name, shape in network.shapes().items()}
        rows = RowNetwork.of(network, weights)
        ms = _median_ms(partial(rows.outputs, given))
        yield f"decision, paper's network, {agent}", ms, 15.0 if agent == "dql" else 5.0
    policy = SlotPolicy.of(weights_of(SlotNetwork(CompactNetwork(FEATURES))))
    slots, legal = rng.random((WINDOW, FEATURES)).astype(np.float32), np.ones(WINDOW, dtype=np.bool_)
    yield "decision, compact network", _median_ms(lambda: policy(slots, legal), 300), 0.2


def update_times(rng: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    """Time gradient steps of the paper's networks; yield the same values as `decision_times`."""
    states = torch.from_numpy(np.stack([_state(rng) for _ in range(CHOICES)]))
    legal, actions = torch.ones(CHOICES, WINDOW, dtype=torch.bool), torch.arange(CHOICES)
    gains = torch.from_numpy(rng.normal(size=CHOICES)).float()
    rollout = Rollout(states, legal, actions, gains, gains, gains, 0.0)
    shared = PaperActorCritic(paper_network("ppo", THETA_NODES, THETA_LAYERS))
    policy = PaperModule(paper_network("pg", THETA_NODES, THETA_LAYERS))
    values = PaperModule(paper_network("dql", THETA_NODES, THETA_LAYERS))

    def gradient() -> torch.Tensor:
        taken: torch.Tensor = masked_log_softmax(policy(states), legal).gather(1, actions[:, None]).squeeze(1)
        return -(taken * gains).mean()

    def difference() -> torch.Tensor:
        with torch.no_grad():
            targets = gains + values.job_values(states).max(1).values
        taken: torch.Tensor = values.job_values(states).gather(1, actions[:, None]).squeeze(1)
        squares: torch.Tensor = (targets - taken).square()
        return squares.mean()

    losses: tuple[tuple[str, nn.Module, Callable[[], torch.Tensor]], ...] = (
        ("a2c, ppo", shared, lambda: rollout.loss(shared, A2cSettings())[0]),
        ("pg", policy, gradient),
        ("dql", values, difference),
    )
    for name, module, loss in losses:
        parameters = list(module.parameters())
        optimizer = torch.optim.Adam(parameters, lr=1e-3)
        step = lambda o=optimizer, p=parameters, compute=loss: descend(o, p, compute(), 0.5)  # noqa: E731
        yield f"update, paper's network, {name}", _median_ms(step, 5), 1000.0
