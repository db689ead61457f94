"""``allocopt generate``: windows, knapsacks and co-allocations as instance files, and whole workloads."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from allocopt.cli import generate_coallocation, generate_knapsack, generate_window, generate_workload
from allocopt.cli.options import LARGEST
from allocopt.cli.topology_options import TOPOLOGY_HELP, Labels, TableColumns, read_cluster, read_jobs
from allocopt.cli.writing import file_name, instance_names, write_instances

if TYPE_CHECKING:
    from allocopt.cluster.topology import FatTree
    from allocopt.traces.workload import Workload

Pairs = Literal["ordered", "unordered"]

app = typer.Typer(
    no_args_is_help=True,
    help="Generate instances, windows of a workload or synthetic ones, knapsacks and co-allocations, and workloads.",
)
app.command("workload")(generate_workload.command)
app.command("knapsack")(generate_knapsack.command)
app.command("window")(generate_window.command)
app.command("coallocation")(generate_coallocation.command)

_CLUSTER = "Cluster"
_GENERATOR = "Workload generator (without --workload)"
_REPLAY = "Replay"

_MOST = 10_000_000
"""Largest number of jobs or windows, so that a typing error does not exhaust the memory."""

Out = Annotated[
    Path,
    typer.Option(
        readable=False,
        help="A .jsonl[.gz] file for all instances, a .json[.gz] file for one, or a folder for one file each.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Fixes every random choice.")]
Count = Annotated[int, typer.Option(min=1, max=_MOST, help="Number of windows.")]

Pods = Annotated[int, typer.Option(min=1, rich_help_panel=_CLUSTER, help="Pods of the fat tree.")]
LeavesPerPod = Annotated[int, typer.Option(min=1, rich_help_panel=_CLUSTER, help="Leaf switches per pod.")]
NodesPerLeaf = Annotated[int, typer.Option(min=1, rich_help_panel=_CLUSTER, help="Nodes per leaf switch.")]
Hops = Annotated[
    str, typer.Option(rich_help_panel=_CLUSTER, help="Hops within a leaf, within a pod and across pods: three numbers.")
]
PairsCounted = Annotated[
    Pairs, typer.Option(rich_help_panel=_CLUSTER, help="Whether a pair of nodes counts twice or once.")
]
TopologyFile = Annotated[
    Path | None,
    typer.Option(
        "--topology", readable=False, rich_help_panel=_CLUSTER, help=f"Instead of a fat tree: {TOPOLOGY_HELP}"
    ),
]
HopCost = Annotated[float, typer.Option(rich_help_panel=_CLUSTER, help="Cost of one hop, positive.")]

Trace = Annotated[
    Path | None,
    typer.Option(
        readable=False,
        help="Trace to replay: .swf[.gz], a Batsim workload .json[.gz], a table .csv[.gz] or sacct -P, or else text "
        "with id, arrival s, run s and nodes in a line; if not given, the NSA paper's generator makes one.",
    ),
]
Prefix = Annotated[
    str | None, typer.Option(help="What names begin with: PREFIX-000, ...; if not given, the workload's name.")
]
Period = Annotated[float, typer.Option(min=0.001, rich_help_panel=_REPLAY, help="Length of a scheduling period, s.")]
Skip = Annotated[int, typer.Option(min=0, rich_help_panel=_REPLAY, help="Windows to leave out at the beginning.")]
MinJobs = Annotated[
    int, typer.Option(min=1, rich_help_panel=_REPLAY, help="Least number of jobs of 2 or more nodes in a window.")
]
MaxJobs = Annotated[
    int | None, typer.Option(min=1, rich_help_panel=_REPLAY, help="Greatest number of them; if not given, no limit.")
]
ProcessorsPerNode = Annotated[
    int,
    typer.Option(
        min=1, max=LARGEST, rich_help_panel=_REPLAY, help="Processors of the trace per node; jobs get whole nodes."
    ),
]
Allocator = Annotated[
    str, typer.Option(rich_help_panel=_REPLAY, help="Solver that allocates each window, to go on to the next.")
]
AllocatorStrategy = Annotated[
    str, typer.Option(rich_help_panel=_REPLAY, help="Strategy of the allocator: scas, dcas or free.")
]
Iterations = Annotated[
    int, typer.Option(min=1, max=LARGEST, rich_help_panel=_REPLAY, help="Iterations of the allocator per window.")
]

Jobs = Annotated[int, typer.Option(min=1, max=_MOST, rich_help_panel=_GENERATOR, help="Number of jobs.")]
MinNodes = Annotated[int, typer.Option(min=1, max=LARGEST, rich_help_panel=_GENERATOR, help="Least nodes of a job.")]
MaxNodes = Annotated[int, typer.Option(min=1, max=LARGEST, rich_help_panel=_GENERATOR, help="Most nodes of a job.")]
MinRun = Annotated[int, typer.Option(min=1, max=LARGEST, rich_help_panel=_GENERATOR, help="Shortest run time, s.")]
MaxRun = Annotated[int, typer.Option(min=1, max=LARGEST, rich_help_panel=_GENERATOR, help="Longest run time, s.")]
MinGap = Annotated[
    int, typer.Option(min=0, max=LARGEST, rich_help_panel=_GENERATOR, help="Shortest time between arrivals, s.")
]
MaxGap = Annotated[
    int, typer.Option(min=0, max=LARGEST, rich_help_panel=_GENERATOR, help="Longest time between arrivals, s.")
]

Idle = Annotated[int, typer.Option(min=1, help="Number of idle nodes.")]
WindowJobs = Annotated[int, typer.Option(min=1, help="Number of jobs of a window.")]
Name = Annotated[str, typer.Option(help="Name of the window; of several, NAME-000, ...")]
LeastNodes = Annotated[int, typer.Option(min=1, help="Least nodes of a job.")]
MostNodes = Annotated[int, typer.Option(min=1, help="Most nodes of a job; sizes are uniform.")]
MeanRun = Annotated[float, typer.Option(min=1, help="Mean number of consecutive idle nodes.")]
Load = Annotated[
    float, typer.Option(help="Largest share of the idle nodes that jobs ask for; sizes shrink to meet it.")
]


@app.command("windows")
def generate_windows(
    out: Out,
    workload: Trace = None,
    count: Count = 40,
    seed: Seed = 0,
    prefix: Prefix = None,
    period: Period = 60.0,
    skip: Skip = 0,
    min_jobs: MinJobs = 2,
    max_jobs: MaxJobs = None,
    processors_per_node: ProcessorsPerNode = 1,
    allocator: Allocator = "annealing",
    strategy: AllocatorStrategy = "dcas",
    iterations: Iterations = 1000,
    pods: Pods = 10,
    leaves_per_pod: LeavesPerPod = 10,
    nodes_per_leaf: NodesPerLeaf = 10,
    hops: Hops = "2,4,6",
    pairs: PairsCounted = "ordered",
    hop_cost: HopCost = 1000.0,
    topology: TopologyFile = None,
    labels: Labels = None,
    columns: TableColumns = None,
    jobs: Jobs = 100_000,
    min_nodes: MinNodes = 1,
    max_nodes: MaxNodes = 40,
    min_run: MinRun = 10,
    max_run: MaxRun = 1800,
    min_gap: MinGap = 5,
    max_gap: MaxGap = 30,
) -> None:
    """Replay a workload through the window rule of the NSA paper, and write each window as an instance.

    Every period, waiting jobs are taken while they fit the idle nodes: most waiting periods first, then fewest
    nodes. One-node jobs take the first idle nodes; the others are the window. Same seed, same files.
    """
    import numpy as np

    from allocopt.traces.allocators import solver_allocator
    from allocopt.traces.generators import uniform_workload
    from allocopt.traces.windows import windows

    cluster = (
        _fat_tree(pods, leaves_per_pod, nodes_per_leaf, hops, pairs)
        if topology is None
        else read_cluster(topology, labels).tree
    )
    drawing, allocating = np.random.default_rng(seed).spawn(2)
    allocate = solver_allocator(allocator, strategy, iterations, allocating)
    if workload is None:
        trace = uniform_workload(jobs, drawing, (min_nodes, max_nodes), (min_run, max_run), (min_gap, max_gap))
    else:
        trace = read_jobs(workload, columns)
    trace = _prepared(trace, cluster.size, processors_per_node)
    found = windows(
        trace,
        cluster,
        period,
        allocate,
        hop_cost=_checked_hop_cost(hop_cost),
        min_jobs=min_jobs,
        max_jobs=max_jobs,
        skip=skip,
        prefix=file_name(trace.name if prefix is None else prefix),
    )
    write_instances(out, list(islice(found, count)), count, [workload, topology])


@app.command("synthetic")
def generate_synthetic(
    out: Out,
    idle: Idle,
    jobs: WindowJobs,
    count: Count = 1,
    seed: Seed = 0,
    name: Name = "synthetic",
    min_nodes: LeastNodes = 2,
    max_nodes: MostNodes = 40,
    mean_run: MeanRun = 5.0,
    load: Load = 0.95,
    pods: Pods = 10,
    leaves_per_pod: LeavesPerPod = 10,
    nodes_per_leaf: NodesPerLeaf = 10,
    hops: Hops = "2,4,6",
    pairs: PairsCounted = "ordered",
    hop_cost: HopCost = 1000.0,
) -> None:
    """Draw windows of any size: idle nodes in geometric runs, jobs of uniform sizes. Same seed, same files."""
    import numpy as np

    from allocopt.traces.synthetic import synthetic_problem

    topology = _fat_tree(pods, leaves_per_pod, nodes_per_leaf, hops, pairs)
    names = instance_names(name, count)
    problems = [
        synthetic_problem(
            topology,
            idle,
            jobs,
            rng,
            nodes=(min_nodes, max_nodes),
            mean_run=mean_run,
            load=load,
            hop_cost=_checked_hop_cost(hop_cost),
            name=window,
        )
        for window, rng in zip(names, np.random.default_rng(seed).spawn(count), strict=True)
    ]
    write_instances(out, problems, count)


def _fat_tree(pods: int, leaves_per_pod: int, nodes_per_leaf: int, hops: str, pairs: Pairs) -> "FatTree":
    """Make the cluster."""
    from allocopt.cluster.topology import FatTree
    from allocopt.errors import InvalidProblemError, UsageError

    try:
        numbers = tuple(int(hop) for hop in hops.split(","))
    except ValueError:
        raise UsageError(f"--hops is {hops!r}, must be three integers such as 2,4,6") from None
    try:
        return FatTree(pods, leaves_per_pod, nodes_per_leaf, numbers, pairs)
    except InvalidProblemError as error:
        raise UsageError(str(error)) from None


def _checked_hop_cost(hop_cost: float) -> float:
    """Return a hop cost that a problem can have."""
    from allocopt.errors import UsageError
    from allocopt.problems.topology import LARGEST_HOP_COST, LEAST_HOP_COST

    if not LEAST_HOP_COST <= hop_cost <= LARGEST_HOP_COST:
        raise UsageError(f"--hop-cost is {hop_cost}, must be within {LEAST_HOP_COST:g} .. {LARGEST_HOP_COST:g}")
    return hop_cost


def _prepared(workload: "Workload", n_nodes: int, processors_per_node: int) -> "Workload":
    """Bring a workload to whole nodes of the cluster, and say what was dropped and repaired."""
    ready = workload.in_nodes(processors_per_node).fitting(n_nodes)
    for remark in ready.remarks(n_nodes):
        typer.echo(remark, err=True)
    return ready
