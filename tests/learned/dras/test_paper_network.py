"""The paper's network has its numbers of parameters, and gives without torch what it gives with it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from allocopt.arrays import Float32Array
from allocopt.errors import UsageError
from allocopt.learned.dras.environment import JobsetEnvironment, ScaledRewards
from allocopt.learned.dras.paper_module import PaperModule, PaperValues
from allocopt.learned.dras.paper_network import (
    THETA_LAYERS,
    THETA_NODES,
    PaperNetwork,
    PaperPolicy,
    RowNetwork,
    paper_network,
)
from allocopt.learned.dras.training import DrasPg
from allocopt.learned.rl.networks import weights_of

TABLE_3 = {
    ("theta", "dql"): 21_449_004,
    ("theta", "pg"): 21_890_053,
    ("theta", "a2c"): 21_891_054,
    ("theta", "ppo"): 21_891_054,
    # Printed as 161,764,004, for the rows of the other agents.
    ("cori", "dql"): 160_784_004,
    ("cori", "pg"): 161_960_053,
    ("cori", "a2c"): 161_964_054,
    ("cori", "ppo"): 161_964_054,
}
MACHINES = {"theta": (THETA_NODES, THETA_LAYERS), "cori": (12_076, (10_000, 4000))}


def n_parameters(network: PaperNetwork) -> int:
    return sum(int(np.prod(shape)) for shape in network.shapes().values())


@pytest.mark.parametrize(("machine", "agent"), TABLE_3)
def test_parameters_are_those_of_table_3(machine: str, agent: str) -> None:
    assert n_parameters(paper_network(agent, *MACHINES[machine])) == TABLE_3[machine, agent]


def state(rng: np.random.Generator, window: int, nodes: int) -> Float32Array:
    """Rows of jobs, then nodes in runs of equal ones."""
    runs = np.repeat(rng.random((nodes, 2)), rng.integers(1, 9, nodes), axis=0)[:nodes]
    return np.concatenate((rng.random((2 * window, 2)), runs)).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_a_paper_network_gives_without_torch_what_it_gives_with_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = PaperNetwork(5, 60, 40, 20, 6)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = PaperModule(network)
    assert sum(parameter.numel() for parameter in module.parameters()) == n_parameters(network)
    rows = RowNetwork.of(network, weights_of(module))
    for _ in range(5):
        given = state(rng, 5, 60)
        expected = module(torch.from_numpy(given)[None])[0].detach().numpy()
        np.testing.assert_allclose(rows.outputs(given)[0], expected, atol=1e-5)


def test_a_network_of_one_job_values_every_job_of_a_window() -> None:
    rng = np.random.default_rng(7)
    network = PaperNetwork(1, 60, 40, 20, 1)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        module = PaperModule(network)
    given = state(rng, 5, 60)
    states = [np.concatenate((given[2 * job : 2 * job + 2], given[10:])) for job in range(5)]
    one_by_one = [module(torch.from_numpy(one)[None]).item() for one in states]
    together = module.job_values(torch.from_numpy(given)[None])[0].detach().numpy()
    np.testing.assert_allclose(together, one_by_one, atol=1e-5)
    rows = RowNetwork.of(network, weights_of(module))
    np.testing.assert_allclose(rows.outputs(given)[:, 0], one_by_one, atol=1e-5)


def test_a_misshapen_parameter_is_named() -> None:
    network = PaperNetwork(1, 4, 3, 2, 1)
    weights = {name: np.zeros(shape, dtype=np.float32) for name, shape in network.shapes().items()}
    with pytest.raises(ValueError, match=r"second\.weight"):
        RowNetwork.of(network, {**weights, "second.weight": np.zeros((1, 1), dtype=np.float32)})


@pytest.mark.parametrize("agent", ["pg", "ppo", "dql"])
def test_a_policy_of_the_paper_network_takes_the_best_legal_slot_or_draws_by_the_softmax(agent: str) -> None:
    rng, window, nodes = np.random.default_rng(3), 5, 20
    network = paper_network(agent, nodes, (16, 8), window)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        module = PaperValues(network) if agent == "dql" else PaperModule(network)
    policy = PaperPolicy.of(weights_of(module), window)
    states = np.stack([state(rng, window, nodes) for _ in range(4)])
    legal = rng.random((4, window)) < 0.6
    legal[:, 2] = True
    with torch.no_grad():
        values = module(torch.from_numpy(states)).numpy()[:, :window]
    best = np.where(legal, values, -np.inf).argmax(axis=1)
    assert policy.choose(states, legal).tolist() == best.tolist()
    assert [policy(one, may) for one, may in zip(states, legal, strict=True)] == best.tolist()
    # Evenly spread numbers draw each slot as often as its probability says.
    numbers = (np.arange(2000) + 0.5) / 2000
    drawn = policy.choose(np.repeat(states[:1], 2000, axis=0), np.repeat(legal[:1], 2000, axis=0), numbers)
    expected = np.where(legal[0], np.exp(values[0] - values[0].max()), 0.0)
    shares = np.bincount(drawn, minlength=window) / 2000
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=2e-3)


def test_a_paper_network_is_refused_on_another_machine() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weights = weights_of(PaperModule(paper_network("pg", 20, (16, 8), 5)))
    policy = PaperPolicy.of(weights, 5)
    with pytest.raises(UsageError, match="made for 20 nodes, this machine has 21"):
        policy(state(np.random.default_rng(0), 5, 21), np.ones(5, dtype=np.bool_))
    with pytest.raises(ValueError, match="missing"):
        PaperPolicy.of({}, 5)


def test_scaled_rewards_have_a_spread_of_about_one(trace: Path) -> None:
    training = DrasPg(str(trace), network="paper", updates=1, environments=4, validation=2, window=16)
    (workload, machine), *_ = training.traces()
    phases, _ = training.jobsets(workload, machine, 0)
    plain = JobsetEnvironment(phases, machine, 4, training.options(), 0)
    scaled = ScaledRewards(JobsetEnvironment(phases, machine, 4, training.options(), 0), discount=0.0)
    rewards, found = [], []
    for _ in range(300):
        _, legal = plain.observe()
        scaled.observe()
        actions = legal.argmax(axis=1)
        rewards.append(plain.step(actions)[0])
        found.append(scaled.step(actions)[0])
    # Without a discount sums are rewards, and the running spread is that of all so far.
    assert found[-1] == pytest.approx(rewards[-1] / np.std(rewards))
