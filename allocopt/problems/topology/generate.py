"""Synthetic windows of any size: runs of idle nodes of geometric lengths, jobs of uniform sizes."""

from typing import Annotated

import numpy as np
import typer

from allocopt.arrays import IntArray
from allocopt.cluster.options import FatTreeOptions, HopCost
from allocopt.errors import UsageError
from allocopt.problems.topology.problem import LARGEST_HOP_COST, LEAST_HOP_COST, Job, TopologyProblem
from allocopt.traces.generators import Range, check_range

DEFAULT_TREE = FatTreeOptions()


def drawn_window(
    name: str,
    rng: np.random.Generator,
    idle: Annotated[int, typer.Option(min=1, help="Number of idle nodes.")],
    jobs: Annotated[int, typer.Option(min=1, help="Number of jobs of a window.")],
    min_nodes: Annotated[int, typer.Option(min=1, help="Least nodes of a job.")] = 2,
    max_nodes: Annotated[int, typer.Option(min=1, help="Most nodes of a job; sizes are uniform.")] = 40,
    mean_run: Annotated[float, typer.Option(min=1, help="Mean number of consecutive idle nodes.")] = 5.0,
    load: Annotated[
        float,
        typer.Option(help="Let jobs ask for at most this share of the idle nodes; sizes shrink to meet it."),
    ] = 0.95,
    tree: FatTreeOptions = DEFAULT_TREE,
    hop_cost: HopCost = 1000.0,
) -> TopologyProblem:
    """Draw windows: runs of idle nodes of geometric lengths, jobs of uniform sizes. Same seed, same files."""
    # In windows of the NSA paper's workload, the mean run is 3 to 5.
    topology = tree.tree()
    idle_nodes = _idle_runs(topology.size, idle, mean_run, rng)
    sizes = _fitting_sizes(jobs, (min_nodes, max_nodes), idle, load, rng)
    drawn = tuple(Job(str(number), size) for number, size in enumerate(sizes.tolist(), 1))
    return TopologyProblem(topology, idle_nodes, drawn, checked_hop_cost(hop_cost), name)


def checked_hop_cost(hop_cost: float) -> float:
    """Return a hop cost that a problem can have; raise `UsageError` for others."""
    if not LEAST_HOP_COST <= hop_cost <= LARGEST_HOP_COST:
        raise UsageError(f"--hop-cost is {hop_cost}, must be within {LEAST_HOP_COST:g} .. {LARGEST_HOP_COST:g}")
    return hop_cost


def _idle_runs(size: int, n_idle: int, mean_run: float, rng: np.random.Generator) -> IntArray:
    # Independent geometric lengths, given their number and sum, form a uniformly random composition of the sum. So the
    # number of idle runs is `n_idle / mean_run`, rounded (fewer if there are too few busy nodes to separate them), and
    # idle and busy nodes are each divided by a random composition.
    if not 1 <= n_idle <= size:
        raise UsageError(f"the number of idle nodes is {n_idle}, must be within 1..{size}, the cluster's size")
    if not 1 <= mean_run < float("inf"):
        raise UsageError(f"the mean length of an idle run is {mean_run}, must be at least 1")
    n_busy = size - n_idle
    n_runs = max(1, min(round(n_idle / mean_run), n_busy + 1))
    idle = _composition(n_idle, n_runs, rng)
    # The cluster may begin or end with an idle run, so the outer busy runs may be empty.
    busy = _composition(n_busy + 2, n_runs + 1, rng) - np.bincount([0, n_runs], minlength=n_runs + 1)
    lengths = np.insert(busy, np.arange(1, n_runs + 1), idle)
    return np.flatnonzero(np.repeat(np.arange(2 * n_runs + 1) % 2, lengths))


def _fitting_sizes(n_jobs: int, nodes: Range, n_idle: int, load: float, rng: np.random.Generator) -> IntArray:
    check_range("nodes", nodes, 1)
    if n_jobs < 1:
        raise UsageError(f"the number of jobs is {n_jobs}, must be at least 1")
    if not 0 < load <= 1:
        raise UsageError(f"the load is {load}, must be positive and at most 1")
    smallest, largest = nodes
    spare = int(load * n_idle) - n_jobs * smallest
    if spare < 0:
        raise UsageError(
            f"{n_jobs} jobs of at least {smallest} nodes do not fit into a share of {load:g} of {n_idle} idle nodes"
        )
    # Nodes above the smallest size; if they are reduced in proportion, no job becomes smaller than that size.
    above: IntArray = rng.integers(0, largest - smallest, size=n_jobs, endpoint=True)
    asked = int(above.sum())
    return smallest + (above if asked <= spare else above * spare // asked)


def _composition(total: int, parts: int, rng: np.random.Generator) -> IntArray:
    # Distinct cuts make all compositions of the total into positive parts equally likely.
    cuts = np.sort(rng.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff(np.concatenate(([0], cuts, [total])))
