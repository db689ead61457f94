"""Synthetic knapsack problems of any size: what a scheduler selects from at one moment."""

from typing import Annotated, Literal

import numpy as np
import typer

from allocopt.arrays import IntArray
from allocopt.errors import UsageError
from allocopt.problems.knapsack.problem import KnapsackJob, KnapsackProblem, Reward

LARGEST = 1_000_000_000
"""Largest number of nodes."""

MEAN_WAIT_S = 4 * 3600.0
SHORTEST_MIN, LONGEST_MIN = 5, 1440
"""Range of the requested run times, in minutes."""

EXTRA = ("licenses", "memory_gb", "burst_buffer_gb")
"""Resources behind the nodes."""


def drawn_knapsack(
    name: str,
    rng: np.random.Generator,
    nodes: Annotated[int, typer.Option(min=1, max=LARGEST, help="Nodes of the machine.")] = 4360,
    jobs: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of waiting jobs.")] = 50,
    objective: Annotated[
        Literal["capability", "capacity", "linear"], typer.Option(help="What is maximized: Eq. 1, Eq. 2 or values.")
    ] = "capability",
    load: Annotated[float, typer.Option(help="Share of the nodes that are in use, from 0 to below 1.")] = 0.5,
    unit: Annotated[int, typer.Option(min=1, max=LARGEST, help="Jobs ask for multiples of so many nodes.")] = 1,
    resources: Annotated[int, typer.Option(min=1, max=4, help="Number of resources, nodes included.")] = 1,
    slots: Annotated[int, typer.Option(min=0, max=10_000, help="Slots of contiguous nodes; 0 for any free nodes.")] = 0,
) -> KnapsackProblem:
    """Draw knapsack problems: jobs of log-uniform sizes, some nodes in use. Same seed, same files."""
    return synthetic_knapsack(
        nodes,
        jobs,
        rng,
        reward=Reward(objective),
        load=load,
        unit=unit,
        resources=resources,
        slots=slots,
        name=name,
    )


def synthetic_knapsack(
    nodes: int,
    n_jobs: int,
    rng: np.random.Generator,
    *,
    reward: Reward = Reward.CAPABILITY,
    load: float = 0.5,
    unit: int = 1,
    resources: int = 1,
    slots: int = 0,
    name: str = "knapsack",
) -> KnapsackProblem:
    """Draw a problem.

    Parameters
    ----------
    nodes
        Nodes of the machine.
    n_jobs
        Number of waiting jobs; their ids count from 1.
    rng
        Source of randomness.
    reward
        What is maximized.
    load
        Share of the nodes that are in use, in [0, 1).
    unit
        Jobs ask for multiples of so many nodes, log-uniformly from one of it to half of the machine.
    resources
        Number of resources, nodes included; the others are as scarce as the nodes.
    slots
        Number of slots of contiguous nodes in which the free nodes come; 0 for none.
    name
        Name of the instance.

    Raises
    ------
    UsageError
        If a number makes no sense.
    """
    _check(nodes, n_jobs, load, unit, resources)
    free = nodes - round(load * nodes)
    if slots > free:
        raise UsageError(f"{free} free nodes cannot come in {slots} slots")
    sizes = _log_uniform(unit, max(unit, nodes // 2), n_jobs, rng) // unit * unit
    waits = np.round(rng.exponential(MEAN_WAIT_S, n_jobs))
    estimates = 60 * _log_uniform(SHORTEST_MIN, LONGEST_MIN, n_jobs, rng)
    values = np.round(sizes * rng.uniform(0.5, 1.5, n_jobs), 2)
    requests, capacity = {"nodes": sizes}, {"nodes": free}
    for extra in EXTRA[: resources - 1]:
        requests[extra] = rng.integers(0, 100, n_jobs)
        capacity[extra] = max(1, int(requests[extra].sum() * free / max(1, int(sizes.sum()))))
    jobs = tuple(
        KnapsackJob(
            str(job + 1),
            {resource: int(units[job]) for resource, units in requests.items()},
            float(waits[job]),
            float(estimates[job]),
            float(values[job]),
        )
        for job in range(n_jobs)
    )
    return KnapsackProblem(
        capacity, jobs, reward, total={"nodes": nodes}, slots=_slots(free, slots, rng) if slots else None, name=name
    )


def _check(nodes: int, n_jobs: int, load: float, unit: int, resources: int) -> None:
    """Raise `UsageError` for a number that makes no sense."""
    if not 0 <= load < 1:
        raise UsageError(f"the load is {load}, must be a share from 0 to below 1")
    if not 1 <= resources <= len(EXTRA) + 1:
        raise UsageError(f"there are {resources} resources, must be 1 .. {len(EXTRA) + 1}")
    if not 1 <= unit <= nodes or n_jobs < 1:
        raise UsageError(f"{n_jobs} jobs of multiples of {unit} nodes do not fit a machine of {nodes} nodes")


def _log_uniform(low: int, high: int, count: int, rng: np.random.Generator) -> IntArray:
    """Whole numbers within a range whose logarithms are uniform."""
    drawn = np.exp(rng.uniform(np.log(low), np.log(high + 1), count))
    return np.clip(drawn.astype(np.int64), low, high)


def _slots(free: int, count: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Cut the free nodes at random places."""
    cuts = np.sort(rng.choice(np.arange(1, free), count - 1, replace=False))
    return tuple(np.diff(np.concatenate(([0], cuts, [free]))).tolist())
