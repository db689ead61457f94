"""``allocopt generate``: make instance files of every kind, and whole workloads."""

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
    help="Generate workloads, and instances of every kind: from a trace, from a cluster's files, or synthetic.",
)

_MOST = 10_000_000
"""Largest number of jobs or windows, so that a typing error does not use up the memory."""
_NODES = (1, 40)
"""Range of the number of nodes of a job in the NSA paper."""
_LIMIT, _BETWEEN_S = 1.25, 120.0
"""Time limit divided by run time, and mean seconds between submissions, as in the reproduced tables of ASAX."""

Out = Annotated[
    Path, file_option("Write a .jsonl[.gz] or .json[.gz] file, or a folder with a file per instance.", metavar="OUT")
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Set the seed of all random choices.")]


@dataclass(frozen=True, slots=True)
class _ReplayOptions:
    workload: Annotated[Path | None, file_option("Replay this trace; if not given, draw one.", metavar="FILE")] = None
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Make at most N windows.")] = 40
    seed: Seed = 0
    prefix: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name windows NAME-000, ...; default: the trace.")
    ] = None
    period: Annotated[float, typer.Option(min=0.001, metavar="S", help="Set the length of a period, s.")] = 60.0
    skip: Annotated[int, typer.Option(min=0, metavar="N", help="Skip the first N windows.")] = 0
    min_jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Take windows with at least N jobs of 2 or more nodes.")
    ] = 2
    max_jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Take windows with at most N such jobs.")] = (
        None
    )
    processors_per_node: Annotated[int, typer.Option(min=1, metavar="N", help="Count N processors as a node.")] = 1
    allocator: Annotated[str, typer.Option(metavar="NAME", help="Solve windows with this.")] = "annealing"
    strategy: Annotated[str, typer.Option(metavar="KIND", help="Choose scas, dcas or free.")] = "dcas"
    iterations: Annotated[int, typer.Option(min=1, metavar="N", help="Limit steps per window.")] = 1000


@dataclass(frozen=True, slots=True)
class _MachineAndJobs:
    hop_cost: HopCost = 1000.0
    topology: Annotated[Path | None, file_option("Use this topology, not a fat tree.", metavar="FILE")] = None
    labels: Labels = None
    columns: TableColumns = None
    strict: Strict = False
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Draw N jobs if no trace is given.")] = 100_000
    min_nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Draw at least N nodes per job.")] = 1
    max_nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Draw at most N nodes per job.")] = 40
    min_run: Annotated[int, typer.Option(min=1, metavar="N", help="Draw run times from N s.")] = 10
    max_run: Annotated[int, typer.Option(min=1, metavar="N", help="Draw run times up to N s.")] = 1800
    min_gap: Annotated[int, typer.Option(min=0, metavar="N", help="Draw arrivals at least N s apart.")] = 5
    max_gap: Annotated[int, typer.Option(min=0, metavar="N", help="Draw arrivals at most N s apart.")] = 30


def add_commands() -> None:
    """Add a command for every generator of a kind of problem."""
    from allocopt.problems.kind import working_kinds

    # `app` exists once per process, but every call of `program` calls this function again.
    known = {command.name for command in app.registered_commands}
    for kind in working_kinds():
        for command, draw in kind.generators.items():
            if command not in known:
                app.command(command, help=draw.__doc__)(_generator(command, draw))


