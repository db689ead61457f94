"""The folder of a user's cache."""

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """Return the folder for what can be made or fetched again; None for a user without a home.

    It is ``$XDG_CACHE_HOME/allocopt``, or ``~/.cache/allocopt`` where that is not set. Relative paths are ignored, as
    the XDG Base Directory Specification asks: whoever made the current folder could have put anything there.
    """
    given, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~")
    if os.path.isabs(given):
        return Path(given) / "allocopt"
    return Path(home) / ".cache" / "allocopt" if os.path.isabs(home) else None
