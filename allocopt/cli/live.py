"""``allocopt live``."""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from allocopt.cli.options import LARGEST, Json, file_argument, file_option, listed_words
from allocopt.cli.parameters import command_of, names_of

app = typer.Typer(no_args_is_help=True, help="Choose the nodes of jobs on a cluster that runs.")


@dataclass(frozen=True, slots=True)
class _ServiceOptions:
    """How the service acts, and on which jobs."""

    observe: Annotated[bool, typer.Option("--observe", help="Only judge what Slurm chooses.")] = False
    advise: Annotated[bool, typer.Option("--advise", help="Also write what would be chosen.")] = False
    pin: Annotated[bool, typer.Option("--pin", help="Also choose, for jobs that opted in.")] = False
    order: Annotated[
        str | None,
        typer.Option(metavar="POLICY", help="Order of jobs that opted in: evolved-priority or evolved-formula."),
    ] = None
    weights: Annotated[
        str | None, typer.Option(metavar="W", help="Its weights: balanced, slowdown, fair or a file.")
    ] = None
    partition: Annotated[str | None, typer.Option(metavar="P,...", help="Jobs of these partitions opt in.")] = None
    qos: Annotated[str | None, typer.Option(metavar="Q,...", help="Jobs of these qualities of service.")] = None
    comment: Annotated[str | None, typer.Option(metavar="WORD", help="Jobs with the word in their comment.")] = None


@dataclass(frozen=True, slots=True)
class _Times:
    """Times of the service in seconds."""

    period: Annotated[float, typer.Option(help="Seconds between two looks.")] = 2.0
    time_limit: Annotated[float, typer.Option(help="Seconds for each window.")] = 0.2
    hold: Annotated[float, typer.Option(help="Seconds after which a held job is free by itself.")] = 30.0
    pin_for: Annotated[float, typer.Option(help="Seconds after which a pin ends.")] = 10.0
    seconds: Annotated[
        float | None,
        typer.Option("--for", min=0, max=LARGEST, help="Serve for so many seconds; if not given, until Ctrl-C."),
    ] = None


def _slurm(
    journal: Annotated[Path, file_option("Where every decision is written, with its certificate.", metavar="FILE")],
    asked: _ServiceOptions,
    times: _Times,
    solver: Annotated[
        str, typer.Option(autocompletion=names_of("solvers"), help="Name of a solver of windows.")
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Fixes every random choice.")] = 0,
    wake: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Look at once when it changes (touched by EpilogSlurmctld).")
    ] = None,
) -> None:
    """Watch a Slurm, and place its waiting jobs.

    It needs Slurm's commands in PATH; to pin, the rights of an operator.
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
    if len(chosen) != 1:
        raise UsageError("one of --observe, --advise and --pin must be given, or --order")
    if asked.weights is not None and asked.order is None:
        raise UsageError("weights are those of an order: give --order")
    if asked.order is not None and chosen[0] is service.Mode.OBSERVE:
        raise UsageError("--order does not go with --observe: give --advise")
    options = {} if asked.weights is None else {"weights": asked.weights}
    order = None if asked.order is None else LiveOrder(network_named(asked.order, options))
    opted_in = service.OptIn(listed_words(asked.partition), listed_words(asked.qos), asked.comment)
    limits = service.Limits(times.period, times.time_limit, times.hold, times.pin_for)
    slurm = Slurm(answer_s=limits.answer) if chosen[0].acts else Slurm()
    with Journal(journal) as file:
        service.Service(slurm, file, chosen[0], opted_in, limits, solver, seed, wake, order).run(times.seconds)


app.command("slurm")(command_of(_slurm))


@app.command("release")
def _release(
    wait: Annotated[
        bool, typer.Option("--wait", help="First wait for the end of standard input, as a watchdog does.")
    ] = False,
) -> None:
    """End everything that is held and pinned here; what a service does at its end."""
    import signal

    from allocopt.live.service import release
    from allocopt.live.slurm import Slurm, SlurmError

    slurm = Slurm()
    if wait:
        # Ctrl-C ends the service, and that its watchdog.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdin.buffer.read()
    released = []
    # What a service was telling Slurm when it was killed comes a moment later.
    for pause_s in (0, 1) if wait else (0,):
        time.sleep(pause_s)
        for left in reversed(range(30)):
            try:
                released += release(slurm)
                break
            except SlurmError:
                # A slurmctld that restarts is waited for.
                if not wait or not left:
                    raise
                time.sleep(2)
    print(f"released: {', '.join(released) if released else 'no job'}")


@app.command("replay")
def _replay(
    journal: Annotated[Path, file_argument("Journal of a service.", metavar="JOURNAL")], as_json: Json = False
) -> None:
    """Verify every answer of a journal again, and add up what was won.

    Ends with 3 if an answer does not hold.
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
        print(f"starts judged {found.starts}, proved {found.starts_proved}, regret {100 * found.regret:.1f} %")
    for one in found.wrong:
        print(f"allocopt: {journal}: line {one.line}: {one.fault}", file=sys.stderr)
    if found.wrong:
        raise BadFileError(f"{journal}: {len(found.wrong)} answers do not hold")


@app.command("status")
def _status(
    journal: Annotated[Path, file_argument("Journal of a service.", metavar="JOURNAL")], as_json: Json = False
) -> None:
    """Show how a service does, from its journal alone, on a screen of 80 x 24."""
    from allocopt.live.view import Follower, status_lines

    view = Follower(journal).view
    if as_json:
        print(json.dumps(view.summary(time.time()), allow_nan=False))
    else:
        print("\n".join(status_lines(view, time.time())))


@app.command("page")
def _page(
    journal: Annotated[Path, file_argument("Journal of a service.", metavar="JOURNAL")],
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of this machine; 0 takes a free one.")] = 8642,
) -> None:
    """Serve a local page of a service, from its journal alone, and metrics for Prometheus at /metrics.

    On 127.0.0.1 alone, read only, until Ctrl-C.
    """
    from allocopt.live.page import LivePage, PageServer
    from allocopt.live.view import Follower

    with PageServer(LivePage(Follower(journal)), port) as server:
        print(f"{server} until Ctrl-C; metrics at /metrics", flush=True)
        server.serve_forever()
