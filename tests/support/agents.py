"""Files of weights of DRAS agents for tests: random networks, each with a card as trainings write it."""

from dataclasses import asdict
from pathlib import Path

import numpy as np

from allocopt.envs.dras.dynamics import CAPABILITY
from allocopt.learned.rl.slots import CompactNetwork
from allocopt.learned.weights import Card, read_weights, write_weights

AGENT_NAMES = ("decima-pg", "dras-a2c", "dras-dql", "dras-pg", "dras-ppo")
FEATURES = 21


def write_agent(path: Path, agent: str, trace: str, seed: int = 0, window: int = 50) -> Path:
    """Write a network of random weights as a training of an agent on a trace."""
    rng = np.random.default_rng(seed)
    shapes = CompactNetwork(FEATURES, critic=32 if agent in ("dras-ppo", "dras-a2c") else 0).shapes()
    weights = {name: rng.normal(0.0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
    goal = {"goal": "capability", "paper": 1.0, "mean_wait": 0.0, "longest_wait": 0.0, "tolerated": 1.25}
    settings = {"window": window, "trace": trace, "reward": asdict(CAPABILITY), **goal}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_weights(path, weights, Card(agent, "compact", seed, 1, "0", "none", "test", settings))
    return path


def write_permuted(source: Path, seed: int, folder: Path) -> str:
    """Write weights whose numbers are permuted within each parameter."""
    (weights, card), rng, path = read_weights(source), np.random.default_rng(seed), folder / f"{seed}.safetensors"
    permuted = {name: rng.permutation(values.ravel()).reshape(values.shape) for name, values in weights.items()}
    write_weights(path, permuted, card)
    return str(path)
