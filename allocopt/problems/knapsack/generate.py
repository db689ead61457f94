"""Generate knapsack problems of any size: the waiting jobs and free units at one scheduling point."""

from typing import Annotated, Literal

import numpy as np
import typer

from allocopt.arrays import IntArray
from allocopt.errors import UsageError
from allocopt.problems.knapsack.problem import KnapsackJob, KnapsackProblem, Reward

LARGEST = 1_000_000_000  # largest number of nodes
MEAN_WAIT_S = 4 * 3600.0
SHORTEST_MIN, LONGEST_MIN = 5, 1440  # range of the requested run times, in minutes
EXTRA = ("licenses", "memory_gb", "burst_buffer_gb")  # resources after the nodes


def synthetic_knapsack(
    name: str,
    rng: np.random.Generator,
    nodes: Annotated[int, typer.Option(min=1, max=LARGEST, help="Nodes of the machine.")] = 4360,
    jobs: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of waiting jobs.")] = 50,
    objective: Annotated[
        Literal["capability", "capacity", "linear"],
        typer.Option(help="Maximize Eq. 1 or Eq. 2 of the DRAS paper, or the sum of values."),
    ] = "capability",
    load: Annotated[float, typer.Option(help="Share of the nodes that are in use, from 0 to below 1.")] = 0.5,
    unit: Annotated[
        int, typer.Option(min=1, max=LARGEST, help="Let jobs ask for multiples of this number of nodes.")
    ] = 1,
    resources: Annotated[int, typer.Option(min=1, max=4, help="Number of resources, nodes included.")] = 1,
    slots: Annotated[
        int,
        typer.Option(min=0, max=10_000, help="Divide free nodes into N slots, of which a job gets one; 0: no slots."),
    ] = 0,
) -> KnapsackProblem:
    """Draw knapsack problems: jobs of log-uniform sizes, some nodes in use. Same seed, same files."""
    if not 0 <= load < 1:
        raise UsageError(f"the load is {load}, must be a share from 0 to below 1")
    if unit > nodes:
        raise UsageError(f"{jobs} jobs of multiples of {unit} nodes do not fit a machine of {nodes} nodes")
    free = nodes - round(load * nodes)
    if slots > free:
        raise UsageError(f"{free} free nodes cannot be divided into {slots} slots")
    sizes = _log_uniform(unit, max(unit, nodes // 2), jobs, rng) // unit * unit
    waits = np.round(rng.exponential(MEAN_WAIT_S, jobs))
    estimates = 60 * _log_uniform(SHORTEST_MIN, LONGEST_MIN, jobs, rng)
    values = np.round(sizes * rng.uniform(0.5, 1.5, jobs), 2)
    requests, capacity = {"nodes": sizes}, {"nodes": free}
    for extra in EXTRA[: resources - 1]:
        requests[extra] = rng.integers(0, 100, jobs)
        # The resource is as scarce as the nodes.
        capacity[extra] = max(1, int(requests[extra].sum() * free / max(1, int(sizes.sum()))))
    waiting = tuple(
        KnapsackJob(
            str(job + 1),
            {resource: int(units[job]) for resource, units in requests.items()},
            float(waits[job]),
            float(estimates[job]),
            float(values[job]),
        )
        for job in range(jobs)
    )
    held = None
    if slots:
        # The free nodes are cut at random places.
        cuts = np.sort(rng.choice(np.arange(1, free), slots - 1, replace=False))
        held = tuple(np.diff(np.concatenate(([0], cuts, [free]))).tolist())
    return KnapsackProblem(capacity, waiting, Reward(objective), total={"nodes": nodes}, slots=held, name=name)


def _log_uniform(low: int, high: int, count: int, rng: np.random.Generator) -> IntArray:
    # Drawn up to high + 1, so that the largest integer is as likely as its neighbours.
    drawn = np.exp(rng.uniform(np.log(low), np.log(high + 1), count))
    return np.clip(drawn.astype(np.int64), low, high)
