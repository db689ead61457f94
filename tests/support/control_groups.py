"""Whether control groups may be written here, which tests of guests need."""

import os
from contextlib import suppress

import pytest

from allocopt.errors import UsageError
from allocopt.live.hosting.control_groups import Group, find_version, group_name


def _may_write() -> bool:
    with suppress(UsageError, OSError):
        version = find_version()
        place = version.place_beside(os.getpid(), 1)
        group = Group(place.parent / group_name(0), version, place.host_weight)
        group.create()
        group.folder.rmdir()
        return True
    return False


needs_control_groups = pytest.mark.skipif(not _may_write(), reason="needs control groups that may be written")
