"""``allocopt warmup``."""

import time


def command() -> None:
    """Compile all kernels now, so that no later command has to; do this once before fanning out."""
    from allocopt.cli.loading import load_solver
    from allocopt.errors import MissingPackageError
    from allocopt.solving.registry import solver_names

    started = time.perf_counter()
    for name in solver_names():
        try:
            load_solver(name)
        except MissingPackageError as error:
            print(f"left out: {error}")
    print(f"all kernels are compiled ({time.perf_counter() - started:.1f} s)")
