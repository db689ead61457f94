"""``allocopt serve``."""

from pathlib import Path
from typing import Annotated

import typer

from allocopt.cli.options import file_option
from allocopt.cli.parameters import names_of


def command(
    socket: Annotated[
        Path | None, file_option("Listen on this Unix socket; if not given, on --port.", metavar="FILE")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Listen on this port; 0 takes a free one.")] = 8643,
    solver: Annotated[
        str, typer.Option(autocompletion=names_of("solvers"), help="Use this solver if a request names none.")
    ] = "auto",
    time_limit: Annotated[float, typer.Option(help="Limit a solve to this many seconds by default.")] = 1.0,
    most_mib: Annotated[int, typer.Option(min=1, max=1024, help="Refuse instances larger than this, MiB.")] = 16,
) -> None:
    """Answer instances with verified solutions over HTTP, only on this machine, until Ctrl-C.

    POST an instance to /solve?solver=S&strategy=S&time_limit=T&iterations=N&gap=G&seed=N. GET /healthz reports that
    the server is running.
    """
    from allocopt.experiments.specs import SolveSpec
    from allocopt.serve import SolveServer, Solving

    solving = Solving(SolveSpec(instances=["request"], solver=solver, time_limit=time_limit))
    solving.check()
    with SolveServer(solving, port if socket is None else socket, most_mib << 20) as server:
        solving.make_ready()
        print(f"answers on {server}, until Ctrl-C", flush=True)
        server.serve_forever()
