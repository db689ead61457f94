"""The program ``allocopt``, and ``python -m allocopt``."""

import gc
import os
import signal
import sys


def main() -> None:
    """Run the program; see `allocopt.cli.main.main`."""
    # Collect garbage less often: hardly any of the thousands of objects made at the start is garbage.
    gc.set_threshold(50_000)
    # Starting threads takes a tenth of a second, and no command multiplies matrices large enough for that to pay.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # To look for its plug-ins, pydantic would read the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Otherwise processes that multiprocessing starts would look for modules in the current folder first.
    if not {"", os.getcwd()} & set(sys.path):
        os.environ.setdefault("PYTHONSAFEPATH", "1")
    # While modules are loaded, Ctrl-C ends the process immediately; afterwards the program handles it.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from allocopt.cli.main import main

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


# Worker processes import the main module again, under the name ``__mp_main__``.
if __name__ == "__main__":
    main()
