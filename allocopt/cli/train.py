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
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="What to train; if not given, the list.")] = None,
    network: Annotated[
        str | None, typer.Option(help="Which of its networks, such as cnn-3; the same as an option.")
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Workload to learn from; several separated by commas; the same as an option."
        ),
    ] = None,
    processors: Annotated[
        str | None,
        typer.Option(metavar="N", help="Size of the machine; several separated by commas; the same as an option."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="FILES",
            help="Files of a cluster on which the jobs ran, separated by commas; the same as an option.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Fixes every random choice; seeds of shipped windows are refused.")
    ] = 0,
    minutes: Annotated[
        float | None, typer.Option(min=0.0, help="Stop after so many minutes of wall clock; --resume goes on.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in the folder.")] = False,
    out: Annotated[
        Path | None, file_option("Folder for weights, learning curve and checkpoint; if not given, trained/...")
    ] = None,
    option: Annotated[list[str] | None, typer.Option("--option", help="NAME=VALUE, an option of the training.")] = None,
) -> None:
    """Train a network: writes weights.safetensors, curve.csv and, with the extra plot, curve.svg to a folder.

    A training that was cut off goes on with --resume and ends with the same weights as one that was not. Needs the
    extra train (torch).
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
    # The command is kept with the weights, which may be published: without the user's folders.
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
        print(folder / "weights.safetensors" if finished else f"{folder}: stopped; --resume goes on from here")
        print("".join(f"{remark}\n" for remark in progress.remarks), end="")


def _line(progress: "TrainingProgress") -> str:
    measures = " ".join(f"{name} {value:.4g}" for name, value in progress.measures.items())
    return f"{100 * progress.share:5.1f} % ({progress.done}/{progress.total}) {measures}"
