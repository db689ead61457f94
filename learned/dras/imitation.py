"""A policy to begin with: that of WFP3, a rule which starts the job of the greatest (wait / estimate)^3 x size.

Trained from nothing, a policy first finds out that short jobs are worth it, and goes on to let others starve, before it
finds what keeps both waits short. A network that has learned to choose as the rule does begins beyond that. The
logarithm of the rule's score is a sum of three features, so it is no more than a layer for the network to learn.
"""

import numpy as np
import torch

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.dras.observation import FEATURES, LOG_UNIT
from learned.dras.several import GroupEnvironment
from learned.dras.states import SlotActorCritic, SlotStates, joined, packed

LOG_WAIT, LOG_ESTIMATE, LOG_SIZE = (FEATURES.index(name) for name in ("log_wait", "log_estimate", "log_size"))
POWER = 3.0
"""Of wait / estimate in WFP3."""

STEPS, BATCH, LEARNING_RATE = 300, 2048, 3e-3


def wfp3_scores(states: Float32Array, machine: int) -> FloatArray:
    """Logarithm of WFP3's score of every slot, times counted from a minute on; shape ``(..., W)``.

    Parameters
    ----------
    states
        What an agent sees, shape ``(..., W, K)``.
    machine
        Number of nodes.
    """
    size_unit = np.log2(1.0 + machine) / LOG_UNIT
    relative_wait = states[..., LOG_WAIT] - states[..., LOG_ESTIMATE]
    return np.asarray(POWER * relative_wait + size_unit * states[..., LOG_SIZE], dtype=np.float64)


def imitate_wfp3(model: SlotActorCritic, environment: GroupEnvironment, seed: int, steps: int = STEPS) -> None:
    """Let the rule act through an episode of every environment, and teach the actor its choices by cross-entropy."""
    states, legal, chosen = _demonstrated(environment)
    optimizer = torch.optim.Adam(model.actor.parameters(), LEARNING_RATE)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        batch = torch.randint(len(chosen), (BATCH,), generator=generator)
        probabilities = model.log_probabilities(states[batch], legal[batch])
        loss = -probabilities.gather(1, chosen[batch, None]).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _demonstrated(environment: GroupEnvironment) -> tuple[SlotStates, torch.Tensor, torch.Tensor]:
    """Return states, legal slots and the rule's choices."""
    environment.begin_groups(environment.n_environments)
    over: BoolArray = np.zeros(environment.n_environments, dtype=np.bool_)
    parts, masks, taken = [], [], []
    while not over.all():
        states, legal = environment.episodes.observe()
        scores = np.where(legal, wfp3_scores(states, environment.episodes.machine), -np.inf)
        actions: IntArray = scores.argmax(axis=-1)
        parts.append(packed(states[~over], legal[~over]))
        masks.append(legal[~over])
        taken.append(actions[~over])
        _, over = environment.step(actions)
    return joined(parts), torch.from_numpy(np.concatenate(masks)), torch.from_numpy(np.concatenate(taken))
