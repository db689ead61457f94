"""The user's cache folder."""

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """Return the folder for files that can be made or fetched again; None for a user without a home.

    It is ``$XDG_CACHE_HOME/allocopt``, or ``~/.cache/allocopt`` if that is not set. Relative paths are ignored, as the
    XDG Base Directory Specification requires: the owner of the current folder could have put anything there.
    """
    given, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~")
    if os.path.isabs(given):
        return Path(given) / "allocopt"
    return Path(home) / ".cache" / "allocopt" if os.path.isabs(home) else None
