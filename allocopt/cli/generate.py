"""``allocopt generate``: windows, knapsacks and co-allocations as instance files, and whole workloads."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allocopt.cli import generate_window, generate_workload
from allocopt.cli.options import LARGEST
from allocopt.cli.topology_options import TOPOLOGY_HELP, Labels, TableColumns, read_cluster, read_jobs
from allocopt.cli.writing import file_name, instance_names, write_instances
from allocopt.cluster.options import HopCost, Hops, LeavesPerPod, NodesPerLeaf, PairsCounted, Pods, fat_tree

if TYPE_CHECKING:
    from allocopt.problems.base import Problem
    from allocopt.problems.kind import Generator
    from allocopt.traces.workload import Workload

app = typer.Typer(
    no_args_is_help=True,
    help="Generate instances, windows of a workload or synthetic ones, knapsacks and co-allocations, and workloads.",
)
app.command("workload")(generate_workload.command)
app.command("window")(generate_window.command)

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

TopologyFile = Annotated[
    Path | None,
    typer.Option(
        "--topology", readable=False, rich_help_panel="Cluster", help=f"Instead of a fat tree: {TOPOLOGY_HELP}"
    ),
]
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
DrawnPrefix = Annotated[
    str, typer.Option("--prefix", "--name", help="Name of the instance; of several, PREFIX-000, ...")
]
DrawnCount = Annotated[int, typer.Option(min=1, max=_MOST, help="Number of instances.")]
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


def add_commands() -> None:
    """Add a command for everything that draws problems of a kind."""
    from allocopt.problems.kind import get_kind, kind_names

    known = {command.name for command in app.registered_commands}
    for name in kind_names():
        for command, draw in get_kind(name).generators.items():
            if command in known:
                continue
            app.command(command, help=draw.__doc__)(_generator(command, draw))


def _generator(prefix: str, draw: "Generator[Problem]") -> Callable[..., None]:
    """Make a command of what draws one problem: it draws several, and writes them."""

    def command(out: Path, count: int, seed: int, prefix: str, **options: Any) -> None:
        import numpy as np

        from allocopt.errors import InvalidProblemError, UsageError

        names = instance_names(prefix, count)
        rngs = np.random.default_rng(seed).spawn(count)
        try:
            problems = [draw(each, rng, **options) for each, rng in zip(names, rngs, strict=True)]
        except InvalidProblemError as error:
            raise UsageError(str(error)) from None
        write_instances(out, problems, count)

    own = [
        parameter.replace(kind=Parameter.KEYWORD_ONLY)
        for parameter in signature(draw, eval_str=True).parameters.values()
        if parameter.name not in ("name", "rng")
    ]
    shared = (
        ("out", Out, Parameter.empty),
        ("count", DrawnCount, 1),
        ("seed", Seed, 0),
        ("prefix", DrawnPrefix, prefix),
    )
    common = [Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=kind) for name, kind, value in shared]
    command.__signature__ = Signature([common[0], *own, *common[1:]])  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in [*common, *own]}
    return command


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

    from allocopt.problems.topology.generate import checked_hop_cost
    from allocopt.simulator.window import solver_allocator, windows
    from allocopt.traces.generators import uniform_workload

    cluster = (
        fat_tree(pods, leaves_per_pod, nodes_per_leaf, hops, pairs)
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
        hop_cost=checked_hop_cost(hop_cost),
        min_jobs=min_jobs,
        max_jobs=max_jobs,
        skip=skip,
        prefix=file_name(trace.name if prefix is None else prefix),
    )
    write_instances(out, list(islice(found, count)), count, [workload, topology])


def _prepared(workload: "Workload", n_nodes: int, processors_per_node: int) -> "Workload":
    """Bring a workload to whole nodes of the cluster, and say what was dropped and repaired."""
    ready = workload.in_nodes(processors_per_node).fitting(n_nodes)
    for remark in ready.remarks(n_nodes):
        typer.echo(remark, err=True)
    return ready
