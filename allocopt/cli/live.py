"""``allocopt live``."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import LARGEST, Json, file_argument, file_option, listed_words
from allocopt.cli.parameters import command_of, names_of

if TYPE_CHECKING:
    from allocopt.live.hosting.hosts import Hosts
    from allocopt.live.hosting.service import HostingService
    from allocopt.live.journal import Journal
    from allocopt.live.relocation.relocator import Relocator
    from allocopt.live.service import Mode, OptIn
    from allocopt.live.slurm import Slurm

_LEAVING_S = 120.0  # longest wait for requeued jobs to leave their nodes
_ANSWER_S = 10.0  # longest wait for an answer of Slurm while guests run

app = typer.Typer(
    no_args_is_help=True,
    help="Choose nodes for the waiting jobs of a live cluster, or run guest programs on its idle cores.",
)


@dataclass(frozen=True, slots=True)
class _ServiceOptions:
    """How the service acts, and on which jobs."""

    observe: Annotated[bool, typer.Option("--observe", help="Only compare starts with the optimum.")] = False
    advise: Annotated[bool, typer.Option("--advise", help="Also write what it would start, and where.")] = False
    pin: Annotated[bool, typer.Option("--pin", help="Also pin opted-in jobs to the advised nodes.")] = False
    order: Annotated[
        str | None,
        typer.Option(metavar="POLICY", help="Reorder opted-in jobs by evolved-priority or evolved-formula."),
    ] = None
    weights: Annotated[
        str | None, typer.Option(metavar="W", help="Use these weights for --order: balanced, slowdown, fair or a file.")
    ] = None
    partition: Annotated[str | None, typer.Option(metavar="P,...", help="Opt in jobs of these partitions.")] = None
    qos: Annotated[str | None, typer.Option(metavar="Q,...", help="Opt in jobs of these QOS.")] = None
    comment: Annotated[str | None, typer.Option(metavar="WORD", help="Opt in jobs with WORD in the comment.")] = None


@dataclass(frozen=True, slots=True)
class _RelocateOptions:
    """Whether and how running jobs make room for waiting gangs."""

    relocate: Annotated[
        str | None,
        typer.Option(
            metavar="HOW", help="Make room for waiting gangs: advise (write plans) or requeue (also carry them out)."
        ),
    ] = None
    within: Annotated[str | None, typer.Option(metavar="LEVEL", help="Fit the gang into one LEVEL: leaf, pod, ...")] = (
        None
    )
    may_stop: Annotated[bool, typer.Option("--may-stop", help="Let jobs also stop and wait, not only move.")] = False
    relocate_after: Annotated[float, typer.Option(min=0, help="Let a gang wait for this many seconds first.")] = 600.0
    relocate_limit: Annotated[float, typer.Option(help="Limit each relocation's solve to this many seconds.")] = 2.0
    step_limit: Annotated[float, typer.Option(help="Limit each step of a plan, s.")] = 120.0
    requeues_per_job: Annotated[
        int, typer.Option(min=1, max=1000, help="Never requeue a job that has restarted this often.")
    ] = 1
    requeues_per_hour: Annotated[
        int, typer.Option(min=1, max=100_000, help="Requeue at most this many jobs per hour.")
    ] = 20


@dataclass(frozen=True, slots=True)
class _Times:
    """Times of the service in seconds."""

    period: Annotated[float, typer.Option(help="Query Slurm at this interval in seconds.")] = 2.0
    time_limit: Annotated[float, typer.Option(help="Limit each window's solve to this many seconds.")] = 0.2
    hold: Annotated[float, typer.Option(help="Release a held job after this many seconds.")] = 30.0
    pin_for: Annotated[float, typer.Option(help="Remove a pin after this many seconds.")] = 10.0
    seconds: Annotated[
        float | None,
        typer.Option("--for", min=0, max=LARGEST, help="Run for this many seconds; if not given, until Ctrl-C."),
    ] = None


def _slurm(
    journal: Annotated[Path, file_option("Write every decision to FILE.", metavar="FILE")],
    asked: _ServiceOptions,
    relocating: _RelocateOptions,
    times: _Times,
    solver: Annotated[str, typer.Option(autocompletion=names_of("solvers"), help="Solve windows with this.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Set the random seed.")] = 0,
    wake: Annotated[Path | None, typer.Option(metavar="FILE", help="Query Slurm at once if this file changes.")] = None,
) -> None:
    """Watch a running Slurm, place its waiting jobs, or make room for them.

    It needs Slurm's commands in PATH. To pin, order or requeue jobs it needs the rights of a Slurm operator.
    """
    from allocopt.errors import UsageError
    from allocopt.live import service
    from allocopt.live.journal import Journal
    from allocopt.live.order import LiveOrder, network_named
    from allocopt.live.slurm import Slurm

    modes = service.Mode.OBSERVE, service.Mode.ADVISE, service.Mode.PIN
    chosen = [mode for mode in modes if getattr(asked, mode)]
    if not chosen and asked.order is not None:
        chosen = [service.Mode.ORDER]
    if not chosen and relocating.relocate is not None:
        chosen = [service.Mode.OBSERVE]
    if len(chosen) != 1:
        raise UsageError("give exactly one of --observe, --advise and --pin; or give --order or --relocate")
    if asked.weights is not None and asked.order is None:
        raise UsageError("--weights needs --order")
    if asked.order is not None and chosen[0] is service.Mode.OBSERVE:
        raise UsageError("--order cannot be combined with --observe; use --advise")
    options = {} if asked.weights is None else {"weights": asked.weights}
    order = None if asked.order is None else LiveOrder(network_named(asked.order, options))
    opted_in = service.OptIn(listed_words(asked.partition), listed_words(asked.qos), asked.comment)
    limits = service.Limits(times.period, times.time_limit, times.hold, times.pin_for)
    acts = chosen[0].acts or relocating.relocate == "requeue"
    relocator_of = _relocator(relocating, chosen[0])
    slurm = Slurm(answer_s=limits.answer) if acts else Slurm()
    with Journal(journal) as file:
        relocator = None if relocator_of is None else relocator_of(slurm, file, opted_in)
        service.Service(slurm, file, chosen[0], opted_in, limits, solver, seed, wake, order, relocator).run(
            times.seconds
        )


def _relocator(asked: _RelocateOptions, mode: "Mode") -> "Callable[[Slurm, Journal, OptIn], Relocator] | None":
    """Return a function that makes the relocator of these options; None if there is no --relocate."""
    from allocopt.errors import UsageError
    from allocopt.live.relocation.plan import RelocationLimits
    from allocopt.live.relocation.relocator import Advise, Relocator
    from allocopt.live.relocation.requeue import Requeue

    if asked.relocate is None:
        given = [name for name, is_given in (("--within", asked.within), ("--may-stop", asked.may_stop)) if is_given]
        if given:
            raise UsageError(f"{given[0]} needs --relocate")
        return None
    limits = RelocationLimits(
        wait=asked.relocate_after, solve=asked.relocate_limit, step=asked.step_limit, per_job=asked.requeues_per_job,
        per_hour=asked.requeues_per_hour, within=asked.within, may_stop=asked.may_stop,
    )  # fmt: skip
    match asked.relocate:
        case "advise":
            return lambda slurm, journal, opted_in: Relocator(journal, opted_in, limits, Advise())
        case "requeue" if mode.acts:
            raise UsageError(
                f"--relocate requeue cannot be combined with --{mode}: both decide when and where jobs start; "
                "use --relocate advise"
            )
        case "requeue":
            return lambda slurm, journal, opted_in: Relocator(
                journal, opted_in, limits, Requeue(slurm, journal, limits)
            )
        case other:
            raise UsageError(f"--relocate is {other!r}, must be advise or requeue")


app.command("slurm")(command_of(_slurm))


@dataclass(frozen=True, slots=True)
class _HostOptions:
    """Which running jobs are hosts: those of Slurm, or processes."""

    slurm: Annotated[
        str | None,
        typer.Option(
            metavar="NODES", help="Use Slurm's jobs on NODES as hosts; NODES are Slurm's names of this machine."
        ),
    ] = None
    process: Annotated[
        str | None, typer.Option(metavar="PID,...", help="Use each of these processes, with its children, as a host.")
    ] = None
    comment: Annotated[
        str | None, typer.Option(metavar="WORD", help="Use only jobs of Slurm with WORD in the comment.")
    ] = None
    limit: Annotated[
        float | None, typer.Option(min=0, help="Expect the processes to end within this many seconds.")
    ] = None


@dataclass(frozen=True, slots=True)
class _HostLimits:
    """How much hosts may be slowed down, and times in seconds."""

    most_slowdown: Annotated[
        float, typer.Option(min=1, help="Pause a guest if the slowdown of its host is above this.")
    ] = 1.5
    rest: Annotated[
        float, typer.Option(min=0, help="After a guest was paused, give its host no guest for this many seconds.")
    ] = 30.0
    period: Annotated[float, typer.Option(min=0.05, help="Check hosts at this interval in seconds.")] = 0.5
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for", min=0, max=LARGEST, help="Run for this many seconds; if not given, until all guests have ended."
        ),
    ] = None


def _guests(
    guests: Annotated[Path, file_argument("TOML file of programs (docs/hosting.md).", metavar="GUESTS")],
    journal: Annotated[Path, file_option("Write every event to FILE.", metavar="FILE")],
    hosts: _HostOptions,
    limits: _HostLimits,
    policy: Annotated[
        str, typer.Option(autocompletion=names_of("policies"), help="Divide cores by this policy: asax or static-50.")
    ] = "asax",
    option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Set an option of the policy.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Set the random seed of the policy.")] = 0,
    as_json: Json = False,
) -> None:
    """Run programs as guests on the cores of running jobs, by control groups.

    A guest is paused when its host slows down or ends, and continues beside another host. When the service ends or is
    killed, its guests are killed. It needs write access to the control groups of the hosts, which root has.
    """
    from allocopt.cli.spec_options import parse_options
    from allocopt.errors import UsageError
    from allocopt.live.hosting.guests import read_guests
    from allocopt.live.hosting.service import HostingService, Limits
    from allocopt.live.journal import Journal
    from allocopt.simulator.quota.scheduler import QuotaScheduler
    from allocopt.simulator.scheduler import get_policy

    found = get_policy(policy, parse_options(option or []))
    if not isinstance(found, QuotaScheduler):
        raise UsageError(f"policy {policy!r} does not divide cores between jobs; asax and static-50 do")
    source, waiting = _hosts_of(hosts), read_guests(guests)
    bearable = Limits(limits.period, most_slowdown=limits.most_slowdown, rest_s=limits.rest)
    with Journal(journal) as file:
        service = HostingService(found, source, waiting, file, bearable, seed)
        try:
            service.run(limits.seconds)
        finally:
            if hasattr(found, "remember"):
                found.remember()
            _print_outcomes(service, as_json)


def _hosts_of(asked: _HostOptions) -> "Hosts":
    from allocopt.cluster.hostlist import expand_hostlist
    from allocopt.errors import UsageError
    from allocopt.live.hosting.hosts import ProcessHosts, SlurmHosts
    from allocopt.live.service import OptIn
    from allocopt.live.slurm import Slurm

    if (asked.slurm is None) == (asked.process is None):
        raise UsageError("give exactly one of --slurm and --process")
    if asked.process is not None:
        if asked.comment is not None:
            raise UsageError("--comment needs --slurm")
        words = listed_words(asked.process)
        for word in words:
            if not word.isdecimal():
                raise UsageError(f"--process: {word!r} is not a process id")
        return ProcessHosts(tuple(map(int, words)), asked.limit or float("inf"))
    if asked.limit is not None:
        raise UsageError("--limit needs --process; jobs of Slurm have their own limits")
    slurm, nodes = Slurm(answer_s=_ANSWER_S), expand_hostlist(asked.slurm or "")
    unknown = sorted(set(nodes) - set(slurm.cluster().topology.nodes))
    if unknown or not nodes:
        fault = f": {unknown[0]} is not a node of this Slurm cluster" if unknown else " names no node"
        raise UsageError(f"--slurm{fault}")
    return SlurmHosts(slurm, tuple(nodes), OptIn(comment=asked.comment))


def _print_outcomes(service: "HostingService", as_json: bool) -> None:
    from allocopt.report.words import aligned_table

    outcomes, slowdowns = service.outcomes(), service.slowdowns
    if as_json:
        for one in outcomes:
            print(json.dumps(asdict(one), allow_nan=False))
        for name, slowdown in slowdowns.items():
            print(json.dumps({"host": name, "slowdown": slowdown}, allow_nan=False))
        return
    rows = [[one.guest, one.state, one.code, one.elapsed_s, one.processor_s, one.pauses] for one in outcomes]
    header = ("guest", "state", "exit code", "s", "processor s", "pauses")
    print(aligned_table(header, rows, (None, None, None, 1, 1, None)))
    for name, slowdown in slowdowns.items():
        print(f"host {name}: slowdown {slowdown:.2f}")


app.command("guests")(command_of(_guests))


@app.command("release")
def _release(
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end of standard input first, as the watchdog does.")
    ] = False,
) -> None:
    """Release all jobs that a service has held, pinned or reordered, and end its reservations."""
    import signal

    from allocopt.live.service import leaving, release
    from allocopt.live.slurm import Slurm

    slurm = Slurm()
    if wait:
        # Ctrl-C ends the service. Then standard input ends, and this watchdog goes on to release jobs.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdin.buffer.read()
    released: list[str] = []
    # Requests that the killed service had sent may still take effect, and jobs that it requeued may still be leaving.
    end, is_last = time.monotonic() + _LEAVING_S, not wait
    while True:
        released += _when_it_answers(lambda: release(slurm), wait)
        if is_last:
            break
        time.sleep(1)
        is_last = time.monotonic() > end or not _when_it_answers(lambda: leaving(slurm), wait)
    print(f"released: {', '.join(released) if released else 'no job'}")


def _when_it_answers(asked: "Callable[[], list[str]]", wait: bool) -> list[str]:
    """Return Slurm's answer; with ``wait``, try for a minute while Slurm does not answer."""
    from allocopt.live.slurm import SlurmError

    for left in reversed(range(30)):
        try:
            return asked()
        except SlurmError:
            if not wait or not left:
                raise
            time.sleep(2)
    raise AssertionError("the last try returns or raises")


