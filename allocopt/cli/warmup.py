"""``allocopt warmup``."""

import time


def command() -> None:
    """Compile all kernels now, so that no later command has to; run this once before you start many processes."""
    from allocopt.kernels.ready import all_kernels, make_ready

    started = time.perf_counter()
    kernels = all_kernels()
    # Skip stored kernels: loading them takes time, and nothing is run here.
    make_ready(entry for entry in kernels if entry.store.find() is None)
    print(f"all {len(kernels)} kernels are compiled ({time.perf_counter() - started:.1f} s)")
