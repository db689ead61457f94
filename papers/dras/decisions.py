"""Times of DRAS on one core: a decision with the paper's networks and the compact one, and an update by each algorithm.

The networks are those of Theta, N = 4,360 and W = 50, with random weights; the machine in the states has 34 running
jobs, the most there can be. An update is the gradient step on 30 choices, about ten scheduling
instances.
Prints milliseconds, medians, and writes nothing.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from allocopt.arrays import Float32Array
from learned.rl.algorithms import actor_critic_loss, descend
from learned.rl.networks import SlotNetwork, masked_log_softmax, weights_of
from learned.rl.rollout import Rollout
from learned.rl.slots import CompactNetwork, SlotPolicy, pack_slots
from learned.rl.training import A2cSettings
from papers.dras.network import (
    THETA_LAYERS,
    THETA_NODES,
    WINDOW,
    PaperActorCritic,
    PaperJobValues,
    PaperModule,
    RowNetwork,
    paper_network,
)

RUNNING, CHOICES, FEATURES, REPEATS = 34, 30, 21, 30


def state(rng: np.random.Generator) -> Float32Array:
    """Rows of fifty jobs and of the nodes of 34 running jobs."""
    nodes = np.repeat(rng.random((RUNNING, 2)), -(-THETA_NODES // RUNNING), axis=0)[:THETA_NODES]
    return np.concatenate((rng.random((2 * WINDOW, 2)), nodes)).astype(np.float32)


def median_ms(what: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median CPU time of a call in milliseconds, after one that does not count."""
    what()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        what()
        times.append(time.process_time() - begin)
    return 1e3 * float(np.median(times))


def decision_times(rng: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    """Time decisions without torch; yield what, milliseconds, and how many they may be."""
    given = state(rng)
    for agent in ("pg", "a2c", "ppo", "dql"):
        network = paper_network(agent, THETA_NODES, THETA_LAYERS)
        weights = {name: rng.normal(0, 0.02, shape).astype(np.float32) for name, shape in network.shapes().items()}
        rows = RowNetwork.of(network, weights)
        chosen = (lambda r=rows: r.job_values(given, WINDOW)) if agent == "dql" else (lambda r=rows: r.outputs(given))
        yield f"decision, paper's network, {agent}", median_ms(chosen), 15.0 if agent == "dql" else 5.0
    policy = SlotPolicy(pack_slots(weights_of(SlotNetwork(CompactNetwork(FEATURES)))))
    slots, legal = rng.random((WINDOW, FEATURES)).astype(np.float32), np.ones(WINDOW, dtype=np.bool_)
    yield "decision, compact network", median_ms(lambda: policy(slots, legal), 300), 0.2


def update_times(rng: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    """Time gradient steps of the paper's networks; yield what `decision_times` yields."""
    states = torch.from_numpy(np.stack([state(rng) for _ in range(CHOICES)]))
    legal, actions = torch.ones(CHOICES, WINDOW, dtype=torch.bool), torch.arange(CHOICES)
    gains = torch.from_numpy(rng.normal(size=CHOICES)).float()
    rollout = Rollout(states, legal, actions, gains, gains, gains, 0.0)
    shared = PaperActorCritic(paper_network("ppo", THETA_NODES, THETA_LAYERS))
    policy = PaperModule(paper_network("pg", THETA_NODES, THETA_LAYERS))
    values = PaperJobValues(paper_network("dql", THETA_NODES, THETA_LAYERS))

    def gradient() -> torch.Tensor:
        taken: torch.Tensor = masked_log_softmax(policy(states), legal).gather(1, actions[:, None]).squeeze(1)
        return -(taken * gains).mean()

    def difference() -> torch.Tensor:
        with torch.no_grad():
            targets = gains + values(states).max(1).values
        taken: torch.Tensor = values(states).gather(1, actions[:, None]).squeeze(1)
        squares: torch.Tensor = (targets - taken).square()
        return squares.mean()

    losses: tuple[tuple[str, nn.Module, Callable[[], torch.Tensor]], ...] = (
        ("a2c, ppo", shared, lambda: actor_critic_loss(shared, rollout, A2cSettings())[0]),
        ("pg", policy, gradient),
        ("dql", values, difference),
    )
    for name, module, loss in losses:
        parameters = list(module.parameters())
        optimizer = torch.optim.Adam(parameters, lr=1e-3)
        step = lambda o=optimizer, p=parameters, compute=loss: descend(o, p, compute(), 0.5)  # noqa: E731
        yield f"update, paper's network, {name}", median_ms(step, 5), 1000.0


def main() -> None:
    """Time everything."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    for what, ms, most in (*decision_times(rng), *update_times(rng)):
        print(f"{what}: {ms:.4g} ms, at most {most:g}")


if __name__ == "__main__":
    main()
