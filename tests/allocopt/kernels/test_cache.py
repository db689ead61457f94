"""Kernels are kept where files can be made, in a private folder of the process if nowhere else."""

import os
import stat
from pathlib import Path

import numba
import pytest

from allocopt.kernels import cache


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder is given; what is set during the test is undone."""
    monkeypatch.setenv(cache.VARIABLE, "")
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setattr(numba.config, "CACHE_DIR", numba.config.CACHE_DIR)


@pytest.mark.usefixtures("nothing_set")
def test_where_nothing_can_be_written_a_private_folder_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_is_writable", lambda folder: False)
    cache.use_writable_cache()
    folder = Path(os.environ[cache.VARIABLE])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert str(folder) == numba.config.CACHE_DIR


@pytest.mark.usefixtures("nothing_set")
@pytest.mark.parametrize("place", ["source", "user"])
def test_where_a_folder_can_be_written_it_is_left_to_numba(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "there" / "yet"))
    writable = tmp_path if place == "user" else Path(cache.__file__).parent
    monkeypatch.setattr(cache, "_is_writable", lambda folder: folder == writable)
    cache.use_writable_cache()
    assert cache.VARIABLE not in os.environ
