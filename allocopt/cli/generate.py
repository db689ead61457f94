"""``allocopt generate``: windows, knapsacks, co-allocations and placements as instance files, and whole workloads."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from allocopt.cli.options import (
    CLUSTER_HELP,
    LARGEST,
    TOPOLOGY_HELP,
    IncludeUnavailable,
    Labels,
    Strict,
    TableColumns,
    check_files_differ,
    file_argument,
    file_option,
    listed,
    read_cluster,
    read_topology,
    read_whole_nodes,
)
from allocopt.cli.parameters import command_of, gathered, parameters_of
from allocopt.cluster.options import FatTreeOptions, HopCost

if TYPE_CHECKING:
    from allocopt.cluster.slurm_jobs import Queue
    from allocopt.cluster.topology import Topology
    from allocopt.problems.base import Problem
    from allocopt.problems.kind import Generator

app = typer.Typer(
    no_args_is_help=True,
    help="Generate windows of a workload or synthetic ones, knapsacks, co-allocations, placements and workloads.",
)

_MOST = 10_000_000
"""Largest number of jobs or windows, so that a typing error does not exhaust the memory."""
_NODES = (1, 40)
"""Range of the number of nodes of a job in the NSA paper."""
_LIMIT, _BETWEEN_S = 1.25, 120.0
"""Limit over the run time, and mean gap between submissions, with which the tables of the ASAX paper are reproduced."""

Out = Annotated[
    Path, file_option("Write a .jsonl or .json file, also .gz, or a folder with a file for each.", metavar="OUT")
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Fixes every random choice.")]


@dataclass(frozen=True, slots=True)
class _ReplayOptions:
    workload: Annotated[Path | None, file_option("Trace to replay; if not given, one is drawn.", metavar="FILE")] = None
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Number of windows.")] = 40
    seed: Seed = 0
    prefix: Annotated[str | None, typer.Option(metavar="NAME", help="Names are NAME-000; else the trace's.")] = None
    period: Annotated[float, typer.Option(min=0.001, metavar="S", help="Length of a period, s.")] = 60.0
    skip: Annotated[int, typer.Option(min=0, metavar="N", help="Windows left out first.")] = 0
    min_jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Least jobs of 2 or more nodes.")] = 2
    max_jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Most of them.")] = None
    processors_per_node: Annotated[int, typer.Option(min=1, metavar="N", help="Of the trace.")] = 1
    allocator: Annotated[str, typer.Option(metavar="NAME", help="Solver of each window.")] = "annealing"
    strategy: Annotated[str, typer.Option(metavar="KIND", help="Its strategy: scas, dcas, free.")] = "dcas"
    iterations: Annotated[int, typer.Option(min=1, metavar="N", help="Its steps per window.")] = 1000


@dataclass(frozen=True, slots=True)
class _MachineAndJobs:
    hop_cost: HopCost = 1000.0
    topology: Annotated[Path | None, file_option("Topology to use instead of a fat tree.", metavar="FILE")] = None
    labels: Labels = None
    columns: TableColumns = None
    strict: Strict = False
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Jobs of a drawn workload.")] = 100_000
    min_nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Least nodes of its jobs.")] = 1
    max_nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Most nodes.")] = 40
    min_run: Annotated[int, typer.Option(min=1, metavar="N", help="Shortest run time, s.")] = 10
    max_run: Annotated[int, typer.Option(min=1, metavar="N", help="Longest run time, s.")] = 1800
    min_gap: Annotated[int, typer.Option(min=0, metavar="N", help="Shortest time between arrivals.")] = 5
    max_gap: Annotated[int, typer.Option(min=0, metavar="N", help="Longest, s.")] = 30


def add_commands() -> None:
    """Add a command for every generator of a kind of problem."""
    from allocopt.problems.kind import working_kinds

    # The application is one object per process, and every `program` made in it comes here.
    known = {command.name for command in app.registered_commands}
    for kind in working_kinds():
        for command, draw in kind.generators.items():
            if command not in known:
                app.command(command, help=draw.__doc__)(_generator(command, draw))


def _generator(prefix: str, draw: "Generator[Problem]") -> Callable[..., None]:
    def command(
        out: Out,
        count: Annotated[int, typer.Option(min=1, max=_MOST, metavar="N", help="Number of instances.")] = 1,
        seed: Seed = 0,
        prefix: Annotated[
            str,
            typer.Option("--prefix", "--name", metavar="NAME", help="Name of the instance; of several, NAME-000, ..."),
        ] = prefix,
        **options: Any,
    ) -> None:
        import numpy as np

        from allocopt.errors import InvalidProblemError, UsageError

        names = [prefix] if count == 1 else [f"{prefix}-{number:03d}" for number in range(count)]
        # A stream for each, so that the first of many are those of a smaller number.
        rngs = np.random.default_rng(seed).spawn(count)
        try:
            own = gathered(draw, options)
            problems = [draw(_file_name(each), rng, **own) for each, rng in zip(names, rngs, strict=True)]
        except InvalidProblemError as error:
            raise UsageError(str(error)) from None
        _write_instances(out, problems, count)

    file, *shared, _ = parameters_of(command)
    return command_of(
        command, [file, *(one for one in parameters_of(draw) if one.name not in ("name", "rng")), *shared]
    )


def _windows(out: Out, replay: _ReplayOptions, tree: FatTreeOptions, given: _MachineAndJobs) -> None:
    """Replay a workload through the window rule of the NSA paper.

    Every period, waiting jobs are taken while they fit the idle nodes: most
    waiting periods first, then fewest nodes. Each window is an instance.
    """
    import numpy as np

    from allocopt.errors import UsageError
    from allocopt.problems.topology.generate import checked_hop_cost
    from allocopt.simulator.window import solver_allocator, windows
    from allocopt.traces.generators import uniform_workload
    from allocopt.traces.reading import read_workload

    for name, value in {**asdict(replay), **asdict(given)}.items():
        most = _MOST if name in ("count", "jobs") else LARGEST
        if name != "seed" and isinstance(value, int) and value > most:
            raise UsageError(f"--{name.replace('_', '-')} is {value}, must be at most {most}")
    topology: Topology = tree.tree()
    if given.topology is not None:
        named = read_topology(given.topology, given.labels)
        if not named.is_plain:
            fault = "is not a tree that jobs may span: generate window makes windows on blocks and forests"
            raise UsageError(f"--topology: {given.topology} {fault}")
        topology = named.tree
    # A stream for each, so that the jobs are the same whatever the allocator draws.
    drawing, allocating = np.random.default_rng(replay.seed).spawn(2)
    allocate = solver_allocator(replay.allocator, replay.strategy, replay.iterations, allocating)
    if replay.workload is None:
        ranges = (given.min_nodes, given.max_nodes), (given.min_run, given.max_run), (given.min_gap, given.max_gap)
        trace = uniform_workload(given.jobs, drawing, *ranges)
    else:
        trace = read_workload(replay.workload, given.columns, strict=given.strict)
    ready = trace.in_nodes(replay.processors_per_node).fitting(topology.size)
    for remark in ready.remarks(topology.size):
        typer.echo(remark, err=True)
    how = {name: getattr(replay, name) for name in ("min_jobs", "max_jobs", "skip")}
    prefix, cost = _file_name(ready.name if replay.prefix is None else replay.prefix), checked_hop_cost(given.hop_cost)
    found = windows(ready, topology, replay.period, allocate, hop_cost=cost, prefix=prefix, **how)
    made = list(islice(found, replay.count))
    _write_instances(out, made, replay.count, [replay.workload, given.topology])


def _window(
    out: Out,
    topology: Annotated[Path | None, file_option(TOPOLOGY_HELP, "--topology", metavar="FILE")] = None,
    cluster: Annotated[Path | None, file_option(CLUSTER_HELP, "--cluster", metavar="FILE,...")] = None,
    idle: Annotated[
        str | None,
        typer.Option(
            metavar="HOSTLIST",
            help='Idle nodes, as `sinfo -h -t idle -o "%N"` prints them; if not given, free nodes of the files.',
        ),
    ] = None,
    all_free: Annotated[bool, typer.Option("--all-free", help="Treat all nodes as idle.")] = False,
    include_unavailable: IncludeUnavailable = None,
    job: Annotated[list[str] | None, typer.Option(metavar="ID=NODES", help="A waiting job; repeatable.")] = None,
    queue: Annotated[
        Path | None,
        file_option(
            "Waiting jobs, as `scontrol show job` or `squeue` prints them, also with --json; or an id and a number of "
            'nodes per line, as `squeue -h -t PD -o "%i %D"` prints. A range of nodes, 4-8, counts as the smallest.'
        ),
    ] = None,
    labels: Labels = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the instance; if not given, the name of the queue file, or else of the topology file."
        ),
    ] = None,
    hop_cost: HopCost = 1000.0,
) -> None:
    """Make an instance of the waiting jobs and the idle nodes.

    Jobs that may not start now, or that ask for something that is not modelled, are left out and counted. The others
    are taken in order while they fit. If jobs share nodes, or the topology has blocks or several trees, all others are
    taken, and the solver leaves out jobs that do not fit.
    """
    import numpy as np

    from allocopt.cluster.hostlist import expand_hostlist
    from allocopt.cluster.slurm_jobs import startable, with_running
    from allocopt.errors import InvalidProblemError, UsageError
    from allocopt.files.reading import without_compression
    from allocopt.problems.placement.generate import snapshot

    waiting = _queued(queue, job or [])
    named = None if queue is None else Path(without_compression(queue.name)).stem
    for remark in waiting.remarks:
        typer.echo(f"{name or named or '--job'}: {remark}", err=True)
    if not waiting.jobs:
        raise UsageError("no job waits: give jobs with --job ID=NODES, or a file of jobs with --queue")
    source = cluster or topology
    if source is None or (cluster and topology):
        raise UsageError("give the nodes with either --cluster or --topology")
    if cluster:
        machine = read_cluster(source, labels, include_unavailable)
    else:
        machine = read_whole_nodes(source, labels, include_unavailable)
    told_running: list[str] = []
    if idle is None and not all_free:
        machine, told_running = with_running(machine, waiting.running)
    free = machine.free
    try:
        if idle is not None or all_free:
            names = machine.topology.nodes if idle is None else dict.fromkeys(expand_hostlist(idle))
            chosen_nodes = machine.topology.numbers(names)
            free = np.zeros_like(machine.capacity)
            free[chosen_nodes] = machine.capacity[chosen_nodes]
    except InvalidProblemError as error:
        raise UsageError(f"--idle: {source}: {error.fault}") from None
    chosen = _file_name(name if name is not None else named or Path(without_compression(source.name)).stem)
    found, remarks = startable(waiting.jobs)
    if not found:
        raise UsageError("; ".join(("no job may start", *remarks)))
    problem, told = snapshot(machine, found, free, hop_cost, chosen)
    for remark in (*told_running, *remarks, *told):
        typer.echo(f"{chosen}: {remark}", err=True)
    _write_instances(out, [problem], 1, [*listed(source), queue])


def _queued(queue: Path | None, jobs: "Sequence[str]") -> "Queue":
    """Return the jobs of a file, and those given as ``ID=NODES``."""
    from allocopt.cluster.queue_files import add_listed, read_queue
    from allocopt.cluster.slurm_jobs import ListedJobs, Queue
    from allocopt.cluster.topology import LARGEST_CLUSTER
    from allocopt.errors import UsageError

    found = Queue() if queue is None else read_queue(queue)
    given = ListedJobs(LARGEST_CLUSTER, jobs={job.id: job for job in found.jobs})
    for text in jobs:
        add_listed(given, text.replace("=", " "), f"--job {text}", UsageError)
    return Queue(tuple(given.jobs.values()), (*found.remarks, *given.remarks()), found.running)


def _workload(
    out: Annotated[
        Path, file_argument("File to write: .swf[.gz], .json[.gz] for Batsim, or .txt[.gz].", metavar="OUT")
    ],
    model: Annotated[
        Literal["lublin", "nsa", "asax"],
        typer.Option(
            help="lublin: of Lublin and Feitelson, fitted to logs of parallel machines, with a daily cycle; nsa: "
            "uniform, of the NSA paper; asax: the queue of that paper, 15 jobs of four workflows again and again."
        ),
    ] = "lublin",
    jobs: Annotated[int, typer.Option(min=1, max=_MOST, help="Number of jobs.")] = 10_000,
    processors: Annotated[
        int,
        typer.Option(
            min=1,
            max=LARGEST,
            help="Processors of the machine, at least 10; of nsa its nodes, at least 40; of asax at least 64.",
        ),
    ] = 1000,
    seed: Seed = 0,
) -> None:
    """Draw jobs from a workload model: their sizes, run times and arrivals. Same seed, same file.

    Estimates are the run times, of asax 1.25 times as long; its executables are numbered 1 to 4.
    """
    from dataclasses import replace

    import numpy as np

    from allocopt.cli.convert import write_jobs
    from allocopt.errors import UsageError
    from allocopt.traces.applications import CLUSTER_SIZES, JOBS, asax_queue, queue_workload
    from allocopt.traces.generators import lublin_workload, uniform_workload
    from allocopt.traces.reading import format_of

    # Report a wrong ending before drawing many jobs.
    trace_format, rng = format_of(out), np.random.default_rng(seed)
    least, why = {"nsa": (_NODES[1], "up to as many"), "asax": (CLUSTER_SIZES[0], "as many")}.get(model, (0, ""))
    if processors < least:
        raise UsageError(f"--processors is {processors}, must be at least {least}: jobs of {model} have {why}")
    if model == "lublin":
        workload = lublin_workload(jobs, processors, rng)
    elif model == "nsa":
        workload = uniform_workload(jobs, rng, _NODES, name="nsa")
    else:
        # Whole queues are drawn, as in the paper, and the last one is cut.
        queue = asax_queue(rng, -(-jobs // JOBS), _LIMIT, between_s=_BETWEEN_S)
        workload = queue_workload(queue[:jobs], "asax")
    write_jobs(trace_format, out, replace(workload, machine_processors=processors))


def _file_name(name: str) -> str:
    from allocopt.errors import UsageError

    if not name or "/" in name or "\\" in name or name.startswith(".") or not name.isprintable():
        raise UsageError(f"{name!r} cannot name instances and their files: give another name without slashes")
    return name


def _write_instances(
    out: Path, problems: "Sequence[Problem]", asked: int, inputs: "Sequence[Path | None]" = ()
) -> None:
    from allocopt.errors import UsageError
    from allocopt.problems.instances import write_problems

    if not problems:
        raise UsageError("the workload gives no such window: allow other numbers of jobs, or skip fewer windows")
    if out.name.removesuffix(".gz").endswith((".json", ".jsonl")):
        check_files_differ(out, read=inputs)
        write_problems(out, problems)
    elif out.suffix and not out.is_dir():
        raise UsageError(
            f"--out {out} must end in .jsonl, .json or these with .gz, or be a folder's name without a dot"
        )
    else:
        paths = [out / f"{problem.name}.json" for problem in problems]
        check_files_differ(*paths, read=inputs)
        for path, problem in zip(paths, problems, strict=True):
            write_problems(path, [problem])
    fewer = "" if len(problems) == asked else f", fewer than the {asked} asked for: the workload has no more"
    typer.echo(f"{out}: instances written: {len(problems)}{fewer}", err=True)


app.command("workload")(_workload)
app.command("window")(_window)
app.command("windows")(command_of(_windows))
