"""Child processes that run modules of this package, with the same modules that this process imports.

They are started with ``-P``: without it Python puts the current folder on the path first, and a file ``numba.py`` that
somebody left there would be run.
"""

import os
import sys
from pathlib import Path


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module, such as ``allocopt``, in another Python."""
    return [sys.executable, "-P", "-m", module, *arguments]


def user_environment() -> dict[str, str]:
    """Return the environment that this process was started with, for programs of users."""
    words = Path("/proc/self/environ").read_bytes().split(b"\0")
    return {
        os.fsdecode(name): os.fsdecode(value) for name, _, value in (word.partition(b"=") for word in words) if name
    }


def child_environment(**variables: str) -> dict[str, str]:
    """Return this process's environment with its import path, and with further variables."""
    # The current folder is on the path of the child only if it is on this process's.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, "PYTHONPATH": path, **variables}
