"""The program ``allocopt``: its commands, and how it reports errors."""

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
"""Smallest address space, in bytes, with which a command is run."""

COMMANDS = {
    "solve": "Solve instances and verify every answer.",
    "verify": "Check a solution against its instance.",
    "bench": "Compare solvers on instances.",
    "generate": "Generate instances and workloads.",
    "simulate": "Simulate a trace under a scheduling policy.",
    "train": "Train a network.",
    "reproduce": "Reproduce a table or figure of a paper.",
    "calibrate": "Fit an execution model to measurements.",
    "what-if": "Compare allocators and schedulers on a site's own files.",
    "place-pods": "Place pods that ask for fractions of GPUs.",
    "relocate": "Plan which jobs stop or move so that a gang starts or nodes are drained.",
    "live": "Choose the nodes of jobs on a running cluster.",
    "serve": "Answer instances over HTTP on this machine.",
    "report": "Make one page of results.",
    "sweep": "Run a grid of solves or simulations.",
    "rerun": "Repeat the run of a result file, and compare the rows.",
    "fetch-trace": "Fetch a trace by name.",
    "convert": "Convert a workload or a topology.",
    "schema": "Print the JSON Schema of a file format.",
    "solvers": "List the installed solvers.",
    "doctor": "Print versions, and test every solver.",
    "warmup": "Compile all kernels now.",
}
"""Commands with their help; ``-`` in a name is ``_`` in the name of its module."""


def program(words: Sequence[str] | None = None) -> typer.Typer:
    """Return the program; only the command that is the first of ``words`` is loaded, or all commands if None.

    The others have only a name and a help text. Loading all commands takes longer than most of them run.
    """
    app = typer.Typer(
        name="allocopt",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Decide which nodes of a cluster each waiting job gets.",
        epilog="Exit codes: 0 an answer, 1 internal error, 2 usage, 3 bad input file, 4 no solution within the limit, "
        "5 missing optional package, 130 interrupted. All times are in seconds.",
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
        """Take the options before the command."""

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
    """Run the program; report an expected error as one line on stderr and an exit code."""
    _prepare_streams()
    try:
        _run()
    except AllocoptError as error:
        print(f"allocopt: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt as interruption:
        # The arguments state which results are kept, if the command reported that.
        print("; ".join(["allocopt: interrupted", *map(str, interruption.args)]), file=sys.stderr)
        sys.exit(130)
    except MemoryError as error:
        # Drop the frames of the traceback, to free their memory before printing.
        error.__traceback__ = error.__context__ = None
        print("; ".join(["allocopt: out of memory", *getattr(error, "__notes__", ())[:1]]), file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        if error.filename is not None:
            # An error that no reader of files handled, such as a name that is too long.
            print(f"allocopt: {bad_file(str(error.filename), os_fault(error))}", file=sys.stderr)
            sys.exit(BadFileError.exit_code)
        # The reader of the output has closed it (typer, too, ends with 1), or the system refused something else.
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
            # `open` takes the lowest free descriptor, which is this one. Otherwise a later file would get it.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        # Standard output was closed (`>&-`): discard what is printed.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Escape characters that the terminal's encoding does not have.
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stderr is None:
        # Otherwise `print(file=sys.stderr)` would write to standard output.
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)


def _run() -> None:
    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **line: Any) -> None:
        if category is PluginWarning:
            # One line, as for errors, without the place in the source.
            print(f"allocopt: {message}", file=sys.stderr)
        else:
            others(message, category, *place, **line)

    with suppress(ImportError):
        # Windows has no such limits.
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        # The interpreter may hang if it runs out of memory while it loads a module.
        if limit not in (resource.RLIM_INFINITY, -1) and limit < _LEAST_MEMORY:
            error = MemoryError()
            needed = f"at least {_LEAST_MEMORY >> 20} MiB are needed"
            error.add_note(f"the limit of a process is {limit >> 20} MiB (ulimit -v), {needed}")
            raise error
    # For a completion the shell passes the command line in the environment; which variable depends on the shell.
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS")
    with termination_interrupts(), warnings.catch_warnings():
        warnings.showwarning = show
        try:
            # A fixed name, because shells ask for completions by it; the default depends on how Python was started.
            program(sys.argv[1:] if line is None else line.split()[1:])(prog_name="allocopt")
        except SystemExit as ended:
            # typer turns Ctrl-C into a silent exit.
            cause = ended.__context__ and ended.__context__.__cause__
            if isinstance(cause, KeyboardInterrupt):
                raise cause from None
            raise
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
