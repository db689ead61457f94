"""Kills guests whose service was killed: ``python -m allocopt.live.hosting.guard``.

It reads a line for each control group of a guest: ``+FOLDER`` before the group is made, ``-FOLDER`` after it is
removed. At the end of its input the service is gone, and it kills all processes of the groups that are left.
"""

import signal
import sys
from contextlib import suppress
from pathlib import Path

from allocopt.live.hosting.control_groups import clear


def main() -> None:
    """Wait for the end of the service, and kill the guests that it left."""
    # Ctrl-C ends the service, which then ends the guard.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    folders: dict[str, None] = {}
    for line in sys.stdin:
        if line[:1] == "+":
            folders[line[1:].rstrip("\n")] = None
        else:
            folders.pop(line[1:].rstrip("\n"), None)
    for folder in folders:
        with suppress(OSError):
            clear(Path(folder))


if __name__ == "__main__":
    main()
