"""The lock that keeps a second service off: a file in a folder that nobody else can write."""

import os
from pathlib import Path

import pytest

from allocopt.errors import UsageError
from allocopt.live.lock import is_private, lock_folder


def test_a_folder_of_the_user_alone_is_used_and_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    folder = lock_folder()
    assert (folder.parent, folder.stat().st_mode & 0o777) == (tmp_path, 0o700)


def test_a_folder_that_everybody_may_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    if os.geteuid() == 0:
        assert lock_folder() == Path("/run/allocopt")
    else:
        assert is_private(lock_folder(), os.geteuid())


@pytest.mark.parametrize("what", ["a link", "a file", "a folder for all"])
def test_what_somebody_has_put_in_its_place_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    place = tmp_path / "allocopt"
    if what == "a link":
        (tmp_path / "there").mkdir()
        place.symlink_to(tmp_path / "there")
    elif what == "a file":
        place.write_text("")
    else:
        place.mkdir()
        place.chmod(0o777)
    with pytest.raises(UsageError, match=str(place)):
        lock_folder()
