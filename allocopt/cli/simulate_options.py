"""Arguments and options of ``allocopt simulate``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from allocopt.cli.options import LARGEST
from allocopt.cli.topology_options import TOPOLOGY_HELP

_RULES, _NODES, _CORES, _SHARING, _OUTPUT = "Rules", "Nodes", "Multicore platform", "Shared cores", "Output"

Trace = Annotated[
    Path,
    typer.Argument(
        readable=False,
        metavar="TRACE",
        help="Workload: .swf[.gz], a Batsim workload .json[.gz], a table .csv[.gz] or sacct -P, or else text with id, "
        "arrival s, run s and nodes; or the name of a trace that fetch-trace has fetched.",
    ),
]
Processors = Annotated[
    int | None, typer.Option(min=1, max=LARGEST, help="Processors of the machine; if not given, as the trace says.")
]
PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        help="Queue order (fcfs, sjf, ljf, smallest-area, largest, wfp3, unicep, f1 to f4, drf, random), also with "
        "backfilling as in sjf+easy; window, optimization, binpacking, random-runnable, a learned one as dras-ppo, "
        "or a policy of another package. Jobs share cores by quotas under asax, static-50, coallocation, and do not "
        "under space-sharing. With --platform, JOBS-NODES: which job (random, first, shortest, smallest, low_mem, "
        "low_mem_bw) on which cores (random, high_gflops, high_cores, high_mem, high_mem_bw, low_power).",
    ),
]
Backfilling = Annotated[
    Literal["none", "first-fit", "easy", "conservative"] | None,
    typer.Option(help="Which jobs may overtake others; if not given, none."),
]
BackfillOrder = Annotated[
    str | None, typer.Option(help="Queue order in which jobs are tried for backfilling; if not given, the policy's.")
]
Compression = Annotated[
    bool,
    typer.Option(
        "--conservative-compression/--no-conservative-compression",
        help="Plan all conservative reservations anew when a job ends early; otherwise they never move.",
    ),
]
Options = Annotated[list[str] | None, typer.Option("--option", help="NAME=VALUE, an option of the policy; repeatable.")]
KillAtLimit = Annotated[
    bool | None,
    typer.Option(
        "--kill-at-limit/--no-kill-at-limit",
        rich_help_panel=_RULES,
        help="End jobs when their estimate is over, or let them run as recorded; if not given, they end then, with "
        "--platform they do not.",
    ),
]
EventOrderName = Annotated[
    Literal["batched", "sequential"],
    typer.Option(
        "--event-order",
        rich_help_panel=_RULES,
        help="Events at one time: all ends, all submissions, one pass; or one event at a time with a pass after each.",
    ),
]
Dependencies = Annotated[
    bool,
    typer.Option(
        "--dependencies/--no-dependencies",
        rich_help_panel=_RULES,
        help="Whether jobs wait for the preceding job that the trace names, and the think time.",
    ),
]
ExactEstimates = Annotated[
    bool, typer.Option("--exact-estimates", rich_help_panel=_RULES, help="Let schedulers know the run times.")
]
SkipOversized = Annotated[
    bool,
    typer.Option("--skip-oversized", rich_help_panel=_RULES, help="Drop and count jobs larger than the machine."),
]
MaxJobs = Annotated[
    int | None, typer.Option(min=1, max=LARGEST, rich_help_panel=_RULES, help="Only the first jobs submitted.")
]
Seed = Annotated[int, typer.Option(min=0, rich_help_panel=_RULES, help="Fixes every random choice.")]
ProcessorsPerNode = Annotated[
    int,
    typer.Option(min=1, max=LARGEST, rich_help_panel=_NODES, help="Processors of the trace per node; whole nodes."),
]
FatTreeShape = Annotated[
    str | None,
    typer.Option(
        "--fat-tree",
        rich_help_panel=_NODES,
        metavar="PODS,LEAVES,NODES",
        help="Place jobs on whole nodes of this fat tree (pods, leaves per pod, nodes per leaf) and measure hop costs.",
    ),
]
TopologyFile = Annotated[
    Path | None,
    typer.Option(
        "--topology",
        readable=False,
        rich_help_panel=_NODES,
        help=f"Place jobs on whole nodes of this cluster and measure hop costs: {TOPOLOGY_HELP}",
    ),
]
AllocatorName = Annotated[
    str | None,
    typer.Option(
        "--allocator", rich_help_panel=_NODES, help="Solver that places the jobs; if not given, the first idle nodes."
    ),
]
Strategy = Annotated[
    str | None,
    typer.Option(rich_help_panel=_NODES, help="Strategy of that solver: scas, dcas or free; if not given, free."),
]
PlatformFile = Annotated[
    Path | None,
    typer.Option(
        "--platform",
        readable=False,
        rich_help_panel=_CORES,
        help="Run an IRMaSim workload on this multicore platform: .toml or .json of this program, .json of IRMaSim, or "
        ".xml of Batsim; FILE#NAME chooses one of several.",
    ),
]
Types = Annotated[
    Path | None,
    typer.Option(readable=False, rich_help_panel=_CORES, help="Folder of IRMaSim's node and processor types."),
]
ExecutionName = Annotated[
    Literal["contention", "baseline"] | None,
    typer.Option(
        "--execution",
        rich_help_panel=_CORES,
        help="Whether cores share memory channels and power; if not given, they do: contention.",
    ),
]
Sharing = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_CORES,
        help="Weight of each further task in the floor of the speed factor; if not given, 1; 0.6 in IRMaSim's code.",
    ),
]
PlacementFile = Annotated[
    Path | None,
    typer.Option(
        "--placement",
        readable=False,
        rich_help_panel=_CORES,
        help="Start jobs where and when this .csv file says (job_id, node, start_s; with duration_s, compare).",
    ),
]
JobsCsv = Annotated[
    Path | None,
    typer.Option(readable=False, rich_help_panel=_OUTPUT, help="Write when every job ran to this .csv[.gz] file."),
]
ScheduleSwf = Annotated[
    Path | None,
    typer.Option("--swf", readable=False, rich_help_panel=_OUTPUT, help="The same as a .swf[.gz] file."),
]
EnergyCsv = Annotated[
    Path | None,
    typer.Option(
        "--energy-csv",
        readable=False,
        rich_help_panel=_OUTPUT,
        help="With --platform: write energy and energy-delay product of jobs, nodes, clusters to this .csv[.gz] file.",
    ),
]
Trimmed = Annotated[
    float, typer.Option(min=0.0, max=0.49, rich_help_panel=_OUTPUT, help="Share of jobs not measured at either end.")
]
StarvationS = Annotated[
    float, typer.Option(min=0.0, rich_help_panel=_OUTPUT, help="Wait beyond which a job counts as starved, in seconds.")
]
Profiles = Annotated[
    Path | None,
    typer.Option(
        "--profiles",
        readable=False,
        rich_help_panel=_SHARING,
        help="For policies under which jobs share cores: what the executables of the trace (column 14 of .swf) ask of "
        "them, as .toml; if not given, 1 to 4 are Montage, BLAST, Statistics, Synthetic of the ASAX paper.",
    ),
]
Explain = Annotated[
    int | None, typer.Option(rich_help_panel=_OUTPUT, metavar="JOB", help="Say why this job waited, pass by pass.")
]
