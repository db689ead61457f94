"""The program ``allocopt``: its commands, and what it answers to an error."""

import io
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import typer

from allocopt.errors import AllocoptError, BadFileError, PluginWarning
from allocopt.files.faults import bad_file, os_fault
from allocopt.interruption import termination_interrupts
from allocopt.version import __version__

_LEAST_MEMORY = 2**29
"""Bytes of address space below which no command is tried."""

COMMANDS = {
    "solve": "Solve instances and verify every answer.",
    "verify": "Check a solution against its instance.",
    "bench": "Compare solvers on instances.",
    "generate": "Generate instances and workloads.",
    "simulate": "Simulate a trace under a scheduling policy.",
    "train": "Train a network.",
    "reproduce": "Do a table or figure of a paper again.",
    "calibrate": "Fit an execution model to measurements.",
    "what-if": "Compare allocators and schedulers on a site's own files.",
    "place-pods": "Place pods that ask for fractions of GPUs.",
    "relocate": "Say who stops or moves, so that a gang starts or nodes are emptied.",
    "live": "Choose nodes of jobs on a cluster that runs.",
    "serve": "Answer instances over HTTP on this machine.",
    "report": "Make one page of results.",
    "sweep": "Run a grid of solves or simulations.",
    "rerun": "Run again what a result file holds, and compare.",
    "fetch-trace": "Fetch a trace by name.",
    "convert": "Convert a workload or a topology.",
    "schema": "Print the JSON Schema of a file format.",
    "solvers": "List the installed solvers.",
    "doctor": "Print versions, and let every solver solve.",
    "warmup": "Compile all kernels now.",
}
"""The commands by the names of their modules."""


def program(words: Sequence[str] | None = None) -> typer.Typer:
    """Return the program with the command that these words ask for, the others by name only; with all for None.

    Loading and describing all of them takes longer than most of them run.
    """
    app = typer.Typer(
        name="allocopt",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Decide which nodes of a cluster each waiting job gets.",
        epilog="Exit codes: 0 an answer, 1 internal error, 2 usage, 3 bad input file, 4 no solution within the limit, "
        "5 a missing optional package, 130 interrupted. All times are in seconds.",
    )

    def print_version(asked: bool) -> None:
        if asked:
            print(f"allocopt {__version__}")
            raise typer.Exit

    @app.callback()
    def options(
        version: bool = typer.Option(
            False, "--version", callback=print_version, is_eager=True, help="Print the version."
        ),
    ) -> None:
        """Take the options that stand before a command."""

    for name, about in COMMANDS.items():
        if words is not None and name not in words[:1]:
            app.command(name, help=about)(lambda: None)
            continue
        module = import_module(f"allocopt.cli.{name.replace('-', '_')}")
        if hasattr(module, "app"):
            if hasattr(module, "add_commands"):
                module.add_commands()
            app.add_typer(module.app, name=name, short_help=about)
        else:
            command_class = getattr(module.command, "command_class", None)
            app.command(name, cls=command_class, short_help=about)(module.command)
    return app


def main() -> None:
    """Run the program; an expected error is one line on stderr and an exit code."""
    _prepare_streams()
    try:
        _run()
    except AllocoptError as error:
        print(f"allocopt: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt as interruption:
        # What a command has to say of what is kept comes with it.
        print("; ".join(["allocopt: interrupted", *map(str, interruption.args)]), file=sys.stderr)
        sys.exit(130)
    except MemoryError as error:
        # What the functions that it came through hold is given back before anything is printed.
        error.__traceback__ = error.__context__ = None
        print("; ".join(["allocopt: out of memory", *getattr(error, "__notes__", ())[:1]]), file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        if error.filename is not None:
            # A file that nobody expected to be refused, such as one whose name is too long.
            print(f"allocopt: {bad_file(str(error.filename), os_fault(error))}", file=sys.stderr)
            sys.exit(BadFileError.exit_code)
        # Whoever reads the output has seen enough, or there is no room for it; typer ends with 1 in the first case too.
        if not isinstance(error, BrokenPipeError):
            print(f"allocopt: the system refused: {os_fault(error)}", file=sys.stderr)
        # Keep the interpreter from complaining when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


def _prepare_streams() -> None:
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # It takes the lowest free number, which is this one, so that no other file gets it.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        # It was closed (`>&-`): what is printed goes nowhere.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal's encoding does not have is escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stderr is None:
        # `print` would turn to standard output.
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)


def _run() -> None:
    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **line: Any) -> None:
        if category is PluginWarning:
            # In a line, as our errors are, without the place in the source.
            print(f"allocopt: {message}", file=sys.stderr)
        else:
            others(message, category, *place, **line)

    with suppress(ImportError):
        # Windows has no such limits.
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        # The interpreter itself may hang when memory ends while it loads a module.
        if limit not in (resource.RLIM_INFINITY, -1) and limit < _LEAST_MEMORY:
            error = MemoryError()
            needed = f"at least {_LEAST_MEMORY >> 20} are needed"
            error.add_note(f"a process may have {limit >> 20} MiB (ulimit -v), {needed}")
            raise error
    # A shell that completes a line tells it in the environment, each in a way of its own.
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS")
    with termination_interrupts(), warnings.catch_warnings():
        warnings.showwarning = show
        try:
            # Else the name, by which a shell asks for completions, is that of whatever began the interpreter.
            program(sys.argv[1:] if line is None else line.split()[1:])(prog_name="allocopt")
        except SystemExit as ended:
            # typer makes a silent exit of Ctrl-C.
            cause = ended.__context__ and ended.__context__.__cause__
            if isinstance(cause, KeyboardInterrupt):
                raise cause from None
            raise
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
