"""Child processes that run modules of this package, with the import path of this process.

They are started with ``-P``. Without it Python would look for modules in the current folder first, and run a file
``numba.py`` that somebody has put there.
"""

import os
import sys
from pathlib import Path


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module, such as ``allocopt``, in another Python process."""
    return [sys.executable, "-P", "-m", module, *arguments]


def user_environment() -> dict[str, str]:
    """Return the environment with which this process was started, for programs of users."""
    words = Path("/proc/self/environ").read_bytes().split(b"\0")
    return {
        os.fsdecode(name): os.fsdecode(value) for name, _, value in (word.partition(b"=") for word in words) if name
    }


def child_environment(**variables: str) -> dict[str, str]:
    """Return the environment of this process with its import path and further variables."""
    # The child finds modules in the current folder only if this process does.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, "PYTHONPATH": path, **variables}
