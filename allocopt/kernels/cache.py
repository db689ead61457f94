"""Where compiled kernels are kept: beside the source, else for the user, else for the process alone."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"


def use_writable_cache() -> None:
    """Give numba a temporary folder where it finds no other: it refuses to compile without one.

    The folder is new and private, for what lies in it is run; it is removed at the end of the process.
    """
    if VARIABLE in os.environ or _is_writable(Path(__file__).parent) or _has_user_cache():
        return
    folder = tempfile.mkdtemp(prefix="allocopt-kernels-")
    os.environ[VARIABLE] = folder
    if "numba" in sys.modules:
        # It has read its environment already.
        sys.modules["numba"].config.CACHE_DIR = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _has_user_cache() -> bool:
    """Whether the user has a cache folder, or one can be made."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~")) / ".cache")
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), None)
    return existing is not None and _is_writable(existing)


def _is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder."""
    return os.access(folder, os.W_OK | os.X_OK)
