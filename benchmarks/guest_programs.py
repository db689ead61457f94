"""Small programs that run as hosts or as guests: ``python benchmarks/guest_programs.py KIND SECONDS``.

They do a fixed amount of work, which takes about SECONDS on a core of their own. They print the times of their begin
and end, and the begin of each busy phase, in seconds since 1970.
"""

import os
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping

PHASE_S = 3.0
_BLOCK = bytes(1 << 20)


def busy(seconds: float) -> None:
    """Compute for some seconds of processor time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(1000))


def reads_and_writes(seconds: float) -> None:
    """Write to a file and wait for it, in as many steps as take the given seconds without other programs."""
    with tempfile.TemporaryFile() as file:
        for _ in range(round(seconds / 0.1)):
            file.seek(0)
            file.write(_BLOCK)
            os.fsync(file.fileno())
            busy(0.01)
            time.sleep(0.08)


def streams(seconds: float) -> None:
    """Copy 64 MiB repeatedly for some seconds of processor time."""
    memory = bytearray(1 << 26)
    until = time.process_time() + seconds
    while time.process_time() < until:
        memory[:] = bytes(memory)


def phases(seconds: float) -> None:
    """Wait and compute in turn, for equal times."""
    for _ in range(round(seconds / (2 * PHASE_S))):
        time.sleep(PHASE_S)
        print(f"busy {time.time()}", flush=True)
        busy(PHASE_S)


PROGRAMS: Mapping[str, Callable[[float], None]] = {
    "cpu": busy,
    "io": reads_and_writes,
    "memory": streams,
    "mixed": phases,
}


def main() -> None:
    """Run one program."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=PROGRAMS)
    parser.add_argument("seconds", type=float)
    asked = parser.parse_args()
    print(f"begins {time.time()}", flush=True)
    PROGRAMS[asked.kind](asked.seconds)
    print(f"ends {time.time()}", flush=True)


if __name__ == "__main__":
    main()
