"""``allocopt train``."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import file_option

if TYPE_CHECKING:
    from allocopt.training import TrainingProgress

_BETWEEN_LINES_S = 10.0
"""Seconds between two lines of progress."""


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of a training; if not given, list all.")
    ] = None,
    network: Annotated[
        str | None, typer.Option(help="Train this network, such as cnn-3; short for --option network=...")
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Learn from this workload, or several, comma-separated; short for --option trace=..."
        ),
    ] = None,
    processors: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Set the size of the machine, or several sizes; short for --option processors=..."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="FILES",
            help="Describe the cluster of the jobs by these files; short for --option cluster=...",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Set the seed of all random choices; seeds of shipped windows are refused.")
    ] = 0,
    minutes: Annotated[
        float | None, typer.Option(min=0.0, help="Stop after this many minutes of wall clock; --resume continues.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint in the folder.")] = False,
    out: Annotated[
        Path | None, file_option("Write weights, learning curve and checkpoint to this folder; default: trained/...")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="Set an option of the training by NAME=VALUE.")
    ] = None,
) -> None:
    """Train a network; write weights.safetensors, curve.csv and, with the extra plot, curve.svg to a folder.

    An interrupted training continues with --resume, and ends with the same weights as one that was not interrupted.
    Needs the extra train (torch).
    """
    from allocopt.cli.spec_options import parse_options
    from allocopt.training import TrainingRequest, get_training, training_names

    if name is None:
        print("\n".join(training_names()))
        return
    names = {"network": network, "trace": trace, "processors": processors, "cluster": cluster}
    named = {key: value for key, value in names.items() if value is not None}
    training = get_training(name, {**parse_options(option or []), **named})
    folder = out or Path("trained") / f"{training.label}-seed-{seed}"
    # The command is stored with the weights, which may be published: leave out the user's folders.
    files = {key: ",".join(Path(file).name for file in value.split(",")) for key, value in named.items()}
    given = [*files.items(), ("seed", str(seed)), *(("option", text) for text in option or [])]
    command_line = " ".join(["allocopt", "train", name, *(f"--{key} {value}" for key, value in given)])
    progress, printed = None, time.monotonic()
    for progress in training.train(TrainingRequest(folder, seed, minutes, resume, command_line)):
        if time.monotonic() - printed >= _BETWEEN_LINES_S:
            printed = time.monotonic()
            print(_line(progress), file=sys.stderr, flush=True)
    if progress is not None:
        print(_line(progress), file=sys.stderr)
        finished = progress.done == progress.total
        print(folder / "weights.safetensors" if finished else f"{folder}: stopped; --resume continues from here")
        print("".join(f"{remark}\n" for remark in progress.remarks), end="")


def _line(progress: "TrainingProgress") -> str:
    measures = " ".join(f"{name} {value:.4g}" for name, value in progress.measures.items())
    return f"{100 * progress.share:5.1f} % ({progress.done}/{progress.total}) {measures}"
