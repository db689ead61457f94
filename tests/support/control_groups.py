"""Whether control groups may be written here, which tests of guests need."""

import os
from contextlib import suppress

import pytest

from allocopt.errors import UsageError
from allocopt.live.hosting.control_groups import Group, find_version


def _may_write() -> bool:
    with suppress(UsageError, OSError):
        Group.beside(os.getpid(), 0, find_version()).folder.rmdir()
        return True
    return False


needs_control_groups = pytest.mark.skipif(not _may_write(), reason="needs control groups that may be written")
