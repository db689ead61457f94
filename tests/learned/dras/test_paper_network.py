"""The paper's network has its numbers of parameters, and gives without torch what it gives with it."""

import numpy as np
import pytest
import torch

from allocopt.arrays import Float32Array
from learned.rl.networks import weights_of
from papers.dras.network import THETA_LAYERS, THETA_NODES, PaperModule, PaperNetwork, RowNetwork, paper_network

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
