"""``allocopt warmup``."""

import time
from importlib import import_module

from allocopt.cli.announcement import compilation_announced


@compilation_announced()
def command() -> None:
    """Compile all kernels now, so that no later command has to; do this once before fanning out."""
    from allocopt.errors import MissingPackageError, UsageError
    from allocopt.solving.registry import get_solver, solver_names

    started = time.perf_counter()
    import_module("allocopt.simulator.simulate")
    import_module("allocopt.simulator.multicore.simulation")
    import_module("allocopt.envs.kernels")
    import_module("allocopt.envs.dras.kernels")
    import_module("allocopt.envs.cush.episodes")
    import_module("allocopt.envs.policy_selection.episodes")
    for name in solver_names():
        try:
            get_solver(name)
        except (MissingPackageError, UsageError) as error:
            print(f"left out: {error}")
    print(f"all kernels are compiled ({time.perf_counter() - started:.1f} s)")
