"""Compiled kernels are kept where they can be, told apart by what they are made of, and made anew where damaged."""

import logging
import stat
from pathlib import Path
from typing import NamedTuple

import pytest
from numba import float64, int64
from support import tiny_kernels

from allocopt.arrays import IntArray
from allocopt.kernels import store
from allocopt.kernels.arrays import record_type
from allocopt.kernels.compiled import Helper, Kernel
from allocopt.kernels.store import KernelStore, writable_folder


def plain(x: int) -> int:
    return 2 * tiny_kernels.shifted.py_func(x)  # type: ignore[attr-defined]


def fresh() -> Kernel:
    """Make the kernel `doubled` as a new process has it."""
    return Kernel(tiny_kernels.doubled.py_func, int64(int64), {"_nrt": False})  # type: ignore[attr-defined]


def test_a_kernel_is_compiled_once_and_then_loaded(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert fresh()(4) == plain(4)
    assert len(list(folder.glob("*.kernel"))) == 1
    assert "compiling kernels" in caplog.text
    caplog.clear()
    again = fresh()
    again.load()
    assert not again.stats.cache_misses
    assert again(4) == plain(4)
    assert caplog.text == ""


def test_named_tuples_of_other_fields_ask_for_other_files() -> None:
    fields = [("first", int), ("second", int)]
    tables = fields, [("first", int), ("second", IntArray)], fields[::-1], fields
    pairs = [NamedTuple("Pair", table) for table in tables]  # type: ignore[misc]
    names = [KernelStore(plain, int64(record_type(pair)), {}).name for pair in pairs]
    assert len(set(names[:3])) == 3
    assert names[3] == names[0]


def test_arguments_are_converted_to_the_declared_types(folder: Path) -> None:
    half = Kernel(lambda x: x / 2, float64(float64), {"_nrt": False})
    assert half(3) == 1.5
    assert half(True) == 0.5
    with pytest.raises(TypeError):
        half("3")


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-1] + bytes([data[-1] ^ 1])])
def test_a_damaged_file_is_made_anew(folder: Path, damage) -> None:  # type: ignore[no-untyped-def]
    fresh().load()
    (path,) = folder.glob("*.kernel")
    path.write_bytes(damage(path.read_bytes()))
    assert fresh()(4) == plain(4)
    mended = fresh()
    assert mended(4) == plain(4)
    assert not mended.stats.cache_misses


def test_what_a_kernel_is_made_of_tells_its_files_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def name(signature: object = int64(int64), **options: object) -> str:
        return KernelStore(tiny_kernels.doubled.py_func, signature, options).name  # type: ignore[attr-defined]

    before = name()
    assert name() == before
    assert name(fastmath={"nnan", "ninf", "nsz"}) == name(fastmath={"nsz", "ninf", "nnan"}) != before
    assert name(float64(float64)) != before
    monkeypatch.setattr(tiny_kernels, "OFFSET", 4)
    assert name() != before
    monkeypatch.setattr(tiny_kernels, "OFFSET", 3)
    monkeypatch.setattr(tiny_kernels, "shifted", Helper(lambda x: x - 3, {}))
    assert name() != before


def test_a_new_version_takes_the_place_of_the_old_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh().load()
    monkeypatch.setattr(tiny_kernels, "shifted", Helper(lambda x: x - 3, {"_nrt": False}))
    assert fresh()(4) == 2
    assert len(list(folder.glob("*.kernel"))) == 1


def test_a_given_folder_that_cannot_be_made_is_named_and_another_is_taken(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("a file")
    assert writable_folder() == folder.parent / "installed"
    assert str(folder) in caplog.text


def test_what_was_compiled_for_all_users_is_loaded_by_each(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.VARIABLE, "")
    writable_folder.cache_clear()
    fresh().load()
    assert list((folder.parent / "installed").glob("*.kernel"))
    monkeypatch.setenv(store.VARIABLE, str(folder))
    writable_folder.cache_clear()
    again = fresh()
    again.load()
    assert not again.stats.cache_misses


def test_where_nothing_can_be_written_a_private_folder_is_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_is_writable", lambda folder: False)
    private = writable_folder()
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


def test_a_full_disk_is_told_with_the_folder_and_the_kernel_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with caplog.at_level(logging.WARNING):
        assert fresh()(4) == plain(4)
    assert f"cannot be stored in {folder}: No space left on device" in caplog.text
