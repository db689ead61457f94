"""``allocopt serve``."""

from pathlib import Path
from typing import Annotated

import typer

from allocopt.cli.options import file_option
from allocopt.cli.parameters import names_of


def command(
    socket: Annotated[
        Path | None, file_option("Unix socket to answer on; if not given, a port of this machine.", metavar="FILE")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of 127.0.0.1; 0 takes a free one.")] = 8643,
    solver: Annotated[
        str, typer.Option(autocompletion=names_of("solvers"), help="Solver of requests that name none.")
    ] = "auto",
    time_limit: Annotated[float, typer.Option(help="Seconds for each, where a request tells none.")] = 1.0,
    most_mib: Annotated[int, typer.Option(min=1, max=1024, help="MiB of the largest instance.")] = 16,
) -> None:
    """Answer instances with verified solutions over HTTP, on this machine alone, until Ctrl-C.

    POST an instance to /solve?solver=S&strategy=S&time_limit=T&iterations=N&gap=G&seed=N; GET /healthz tells that
    it runs.
    """
    from allocopt.experiments.specs import SolveSpec
    from allocopt.serve import SolveServer, Solving

    solving = Solving(SolveSpec(instances=["request"], solver=solver, time_limit=time_limit))
    solving.check()
    with SolveServer(solving, port if socket is None else socket, most_mib << 20) as server:
        solving.make_ready()
        print(f"answers on {server}, until Ctrl-C", flush=True)
        server.serve_forever()