def _generator(prefix: str, draw: "Generator[Problem]") -> Callable[..., None]:
    def command(
        out: Out,
        count: Annotated[int, typer.Option(min=1, max=_MOST, metavar="N", help="Make N instances.")] = 1,
        seed: Seed = 0,
        prefix: Annotated[
            str,
            typer.Option("--prefix", "--name", metavar="NAME", help="Name the instance; several are NAME-000, ..."),
        ] = prefix,
        **options: Any,
    ) -> None:
        import numpy as np

        from allocopt.errors import InvalidProblemError, UsageError

        names = [prefix] if count == 1 else [f"{prefix}-{number:03d}" for number in range(count)]
        # One random stream per instance, so that the first ones do not depend on --count.
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

    Once per period, waiting jobs are taken while they fit the idle nodes: the
    longest waiting first, then those with fewest nodes. Each window is an instance.
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
            fault = "has blocks or several trees, not one tree; use `allocopt generate window` for it"
            raise UsageError(f"--topology: {given.topology} {fault}")
        topology = named.tree
    # Two random streams, so that the jobs do not depend on what the allocator draws.
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
    topology: Annotated[Path | None, file_option(f"Read {TOPOLOGY_HELP}", "--topology", metavar="FILE")] = None,
    cluster: Annotated[Path | None, file_option(f"Read {CLUSTER_HELP}", "--cluster", metavar="FILE,...")] = None,
    idle: Annotated[
        str | None,
        typer.Option(
            metavar="HOSTLIST",
            help='Take these as idle nodes, as `sinfo -h -t idle -o "%N"` prints them; default: those free in FILE.',
        ),
    ] = None,
    all_free: Annotated[bool, typer.Option("--all-free", help="Treat all nodes as idle.")] = False,
    include_unavailable: IncludeUnavailable = None,
    job: Annotated[list[str] | None, typer.Option(metavar="ID=NODES", help="Add a waiting job; repeatable.")] = None,
    queue: Annotated[
        Path | None,
        file_option(
            "Read waiting jobs, as `scontrol show job` or `squeue` prints them, also with --json; or an id and a "
            'number of nodes per line, as `squeue -h -t PD -o "%i %D"` prints. A range such as 4-8 counts as 4.'
        ),
    ] = None,
    labels: Labels = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name the instance; if not given, it is named after the queue file or, without one, the topology file."
        ),
    ] = None,
    hop_cost: HopCost = 1000.0,
) -> None:
    """Make an instance of the waiting jobs and the idle nodes.

    Jobs that may not start now, or that ask for something that is not modelled, are left out and counted. The others
    are taken in order while they fit. If jobs share nodes, or if the topology has blocks or several trees, all jobs are
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
            help="Choose the model. lublin: Lublin and Feitelson, fitted to logs of parallel machines, with a daily "
            "cycle; nsa: uniform, from the NSA paper; asax: the queue of the ASAX paper, 15 jobs of four workflows, "
            "repeated."
        ),
    ] = "lublin",
    jobs: Annotated[int, typer.Option(min=1, max=_MOST, help="Draw this many jobs.")] = 10_000,
    processors: Annotated[
        int,
        typer.Option(
            min=1,
            max=LARGEST,
            help="Set the number of processors, at least 10 (asax: 64); for nsa, the number of nodes, at least 40.",
        ),
    ] = 1000,
    seed: Seed = 0,
) -> None:
    """Draw jobs from a workload model: their sizes, run times and arrivals. The same seed gives the same file.

    Estimates equal the run times; those of asax are 1.25 times as long, and its executables are numbered 1 to 4.
    """
    from dataclasses import replace

    import numpy as np

    from allocopt.cli.convert import write_jobs
    from allocopt.errors import UsageError
    from allocopt.traces.applications import CLUSTER_SIZES, JOBS, asax_queue, queue_workload
    from allocopt.traces.generators import lublin_workload, uniform_workload
    from allocopt.traces.reading import format_of

    # Report a wrong suffix before drawing many jobs.
    trace_format, rng = format_of(out), np.random.default_rng(seed)
    least, why = {
        "nsa": (_NODES[1], "up to that many nodes"),
        "asax": (CLUSTER_SIZES[0], "up to that many processors"),
    }.get(model, (0, ""))
    if processors < least:
        raise UsageError(f"--processors is {processors}, must be at least {least}: jobs of {model} ask for {why}")
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
        raise UsageError(
            f"{name!r} cannot name instances and their files: give a printable name without slashes or a leading dot"
        )
    return name


def _write_instances(
    out: Path, problems: "Sequence[Problem]", asked: int, inputs: "Sequence[Path | None]" = ()
) -> None:
    from allocopt.errors import UsageError
    from allocopt.problems.instances import write_problems

    if not problems:
        raise UsageError("the workload has no such window: change --min-jobs or --max-jobs, or reduce --skip")
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