@app.command("replay")
def _replay(
    journal: Annotated[Path, file_argument("Journal of a service.", metavar="JOURNAL")], as_json: Json = False
) -> None:
    """Verify every answer of a journal again, and add up what the service saved.

    The exit code is 3 if an answer is wrong.
    """
    from allocopt.errors import BadFileError
    from allocopt.live.journal import Replay

    found = Replay.of(journal)
    row = {**asdict(found), "wrong": len(found.wrong), "regret": found.regret}
    if as_json:
        print(json.dumps(row, allow_nan=False))
    else:
        gain = 100 * (1 - found.objective / found.greedy) if found.greedy else 0.0
        print(f"windows {found.windows}, proved {found.proved}, hop cost {gain:.1f} % below the greedy rule's")
        print(f"pinned {found.pinned}, started as pinned {found.as_pinned}, unpinned {found.unpinned}")
        if found.relocations:
            made = f"done {found.relocated}, dropped {found.relocations_dropped}, jobs requeued {found.requeued}"
            print(f"relocations planned {found.relocations}, proved {found.relocations_proved}, {made}")
        print(f"starts judged {found.starts}, proved {found.starts_proved}, regret {100 * found.regret:.1f} %")
    for one in found.wrong:
        print(f"allocopt: {journal}: line {one.line}: {one.fault}", file=sys.stderr)
    if found.wrong:
        raise BadFileError(f"{journal}: {len(found.wrong)} answers are wrong")


@app.command("status")
def _status(
    journal: Annotated[Path, file_argument("Journal of a service.", metavar="JOURNAL")], as_json: Json = False
) -> None:
    """Show the state of a service on a screen of 80 x 24, read only from its journal."""
    from allocopt.live.view import Follower, status_lines

    view = Follower(journal).view
    if as_json:
        print(json.dumps(view.summary(time.time()), allow_nan=False))
    else:
        print("\n".join(status_lines(view, time.time())))


@app.command("page")
def _page(
    journal: Annotated[Path, file_argument("Journal of a service.", metavar="JOURNAL")],
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Listen on this port; 0 takes a free one.")] = 8642,
) -> None:
    """Serve a page about a service, read only from its journal, and metrics for Prometheus at /metrics.

    It listens only on 127.0.0.1, accepts no changes, and runs until Ctrl-C.
    """
    from allocopt.live.page import LivePage, PageServer
    from allocopt.live.view import Follower

    with PageServer(LivePage(Follower(journal)), port) as server:
        print(f"{server} until Ctrl-C; metrics at /metrics", flush=True)
        server.serve_forever()
