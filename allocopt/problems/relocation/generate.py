"""Generate relocation problems: a loaded cluster of racks, and gangs that find no room."""

from typing import Annotated, Literal

import numpy as np
import typer

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import CORES, GPUS, THOUSANDTHS
from allocopt.cluster.options import FatTreeOptions
from allocopt.cluster.request import ClusterRequest
from allocopt.errors import UsageError
from allocopt.problems.placement.problem import NodeTasks
from allocopt.problems.relocation.problem import PlacedJob, RelocationProblem, WaitingGang

DEFAULT_TREE = FatTreeOptions()
SIZES = {1: 0.3, 2: 0.25, 3: 0.1, 4: 0.15, 6: 0.05, 8: 0.1, 16: 0.05}  # nodes of running jobs, and their shares
LARGE = {32: 0.6, 64: 0.4}  # nodes of large running jobs, and their shares
GPUS_PER_NODE, CORES_PER_NODE = 8, 64
PARTS = {1: 0.4, 2: 0.3, 4: 0.3}  # GPUs of running jobs on one node, and their shares


def synthetic_relocation(
    name: str,
    rng: np.random.Generator,
    tree: FatTreeOptions = DEFAULT_TREE,
    load: Annotated[float, typer.Option(min=0, max=1, help="Share of the nodes that jobs run on.")] = 0.95,
    fixed: Annotated[float, typer.Option(min=0, max=1, help="Share of the jobs that must not stop or move.")] = 0.33,
    movable: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Share of the jobs not fixed by --fixed that may move; the rest may only stop."
        ),
    ] = 0.0,
    compact: Annotated[bool, typer.Option("--compact", help="Keep jobs that fit a leaf within one leaf.")] = False,
    shared: Annotated[
        float, typer.Option(min=0, max=1, help="Fraction of the nodes whose GPUs are divided among several jobs.")
    ] = 0.0,
    large: Annotated[float, typer.Option(min=0, max=1, help="Share of the jobs that have 32 or 64 nodes.")] = 0.0,
    gangs: Annotated[int, typer.Option(min=0, max=1000, help="Number of waiting gangs.")] = 1,
    size: Annotated[int, typer.Option(min=1, max=100_000, help="Nodes of a gang, or of each of its segments.")] = 10,
    segments: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of segments of a gang, each within a leaf.")
    ] = 1,
    wait_cost: Annotated[
        float | None, typer.Option(min=0, help="Cost of a gang that keeps waiting; if not given, gangs must start.")
    ] = None,
    drained: Annotated[int, typer.Option(min=0, max=100_000, help="Nodes that have to be emptied.")] = 0,
    costs: Annotated[
        Literal["nodes", "work"], typer.Option(help="Cost of stopping a job: its nodes, or its nodes times its age.")
    ] = "nodes",
) -> RelocationProblem:
    """Draw a loaded cluster of racks, gangs that need racks, and nodes to be emptied. Same seed, same files."""
    topology = tree.tree()
    levels = len(topology.hops) - 1
    nodes = topology.size
    if not gangs and not drained:
        raise UsageError("nothing is asked for: give --gangs or --drained")
    if size > tree.nodes_per_leaf:
        raise UsageError(f"--size is {size}, must be at most {tree.nodes_per_leaf}, the nodes of a leaf")
    if drained > nodes:
        raise UsageError(f"{drained} nodes cannot be drained, the cluster has {nodes}")
    capacity = np.tile([CORES_PER_NODE * THOUSANDTHS, GPUS_PER_NODE * THOUSANDTHS], (nodes, 1))
    everywhere = np.ones((1, nodes), dtype=np.bool_)
    is_free = np.ones(nodes, dtype=np.bool_)
    running: list[PlacedJob] = []
    one_leaf = (1, *(0,) * (levels - 1))

    def add(request: ClusterRequest, places: list[NodeTasks], n_nodes: float) -> None:
        cost = n_nodes * (float(rng.integers(1, 25)) if costs == "work" else 1.0)
        may_stop = rng.random() >= fixed
        may_move = may_stop and rng.random() < movable
        running.append(
            PlacedJob(
                id=f"r{len(running) + 1}",
                request=request,
                places=tuple(places),
                stop_cost=cost if may_stop else None,
                # A stop loses the work of the job, a move costs only a checkpoint.
                move_cost=0.5 * cost if may_move else None,
            )
        )

    def asks(count: int, gpus: int, limits: tuple[int, ...] = (), parts: tuple[int, ...] = ()) -> ClusterRequest:
        of_node = np.array([CORES_PER_NODE * gpus // GPUS_PER_NODE, gpus], dtype=np.int64) * THOUSANDTHS
        nothing = np.zeros(2, dtype=np.int64)
        limits = limits or (0,) * levels
        return ClusterRequest(count, count, count, 1, False, nothing, of_node, everywhere, limits, 0, parts)

    for node in rng.permutation(nodes)[: round(shared * nodes)].tolist():
        is_free[node] = False
        left = GPUS_PER_NODE
        while left and rng.random() < load:
            gpus = min(left, int(rng.choice(list(PARTS), p=list(PARTS.values()))))
            add(asks(1, gpus), [NodeTasks(node, 1)], gpus / GPUS_PER_NODE)
            left -= gpus
    while is_free.mean() > (1 - load) * (1 - shared) and is_free.any():
        sizes = LARGE if large and rng.random() < large else SIZES
        count = int(rng.choice(list(sizes), p=list(sizes.values())))
        chosen = _side_by_side(rng, is_free, count)
        is_free[chosen] = False
        limits = one_leaf if compact and len(chosen) <= tree.nodes_per_leaf else ()
        add(asks(len(chosen), GPUS_PER_NODE, limits), [NodeTasks(node, 1) for node in chosen.tolist()], len(chosen))
    together = (size, *(0,) * (levels - 1)) if segments > 1 else ()
    limits = (0,) * levels if segments > 1 else one_leaf
    waiting = [
        WaitingGang(f"g{number}", asks(size * segments, GPUS_PER_NODE, limits, together), wait_cost)
        for number in range(1, gangs + 1)
    ]
    emptied = np.zeros(nodes, dtype=np.bool_)
    emptied[rng.permutation(nodes)[:drained]] = True
    return RelocationProblem(topology, (CORES, GPUS), capacity, tuple(running), tuple(waiting), emptied, name)


def _side_by_side(rng: np.random.Generator, is_free: BoolArray, count: int) -> IntArray:
    """Return consecutive free nodes from a random one on, as a cluster with more free nodes would have given them."""
    free = np.flatnonzero(is_free)
    start = int(rng.integers(len(free)))
    return np.sort(np.roll(free, -start)[: min(count, len(free))])
