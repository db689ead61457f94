"""The program ``allocopt``, and ``python -m allocopt``."""

import gc
import os
import signal
import sys


def main() -> None:
    """Run the program; see `allocopt.cli.main.main`."""
    # Thousands of objects are made at the start, and hardly any is garbage.
    gc.set_threshold(50_000)
    # No command multiplies matrices that are worth a second thread, and starting one takes a tenth of a second.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Looking for plug-ins of pydantic means to open what every installed package says of itself.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Processes that multiprocessing starts would look for modules in the current folder first.
    if not {"", os.getcwd()} & set(sys.path):
        os.environ.setdefault("PYTHONSAFEPATH", "1")
    # While modules are loaded, Ctrl-C ends the process at once; then the program answers it.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from allocopt.cli.main import main

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


# Processes that a sweep starts import the main module again, under the name ``__mp_main__``.
if __name__ == "__main__":
    main()
