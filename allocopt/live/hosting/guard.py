"""Ends guests whose service was killed: ``python -m allocopt.live.hosting.guard``.

It reads the folders of groups line by line, ``+FOLDER`` of one that was made and ``-FOLDER`` of one that is gone. The
end of its input means that the service is gone: then it kills all processes of the groups that are left.
"""

import signal
import sys
from pathlib import Path

from allocopt.live.hosting.control_groups import clear


def main() -> None:
    """Wait for the end of the service, and end what it left."""
    # Ctrl-C ends the service, and that the guard.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    folders: dict[str, None] = {}
    for line in sys.stdin:
        if line[:1] == "+":
            folders[line[1:].rstrip("\n")] = None
        else:
            folders.pop(line[1:].rstrip("\n"), None)
    for folder in folders:
        clear(Path(folder))


if __name__ == "__main__":
    main()
