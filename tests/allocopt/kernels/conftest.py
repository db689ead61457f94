"""Empty folders of kernels."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from allocopt.kernels import ready, store


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give an empty folder, for which nobody compiles; those of the installation and of the user are empty too."""
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "given"))
    monkeypatch.setattr(store, "_installed", lambda: tmp_path / "installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(ready, "_workers", {})
    store.writable_folder.cache_clear()
    store._remark.cache_clear()
    yield tmp_path / "given"
    for worker in ready._workers.values():
        worker.kill()
        worker.wait()
    store.writable_folder.cache_clear()
